"""Distributed benchmarks: data-parallel training compared with PyTorch, and a cost model."""
