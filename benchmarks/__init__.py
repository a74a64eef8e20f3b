"""Benchmarks: step time and memory compared with PyTorch. The engines take turns."""
