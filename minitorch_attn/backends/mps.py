"""Stand-in for `torch.backends.mps`: the GPU of Apple's computers is not supported."""


def is_available():
    """Return False."""
    return False


def is_built():
    """Return False."""
    return False
