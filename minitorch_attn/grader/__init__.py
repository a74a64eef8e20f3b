"""Grader: build assignments from the library, grade submissions in a sandbox, write reports."""
