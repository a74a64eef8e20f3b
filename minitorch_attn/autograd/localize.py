"""Find the operation whose own backward is wrong."""

__all__ = ["find_fault"]


def find_fault(check):
    return None
