"""Gradient checking: is `backward` the derivative of `forward`?

A gradient is compared with central differences of the function itself, one entry at a time, under
a random cotangent: sum(cotangent * output) has a slope in every direction, while the plain sum of
a softmax or a layer norm has none, and any wrong backward would pass there. What a check cannot
see is a wrong forward with a backward that fits it: test that by its properties.
"""

from ..tensor import Tensor

# The rest of the check is imported by its first use: most programs never make one.

__all__ = [
    "gradcheck",
    "gradcheck_module",
    "gradcheck_module_report",
    "gradcheck_report",
    "gradgradcheck",
    "gradgradcheck_report",
]


def gradcheck(fn, inputs, *, raise_exception=True, **options):
    """Compare the gradients of a function with central differences.

    Parameters
    ----------
    fn : callable
        Takes `inputs`, returns a Tensor or a tuple, list or dict with some. It must not change
        its inputs and must give the same result each time; dropout is fine, since every
        evaluation starts from the same seed.
    inputs : Tensor or sequence
        Arguments of `fn`. The float64 tensors that require grad are checked, the rest is passed
        on as it is.
    raise_exception : bool
        Raise when the check fails; otherwise return False.
    **options
        Those of `gradcheck_report`.

    Returns
    -------
    bool

    Raises
    ------
    GradcheckError
        With the whole report as its text, and as its attribute `report`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([0.5, -1.5], dtype=mt.float64, requires_grad=True)
    >>> gradcheck(lambda x: x * x * x, (x,))
    True
    """
    report = gradcheck_report(fn, inputs, **options)
    if raise_exception:
        report.raise_if_wrong()
    return report.ok


def gradcheck_report(fn, inputs, **options):
    """Compare the gradients of a function with central differences, and say what was found.

    Parameters
    ----------
    fn, inputs
        As for `gradcheck`.
    eps : float, default 1e-5
        The step.
    tol : float, default 1e-6
        A relative error from here on is wrong, over an input as a whole and at each entry.
    seed : int, default 0
        Of the random cotangent.
    fast : bool, default False
        Try three random directions per input instead of every entry.
    detail : int, default 2000
        With `fast`, an input that fails is checked entry by entry after all, if it has at most
        this many.
    names : sequence of str, optional
        What to call the inputs; by default the names of the parameters of `fn`.
    localize : bool, default True
        After a failure look for the operation whose own gradient is wrong.
    allow_float32 : bool, default False
        Check float32 too, where rounding alone makes errors of 1e-2 at this step.

    Returns
    -------
    GradcheckReport

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> class Cube(mt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad_y):
    ...         (x,) = ctx.saved
    ...         return grad_y * 6 * x * x
    >>> x = mt.tensor([0.5, -1.5], dtype=mt.float64, requires_grad=True)
    >>> report = gradcheck_report(Cube.apply, (x,))
    >>> report.ok, report.items[0].hints[0].kind
    (False, 'factor')
    """
    from .check import Check, Options

    inputs = _as_tuple(inputs)
    return Check(fn, inputs, Options.of(fn, inputs, options)).run()


def gradgradcheck(fn, inputs, grad_outputs=None, *, raise_exception=True, **options):
    """Compare second derivatives with central differences of the first.

    Parameters
    ----------
    fn, inputs
        As for `gradcheck`.
    grad_outputs : sequence of Tensor, optional
        The cotangents of the first derivative, checked as inputs too; random by default.
    raise_exception : bool
    **options
        Those of `gradcheck_report`.

    Returns
    -------
    bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([0.5, -1.5], dtype=mt.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x * x * x, x)
    True
    """
    report = gradgradcheck_report(fn, inputs, grad_outputs, **options)
    if raise_exception:
        report.raise_if_wrong()
    return report.ok


def gradgradcheck_report(fn, inputs, grad_outputs=None, **options):
    """Compare second derivatives with central differences of the first, and say what was found.

    The differences are taken of the backward pass as training runs it; the second derivative
    comes from the recorded one (`create_graph=True`). So a fused operation whose composed twin
    is another function fails here.

    Parameters
    ----------
    fn, inputs, grad_outputs
        As for `gradgradcheck`.
    **options
        Those of `gradcheck_report`.

    Returns
    -------
    GradcheckReport
    """
    from .check import Options, second_order_check

    inputs = _as_tuple(inputs)
    options = Options.of(fn, inputs, options, title="gradgradcheck")
    cotangents = None if grad_outputs is None else _as_tuple(grad_outputs)
    return second_order_check(fn, inputs, options, cotangents).run()


def gradcheck_module(module, *inputs, raise_exception=True, **options):
    """Check the gradients of all inputs and all parameters of a module.

    Parameters
    ----------
    module : Module
        With float64 parameters: `module.double()`.
    *inputs : Tensor or anything
        Arguments of the module. Floating-point tensors are checked whether or not they require
        grad, unless they hold infinities, as additive masks do.
    raise_exception : bool
    **options
        Those of `gradcheck_report`.

    Returns
    -------
    bool
    """
    report = gradcheck_module_report(module, *inputs, **options)
    if raise_exception:
        report.raise_if_wrong()
    return report.ok


def gradcheck_module_report(module, *inputs, **options):
    """Check all inputs and all parameters of a module, and say what was found.

    Parameters
    ----------
    module, *inputs
        As for `gradcheck_module`.
    **options
        Those of `gradcheck_report`.

    Returns
    -------
    GradcheckReport
    """
    from .numeric import argument_names

    arguments = tuple(_checkable(value) for value in inputs)
    parameters = dict(module.named_parameters())
    if options.get("names") is None:
        options["names"] = [*argument_names(module.forward, len(inputs)), *parameters]
    return gradcheck_report(
        lambda *values: module(*values[: len(arguments)]),
        (*arguments, *parameters.values()),
        **options,
    )


def _checkable(value):
    """A leaf with the values of a floating-point tensor; anything else as it is."""
    if not isinstance(value, Tensor) or value.requires_grad or value.dtype.kind != "f":
        return value
    finite = bool((value.array * 0 == 0).all())
    return value.detach().clone().requires_grad_() if finite else value


def _as_tuple(inputs):
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
