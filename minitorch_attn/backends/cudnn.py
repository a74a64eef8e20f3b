"""Stand-in for `torch.backends.cudnn`: its flags can be set, but have no effect."""

from contextlib import contextmanager

enabled = benchmark = deterministic = allow_tf32 = False


def is_available():
    """Return False."""
    return False


def version():
    """Return None."""


@contextmanager
def flags(enabled=False, benchmark=False, deterministic=False, allow_tf32=True, **options):
    """Context manager that accepts PyTorch's flags and does nothing."""
    yield
