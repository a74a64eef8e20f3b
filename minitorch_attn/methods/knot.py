"""The operations, which the methods call and which need Tensor first; tensor.py sets these."""

ops = None
inplace = None
