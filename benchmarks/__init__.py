"""Benchmarks: step time and memory compared with PyTorch, measured in alternation."""
