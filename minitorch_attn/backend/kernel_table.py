"""Table of the CUDA kernels, which replace the forward and backward passes of operations.

An operation does not mention its kernel. `Function.apply` calls `kernel_for` to find the kernel,
but only for arrays that are not on the host. `with_kernel` does the same for a plain function on
arrays. The package `kernels` fills the table when CUDA is first used.
"""

from functools import wraps

__all__ = ["array_types", "kernel_for", "kernels", "register", "with_kernel"]

kernels = {}  # operation -> class that replaces it
array_types = set()  # types of the arrays for which kernels run: empty until CUDA is first used


def register(function):
    """Return a class decorator that registers a kernel for an operation.

    The class has the static methods `forward` and `backward` of a Function, and
    `accepts(*arrays, **settings)`, which returns False for inputs that the kernel does not handle.
    `forward` must save the same arrays in the context as the operation's `forward`. The composed
    version, the second derivative and a checkpoint read these arrays, so they then work in the same
    way whether the kernel or the operation ran. A kernel that saves different arrays must define
    its own `composed`. A kernel of a plain function (see `with_kernel`), or of an optimizer's
    update, defines `run` instead of `forward` and `backward`.

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
    """Return the kernel of an operation for these inputs, or the operation if there is none.

    Parameters
    ----------
    function : type or function
        The operation.
    arrays : list of arrays, numbers and None
        Inputs. Kernels exist only for CUDA arrays.
    settings : dict
        Keyword arguments of the operation.
    """
    kernel = kernels.get(function)
    if kernel is None or array_types.isdisjoint(map(type, arrays)):
        return function
    return kernel if kernel.accepts(*arrays, **settings) else function


def with_kernel(function):
    """Decorate a function on arrays: CUDA arrays that its kernel accepts are passed to the kernel.

    The kernel's `accepts` and `run` take the arguments of the function, by position. The function's
    first argument is an array or a list of arrays. Only this argument is tested for CUDA arrays.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        Function with the same arguments, for which `register` can register a kernel.

    Examples
    --------
    >>> @with_kernel
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
    """

    @wraps(function)
    def run(first, *rest):
        if array_types:
            array = first[0] if type(first) is list and first else first
            kernel = kernels.get(run) if type(array) in array_types else None
            if kernel is not None and kernel.accepts(first, *rest):
                return kernel.run(first, *rest)
        return function(first, *rest)

    return run
