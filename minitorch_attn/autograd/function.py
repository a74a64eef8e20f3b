"""Function and Context: one operation forward, its derivative backward, and what is remembered.

The graph is made of Contexts. Each application of a Function makes one Context; its `edges` say
which Contexts made the inputs. A Tensor that requires grad but was made by no operation has a
`Leaf` as its node, where the gradient comes to rest.
"""

import weakref
from itertools import count

from .. import backend
from ..errors import DTypeError, GraphError
from ..kernels import find_kernel
from ..tensor import Tensor, ViewOf, wrap
from . import anomaly
from .modes import state

__all__ = ["Context", "Function", "Leaf"]

_next_number = count().__next__  # creation order is a topological order: inputs come first


class Leaf:
    """The end of the graph at a tensor of yours: gradients are added to its `.grad`.

    The tensor is held weakly, so that a gradient which itself has a graph
    (`create_graph=True`) makes no reference cycle with the tensor that carries it.
    """

    edges = ()
    hooks = None

    def __init__(self, tensor):
        self.number = _next_number()
        self.tensor = weakref.ref(tensor)
        self.after_accumulate = None

    def __repr__(self):
        return "<Leaf>"


class Context:
    """What one application of a Function remembers, and its node in the graph.

    Attributes
    ----------
    function : type
        The Function subclass.
    edges : tuple
        One per positional input: (node, output index) that made it, or None.
    needs_grad : tuple of bool
        One per positional input: is its gradient wanted?
    shapes, dtypes : tuple
        Of the inputs; None for numbers and absent inputs.
    settings : dict
        The keyword settings given to `apply`.
    """

    function = None
    edges = ()
    needs_grad = ()
    shapes = ()
    dtypes = ()
    settings = {}
    hooks = None
    created_at = None  # the traceback of the call, in anomaly mode
    outputs_like = None  # (shape, dtype) of each output, where there are several
    as_tensors = False  # `saved` gives Tensors: the backward pass itself is being recorded
    freed = False
    _saved = ()
    _sources = ()
    _constant = ()
    _intermediate = None

    def save(self, *arrays):
        """Keep inputs or outputs of this operation, by identity, for `backward`."""
        self._saved = arrays

    def constants(self, *arrays):
        """Keep arrays that have no derivative: indices, masks, random offsets."""
        self._constant = arrays

    def save_intermediate(self, *arrays):
        """Keep results from inside a fused operation.

        They belong to no tensor, so a second derivative cannot flow through them: under
        `create_graph=True` the engine differentiates the composed twin instead.
        """
        self._intermediate = arrays

    @property
    def saved(self):
        """What `save` kept: arrays, or Tensors of the graph under `create_graph=True`."""
        self._check_alive()
        for source, array in zip(self._sources, self._saved, strict=True):
            if source is not None and source[0][0] != source[1]:
                raise GraphError(
                    f"{self.function.__name__}.backward needs {source[3]}, a tensor of shape "
                    f"{array.shape}, which was changed in place after it was saved.",
                    got=f"version {source[0][0]}",
                    expected=f"version {source[1]}, as when the operation ran",
                    hint="use the out-of-place operation, or clone() before changing it",
                )
        if not self.as_tensors:
            return self._saved
        return tuple(
            array if source is None else _relink(array, source[2] or (self, source[4]))
            for source, array in zip(self._sources, self._saved, strict=True)
        )

    @property
    def constant(self):
        """What `constants` kept."""
        self._check_alive()
        return self._constant

    @property
    def intermediate(self):
        """What `save_intermediate` kept."""
        self._check_alive()
        return self._intermediate

    def _check_alive(self):
        if self.freed:
            raise GraphError(
                f"{self.function.__name__}.backward: the buffers it saved are already freed.",
                got="a second backward pass through the same graph",
                expected="one pass, after which saved buffers are dropped to free memory",
                hint="pass retain_graph=True to the first backward()",
            )

    def free(self):
        """Drop the saved arrays after a backward pass."""
        if self._saved or self._constant or self._intermediate is not None:
            self.freed = True
            self._saved = self._sources = self._constant = ()
            self._intermediate = None

    def _remember_sources(self, arrays, inputs, raw_outputs, outputs):
        """Pair each saved array with its version and its place in the graph."""
        sources = []
        for saved in self._saved:
            for i, array in enumerate(arrays):
                if array is saved:
                    value = inputs[i]
                    if isinstance(value, Tensor):
                        version = value._version
                        where = f"its input {i}"
                        edge = self.edges[i] or _NO_NODE
                        sources.append((version, version[0], edge, where, None))
                    else:
                        sources.append(None)
                    break
            else:
                for i, array in enumerate(raw_outputs):
                    if array is saved:
                        version = outputs[i]._version
                        sources.append((version, version[0], None, f"its output {i}", i))
                        break
                else:
                    raise GraphError(
                        f"{self.function.__name__}.forward: ctx.save takes inputs or outputs only.",
                        got=f"an array of shape {getattr(saved, 'shape', None)} that is neither",
                        hint="ctx.constants(...) for masks and indices, "
                        "ctx.save_intermediate(...) in a fused operation",
                    )
        self._sources = tuple(sources)

    def __repr__(self):
        return f"<{self.function.__name__}>"


_NO_NODE = (None, 0)


def _relink(array, edge):
    """A Tensor around a saved array, at the place in the graph that it came from."""
    return wrap(array, edge[0], edge[1])


class Function:
    """One mathematical operation: `forward` and, beneath it, `backward`.

    Subclasses define two static methods. `forward(ctx, *inputs, **settings)` takes raw arrays
    (or numbers, or None) and returns a raw array or a tuple of them. `backward(ctx, *grads)`
    takes dL/d(output) for each output and returns dL/d(input) for each positional input, None
    where there is none. Its lines run on arrays, and on Tensors under `create_graph=True`.

    Attributes
    ----------
    view : bool
        The output may share memory with the first input.
    composed : callable, optional
        The composed twin of a fused operation, `composed(ctx, *tensors, **settings)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> class Square(mt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad_y):
    ...         (x,) = ctx.saved
    ...         return grad_y * 2 * x
    >>> x = mt.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor([6.])
    """

    view = False
    composed = None

    @staticmethod
    def forward(ctx, *inputs, **settings):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError

    @classmethod
    def call(cls, *inputs, **settings):
        """Run on whatever is given: arrays in, arrays out; any Tensor in, Tensors out."""
        for value in inputs:
            if isinstance(value, Tensor):
                return cls.apply(*inputs, **settings)
        ctx = Context()
        ctx.function = cls
        ctx.needs_grad = (False,) * len(inputs)
        return cls.forward(ctx, *inputs, **settings)

    @classmethod
    def apply(cls, *inputs, **settings):
        """Run `forward` on the arrays inside the tensors and record what `backward` needs.

        Parameters
        ----------
        *inputs : Tensor, number or None
        **settings
            Passed to `forward`; never tensors that need a gradient.

        Returns
        -------
        Tensor or tuple of Tensor
        """
        ctx = Context()
        ctx.function = cls
        ctx.settings = settings
        arrays, edges, recording = [], [], False
        for value in inputs:
            if isinstance(value, Tensor):
                arrays.append(value.array)
                node = value._node if value._view is None else value._current_node()
                if node is None:
                    edges.append(None)
                else:
                    edges.append((node, value._index))
                    recording = True
            else:
                arrays.append(value)
                edges.append(None)
        recording = recording and state.grad_enabled
        ctx.needs_grad = tuple([recording and edge is not None for edge in edges])
        if len(arrays) > 1:
            backend.check_same_device(arrays, cls.__name__)
        raw = (find_kernel(cls, arrays) or cls.forward)(ctx, *arrays, **settings)
        if type(raw) is tuple:
            outputs = tuple([wrap(backend.as_array(r)) for r in raw])
            differentiable = [output for output in outputs if output.dtype.kind == "f"]
        else:
            outputs = wrap(backend.as_array(raw))
            differentiable = (outputs,) if outputs.array.dtype.kind == "f" else ()
        if recording and differentiable:
            ctx.edges = tuple(edges)
            _record(ctx, inputs, arrays, raw, outputs)
        if cls.view:
            _link_views(cls, settings, inputs[0], outputs)
        if state.tracers:
            for tracer in state.tracers:
                tracer.record_forward(ctx, inputs, outputs)
        if state.anomaly:
            anomaly.check_forward(ctx, outputs)
        return outputs


def _record(ctx, inputs, arrays, raw, outputs):
    """Make `ctx` a node of the graph: number it, link the outputs, remember what was saved."""
    ctx.number = _next_number()
    ctx.shapes = tuple([getattr(a, "shape", None) for a in arrays])
    ctx.dtypes = tuple([getattr(a, "dtype", None) for a in arrays])
    if type(outputs) is tuple:
        ctx.outputs_like = tuple([(o.array.shape, o.array.dtype) for o in outputs])
        for index, output in enumerate(outputs):
            if output.array.dtype.kind == "f":
                output._node, output._index = ctx, index
    else:
        outputs._node = ctx
        raw, outputs = (raw,), (outputs,)
    if ctx._saved:
        ctx._remember_sources(arrays, inputs, raw, outputs)
    fused = ctx._intermediate is not None
    if fused and ctx.function.composed is None:
        raise DTypeError(
            f"{ctx.function.__name__} saves intermediates but has no composed twin.",
            hint="define composed(ctx, *inputs, **settings) beside backward",
        )


def _link_views(function, settings, source, outputs):
    """Outputs that share memory with `source` share its version and can be replayed from it."""
    base = source if source._view is None else source._view.base
    several = type(outputs) is tuple
    for index, output in enumerate(outputs if several else (outputs,)):
        if backend.shares_memory(output.array, source.array):
            output._version = source._version
            which = index if several else None
            output._view = ViewOf(source, function, settings, which, base, base._node)
