"""Scaling benchmarks: how the cost of a step grows with the sizes of the model and the input."""
