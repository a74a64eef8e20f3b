"""Declare what a function computes, so that assignments can find all functions that compute it."""

__all__ = ["computes"]


def computes(*names, reveals=()):
    """Declare what a function, or every method of a class, computes.

    An assignment in which students write a function removes all other functions that declare the
    same name, so a new fused version is removed as soon as it has a declaration. The declaration
    changes nothing at run time. `grader/build/declared.py` reads it from the source text.

    Parameters
    ----------
    *names : str
        Names of what is computed, such as "attention".
    reveals : tuple of str
        Other computations that the code gives away. For example, attention reveals the softmax: an
        assignment on the softmax removes attention, but one on attention keeps the softmax.

    Examples
    --------
    >>> @computes("square")
    ... def square(x):
    ...     return x * x
    >>> square.computes
    ('square',)
    """

    def declare(target):
        target.computes, target.reveals = names, reveals
        return target

    return declare
