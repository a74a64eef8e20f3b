"""Gradcheck: compare the gradients of `backward` with central differences of `forward`.

Each entry of a gradient is compared with a central difference of `sum(cotangent * output)`. The
cotangent, which stands for the output's gradient, is random. A plain sum, with a cotangent of ones,
is not enough: the sum of a softmax or a layer norm is constant, so a backward that returns zeros
would pass. A check cannot detect a wrong forward with a matching backward, so test the forward
separately.
"""

from ..named_errors import names_arguments
from ..tensor import Tensor

# The rest of the check is imported on first use, because most programs do not need it.

__all__ = [
    "gradcheck", "gradcheck_module", "gradcheck_module_report", "gradcheck_report", "gradgradcheck",
    "gradgradcheck_report",
]  # fmt: skip


@names_arguments
def gradcheck(fn, inputs, *, raise_exception=True, **options):
    """Compare the gradients of a function with central differences.

    Parameters
    ----------
    fn : callable
        Function of `inputs` that returns a Tensor, or a tuple, list or dict with Tensors. The
        function must be deterministic and must not change its inputs. Dropout is supported, because
        every evaluation starts from the same seed.
    inputs : Tensor or sequence
        Arguments of `fn`. The float64 tensors that require grad are checked.
    raise_exception : bool
        Whether to raise an error if the check fails, instead of returning False.
    **options
        Options of `gradcheck_report`.

    Returns
    -------
    bool

    Raises
    ------
    GradcheckError
        If the check fails. Its message is the report, which is also in the attribute `report`.

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


@names_arguments
def gradcheck_report(fn, inputs, **options):
    """Compare the gradients of a function with central differences, and return a report.

    Parameters
    ----------
    fn, inputs
        As in `gradcheck`.
    eps : float, default 1e-5
        Step size of the differences.
    tol : float, default 1e-6
        Relative error above which a gradient counts as wrong, for a whole input and for each entry.
    seed : int, default 0
        Random seed for the cotangent.
    fast : bool, default False
        Whether to check three random directions of each input instead of every entry.
    detail : int, default 2000
        With `fast`, an input that fails is checked again, entry by entry, if it has at most this
        many entries.
    names : sequence of str, optional
        Names of the inputs. Default: the parameter names of `fn`.
    localize : bool, default True
        Whether, after a failure, to search for the operation whose gradient is wrong.
    allow_float32 : bool, default False
        Whether to allow float32, where rounding causes errors of 1e-2 at the default `eps`.

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


@names_arguments
def gradgradcheck(fn, inputs, grad_outputs=None, *, raise_exception=True, **options):
    """Compare second derivatives with central differences of first derivatives.

    Parameters
    ----------
    fn, inputs
        As in `gradcheck`.
    grad_outputs : sequence of Tensor, optional
        Gradients of the outputs (cotangents) from which the first derivative is computed. They are
        checked like inputs. Default: random numbers.
    raise_exception, **options
        As in `gradcheck`.

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


@names_arguments
def gradgradcheck_report(fn, inputs, grad_outputs=None, **options):
    """Report how second derivatives compare with central differences of first derivatives.

    The central differences use the backward pass that training uses. The second derivatives use the
    backward pass that `create_graph=True` records, with the composed version of each fused
    operation (the same computation in basic operations). The check therefore fails if the composed
    version of a fused operation computes a different function.

    Parameters
    ----------
    fn, inputs, grad_outputs
        As in `gradgradcheck`.
    **options
        Options of `gradcheck_report`.

    Returns
    -------
    GradcheckReport
    """
    from .check import Options, second_order_check

    inputs = _as_tuple(inputs)
    options = Options.of(fn, inputs, options, title="gradgradcheck")
    cotangents = None if grad_outputs is None else _as_tuple(grad_outputs)
    return second_order_check(fn, inputs, options, cotangents).run()


@names_arguments
def gradcheck_module(module, *inputs, raise_exception=True, **options):
    """Check the gradients of all inputs and all parameters of a module.

    Parameters
    ----------
    module : Module
        Module with float64 parameters; see `module.double()`.
    *inputs : Tensor or any value
        Arguments of the module. Floating-point tensors are checked even if they do not require
        grad, unless they contain NaN or infinities, as additive masks do.
    raise_exception, **options
        As in `gradcheck`.

    Returns
    -------
    bool
    """
    report = gradcheck_module_report(module, *inputs, **options)
    if raise_exception:
        report.raise_if_wrong()
    return report.ok


@names_arguments
def gradcheck_module_report(module, *inputs, **options):
    """Check all inputs and all parameters of a module, and return a report.

    Parameters
    ----------
    module, *inputs
        As in `gradcheck_module`.
    **options
        Options of `gradcheck_report`.

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
    """Copy a floating-point tensor to a leaf that requires grad; return other values unchanged."""
    if not isinstance(value, Tensor) or value.requires_grad or value.dtype.kind != "f":
        return value
    finite = bool((value.array * 0 == 0).all())
    return value.detach().clone().requires_grad_() if finite else value


def _as_tuple(inputs):
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
