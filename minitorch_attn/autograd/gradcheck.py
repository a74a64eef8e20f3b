"""Compare derived gradients with differences of the function itself."""

import numpy as np

from ..errors import NumericError
from ..tensor import Tensor
from .modes import enable_grad, no_grad

__all__ = ["gradcheck", "gradcheck_module", "gradgradcheck"]


def gradcheck(fn, inputs, *, eps=1e-5, tol=1e-6, seed=0, raise_exception=True):
    """Central differences in float64 against the backward pass, with a random cotangent."""
    from . import grad

    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    rng = np.random.default_rng(seed)

    def outputs():
        out = fn(*inputs)
        return [o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.kind == "f"]

    with enable_grad():
        outs = outputs()
    cotangents = [rng.standard_normal(o.shape) for o in outs]
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    from ..ops import tensor_like

    got = grad(outs, leaves, [tensor_like(c, o) for c, o in zip(cotangents, outs, strict=True)],
               allow_unused=True)

    def objective():
        with no_grad():
            return sum(float((o.numpy() * c).sum()) for o, c in zip(outputs(), cotangents, strict=True))

    for k, (leaf, g) in enumerate(zip(leaves, got, strict=True)):
        analytic = np.zeros(leaf.shape) if g is None else g.numpy()
        original = leaf.array
        numeric = np.zeros(leaf.shape)
        for i in np.ndindex(*leaf.shape):
            values = []
            for step in (eps, -eps):
                moved = leaf.numpy().copy()
                moved[i] += step
                leaf.array = tensor_like(moved, leaf).array
                values.append(objective())
                leaf.array = original
            numeric[i] = (values[0] - values[1]) / (2 * eps)
        error = np.abs(analytic - numeric).max(initial=0) / max(np.abs(numeric).max(initial=0), 1.0)
        if not error < tol:
            if not raise_exception:
                return False
            raise NumericError(f"gradcheck: input {k}: error {error:.2e}",
                               got=str(analytic), expected=str(numeric))
    return True


def gradgradcheck(fn, inputs, **options):
    """gradcheck of the gradient itself."""
    from . import grad

    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    rng = np.random.default_rng(1)
    from ..ops import tensor_like

    out = fn(*inputs)
    outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.kind == "f"]
    cotangents = [tensor_like(rng.standard_normal(o.shape), o).requires_grad_() for o in outs]
    n = len(inputs)

    def first(*args):
        out = fn(*args[:n])
        outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.kind == "f"]
        leaves = [x for x in args[:n] if isinstance(x, Tensor) and x.requires_grad]
        with enable_grad():
            found = grad(outs, leaves, list(args[n:]), create_graph=True, allow_unused=True)
        return tuple(f for f in found if f is not None)

    def recorded(*args):
        with enable_grad():
            return first(*args)

    return gradcheck(recorded, (*inputs, *cotangents), **options)


def gradcheck_module(module, *inputs, **options):
    """gradcheck of all inputs and all parameters of a module."""
    parameters = tuple(module.parameters())
    return gradcheck(lambda *args: module(*args[: len(inputs)]), (*inputs, *parameters), **options)
