"""Plumbing for the operations: argument checks, axes, dtype promotion, index parsing, windows."""
