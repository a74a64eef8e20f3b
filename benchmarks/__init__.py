"""Benchmarks: step time and memory compared with PyTorch, in alternating measurements."""
