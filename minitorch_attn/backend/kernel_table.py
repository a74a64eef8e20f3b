"""Table of the CUDA kernels: which operation has a kernel that replaces its forward and backward.

An operation does not mention its kernel. `kernel_for` is asked by `Function.apply`, and only for
arrays that are not on the host. The package `kernels` fills the table when CUDA is first used.
"""

__all__ = ["array_types", "kernel_for", "kernels", "register"]

kernels = {}  # operation -> class that replaces it
array_types = set()  # types of the arrays for which kernels run: empty until CUDA is first used


def register(function):
    """Return a class decorator that registers a kernel for an operation.

    The class has the static methods `forward` and `backward` of a Function, and
    `accepts(*arrays, **settings)`, which returns False for inputs that the kernel does not handle.
    They save the same arrays in the context as the operation, so that the composed version, the
    second derivative and a checkpoint do not depend on which of the two ran. A kernel that saves
    something else has its own `composed`. A kernel of a plain function, or of an optimizer's
    update, has `run` in place of `forward` and `backward`.

    Parameters
    ----------
    function : type or function
        The operation: a Function subclass, a function on arrays, or an optimizer.
    """

    def enter(kernel):
        kernels[function] = kernel
        return kernel

    return enter


def kernel_for(function, arrays, settings):
    """Return what runs: the kernel of an operation, or the operation itself.

    Parameters
    ----------
    function : type or function
        The operation.
    arrays : list of arrays, numbers and None
        Inputs. Only for CUDA arrays is there a kernel.
    settings : dict
        Keyword arguments of the operation.
    """
    kernel = kernels.get(function)
    if kernel is None or array_types.isdisjoint(map(type, arrays)):
        return function
    return kernel if kernel.accepts(*arrays, **settings) else function
