"""Declare what a function computes, so that the grader can find all functions that compute it."""

__all__ = ["computes"]


def computes(*names, reveals=()):
    """Declare what a function, or every method of a class, computes.

    When students write a function in an assignment, the assignment removes all other functions that
    declare the same name. A new fused version is therefore removed too, once it declares the name.
    The declaration changes nothing at run time. `grader/build/declared.py` reads it from the source
    text.

    Parameters
    ----------
    *names : str
        Names of the computations, such as "attention".
    reveals : tuple of str
        Other computations whose solution a student could read in this code. For example, the code
        of attention reveals the softmax. An assignment on the softmax therefore removes attention,
        but an assignment on attention keeps the softmax.

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
