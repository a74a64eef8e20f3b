"""Function and Context: one operation forward, its derivative backward, and what is remembered.

The graph is made of Contexts. Each application of a Function makes one Context; its `edges` say
which Contexts made the inputs. A Tensor that requires grad but was made by no operation has a
`Leaf` as its node, where the gradient comes to rest.
"""

import weakref
from itertools import count

from numpy import ndarray

from .. import backend
from ..errors import GraphError
from ..kernels import TABLE as KERNELS
from ..kernels import find_kernel
from ..tensor import Tensor, ViewOf, changes, wrap
from . import anomaly, modes
from .modes import state

__all__ = ["Context", "Function", "Leaf"]

_known = {}


def shared(record):
    """One tuple for all that are equal, so that a graph has fewer containers.

    Python's garbage collector walks every container: with one list of shapes for each operation
    it takes a seventh of the time of a small operation, with shared tuples half of that.
    """
    try:
        return _known[record]
    except KeyError:
        if len(_known) > 10_000:  # shapes without end: start anew
            _known.clear()
        _known[record] = record
        return record


_next_number = count().__next__  # creation order is a topological order: inputs come first


class Leaf:
    """The end of the graph at a tensor of yours: gradients are added to its `.grad`.

    The tensor is held weakly, so that a gradient which itself has a graph
    (`create_graph=True`) makes no reference cycle with the tensor that carries it.
    """

    edges = ()
    hooks = None
    outputs_like = None
    after_accumulate = None

    def __init__(self, tensor):
        self.number = _next_number()
        self.tensor = weakref.ref(tensor)
        self.dtype = tensor.array.dtype  # what a gradient must have here

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
    needs_grad : list
        One per positional input: true (its edge) if its gradient is wanted, else None.
    shapes : tuple
        Of the inputs; None for numbers and absent inputs.
    settings : dict
        The keyword settings given to `apply`.
    """

    function = None
    edges = ()
    needs_grad = ()
    shapes = ()
    settings = {}
    dtype = None  # of the output
    outputs_like = None  # (shape, dtype) of each output, where there are several
    hooks = None
    created_at = None  # the line of the call, in anomaly mode
    as_tensors = False  # `saved` gives Tensors: the backward pass itself is being recorded
    holds = False  # something was kept for the backward pass
    freed = False  # True after a backward pass; in a checkpoint, what can bring the arrays back
    place = None  # there: which of its operations this is
    _saved = ()
    _sources = ()  # one per saved array: its index among the inputs, then the outputs
    _counters = ()  # one per saved array: the version counter of its tensor
    _clock = 0  # how many in-place changes there had been anywhere when the operation ran
    _constant = ()
    _intermediate = None

    def save(self, *arrays):
        """Keep inputs or outputs of this operation, by identity, for `backward`."""
        self._saved = arrays
        self.holds = True

    def constants(self, *arrays):
        """Keep arrays that have no derivative: indices, masks, random offsets."""
        self._constant = arrays
        self.holds = True

    def save_intermediate(self, *arrays):
        """Keep results from inside a fused operation.

        They belong to no tensor, so a second derivative cannot flow through them: under
        `create_graph=True` the engine differentiates the composed twin instead.
        """
        self._intermediate = arrays
        self.holds = True

    @property
    def saved(self):
        """What `save` kept: arrays, or Tensors of the graph under `create_graph=True`."""
        if changes[0] == self._clock and not self.as_tensors:
            return self._saved  # nothing anywhere was changed in place, and arrays will do
        if self.freed:
            self._bring_back()
        self._check_versions()
        return self._as_tensors() if self.as_tensors else self._saved

    @property
    def constant(self):
        """What `constants` kept."""
        if self.freed:
            self._bring_back()
        return self._constant

    @property
    def intermediate(self):
        """What `save_intermediate` kept."""
        if self.freed:
            self._bring_back()
        return self._intermediate

    def free(self):
        """Drop the saved arrays after a backward pass."""
        self.freed = True
        self._clock = -1
        self._saved = self._constant = ()
        self._intermediate = None

    def _remember_saved(self, arrays, inputs, raw, outputs):
        """Find each saved array among inputs and outputs, and the version counter of its tensor."""
        sources, counters, count = [], [], len(arrays)
        for source, saved in enumerate(self._saved):
            if source < count and saved is arrays[source]:  # most operations save in order
                tensor = inputs[source]
            elif saved is raw:
                source, tensor = count, outputs
            elif saved is None:
                source = tensor = None
            else:
                source, tensor = self._origin_of(saved, arrays, inputs, raw, outputs)
            sources.append(source)
            counters.append(tensor._version if isinstance(tensor, Tensor) else None)
        self._sources, self._counters = shared(tuple(sources)), counters

    def _origin_of(self, saved, arrays, inputs, raw, outputs):
        """(index, tensor) of a saved array among the inputs, then the outputs."""
        if type(raw) is not tuple:
            raw, outputs = (raw,), (outputs,)
        candidates = zip((*arrays, *raw), (*inputs, *outputs), strict=True)
        for source, (array, tensor) in enumerate(candidates):
            if array is saved:
                return source, tensor
        self._refuse_foreign(saved)

    def _as_tensors(self):
        """The saved arrays as Tensors, each at the place in the graph that it came from."""
        tensors = []
        for source, array in zip(self._sources, self._saved, strict=True):
            if not hasattr(array, "dtype"):
                tensors.append(array)
                continue
            index = source - len(self.edges)
            tensors.append(wrap(array, self.edges[source] if index < 0 else (self, index)))
        return tuple(tensors)

    def stash(self, keeper, place):
        """Drop the saved arrays until `keeper.bring_back()` has computed them anew."""
        self.freed, self.place = keeper, place
        self._clock = -1
        self._saved = self._constant = ()
        if self._intermediate is not None:
            self._intermediate = ()  # not None: a fused operation is known by it

    def take_over(self, other):
        """Take the saved arrays of the same operation, computed a second time."""
        self.freed, self.place, self._clock = other.freed, other.place, other._clock
        self._saved, self._constant = other._saved, other._constant
        self._sources, self._counters = other._sources, other._counters
        self._intermediate = other._intermediate

    def _bring_back(self):
        """Ask the checkpoint that dropped the saved arrays for them; refuse if none did."""
        while self.freed and self.freed is not True:
            self.freed.bring_back()  # perhaps only as far as a checkpoint inside it
        if not self.freed:
            return
        raise GraphError(
            f"{self.function.__name__}.backward: the buffers it saved are already freed.",
            got="a second backward pass through the same graph",
            expected="one pass, after which saved buffers are dropped to free memory",
            hint="pass retain_graph=True to the first backward()",
        )

    def _check_versions(self):
        """Refuse if a saved tensor itself is among those changed since."""
        saved = zip(self._sources, self._saved, self._counters, strict=True)
        for source, array, counter in saved:
            if counter is None or counter[0] <= self._clock:
                continue
            index = source - len(self.edges)
            which = f"input {source}" if index < 0 else f"output {index}"
            raise GraphError(
                f"{self.function.__name__}.backward: a tensor it saved was changed in place since.",
                got=f"another value of its {which}, of shape {array.shape}",
                expected="the values that the forward pass saw",
                hint="use the out-of-place operation, or clone() before changing it",
            )

    def _refuse_foreign(self, array):
        raise GraphError(
            f"{self.function.__name__}.forward: ctx.save takes inputs or outputs only.",
            got=f"an array of shape {getattr(array, 'shape', None)} that is neither",
            hint="ctx.constants(...) for masks and indices, "
            "ctx.save_intermediate(...) in a fused operation",
        )

    def __repr__(self):
        return f"<{self.function.__name__}>"


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
        grad_enabled, watched, recording = state.grad_enabled, modes.watchers, False
        if grad_enabled or watched:
            if settings:
                ctx.settings = settings
            arrays, edges, shapes = [], [], []
            for value in inputs:
                edge = None
                if isinstance(value, Tensor):
                    array = value.array
                    if grad_enabled:
                        edge = value._edge if value._view is None else value._current_edge()
                        if edge is not None:
                            recording = True
                    shapes.append(array.shape)
                else:
                    array = value
                    shapes.append(getattr(value, "shape", None))
                arrays.append(array)
                edges.append(edge)
            ctx.edges = ctx.needs_grad = edges
            ctx.shapes = shared(tuple(shapes))
            if watched:
                take_apart = state.take_apart
                if take_apart is not None and cls.composed is not None and take_apart(cls):
                    return _apart(ctx, inputs, arrays, settings)
                _announce(ctx, inputs)
        else:  # nobody will ask where the result came from
            arrays = [value.array if isinstance(value, Tensor) else value for value in inputs]
            ctx.needs_grad = [None] * len(arrays)
        forward = find_kernel(cls, arrays) if KERNELS else cls.forward
        try:
            raw = forward(ctx, *arrays, **settings) if settings else forward(ctx, *arrays)
        except Exception:
            backend.check_same_device(arrays, cls.__name__)  # perhaps that is why
            raise
        if type(raw) is ndarray:
            outputs = wrap(raw)
        else:
            outputs = _wrapped(raw, arrays, cls)
        if recording:
            _record(ctx, inputs, arrays, raw, outputs)
        if cls.view:
            _link_views(cls, settings, inputs[0], outputs)
        if watched:
            _tell_watchers(ctx, inputs, outputs)
        return outputs


def _wrapped(raw, arrays, function):
    """Tensors around what `forward` returned: a tuple, a scalar, an array of another device."""
    backend.check_same_device(arrays, function.__name__)
    if type(raw) is tuple:
        return tuple([wrap(backend.as_array(array)) for array in raw])
    return wrap(backend.as_array(raw))


def _record(ctx, inputs, arrays, raw, outputs):
    """Make `ctx` a node of the graph: number it, link the outputs, remember what was saved."""
    if type(raw) is tuple:
        ctx.outputs_like = [(o.array.shape, o.array.dtype) for o in outputs]
        for index, output in enumerate(outputs):
            if output.array.dtype.kind == "f":
                output._edge = (ctx, index)
    else:
        ctx.dtype = dtype = outputs.array.dtype
        if dtype.kind != "f":
            return
        outputs._edge = (ctx, 0)
    ctx.number = _next_number()
    if ctx._saved:
        ctx._clock = changes[0]
        ctx._remember_saved(arrays, inputs, raw, outputs)
    if ctx._intermediate is not None and ctx.function.composed is None:
        raise GraphError(
            f"{ctx.function.__name__} saves intermediates but has no composed twin.",
            hint="define composed(ctx, *inputs, **settings) beside backward",
        )


def _apart(ctx, inputs, arrays, settings):
    """Run the composed twin of a fused operation instead, so that each of its steps is announced.

    The fused forward runs before it, unseen: it draws the random masks and finds the constants
    that the twin reads from `ctx`.
    """
    ctx.function.forward(ctx, *arrays, **settings)
    for tracer in state.tracers:
        tracer.enter_fused(ctx, inputs)
    outputs = None
    try:
        outputs = ctx.function.composed(ctx, *inputs, **settings)
    finally:
        for tracer in state.tracers:
            tracer.leave_fused(ctx, outputs)
    return outputs


def _link_views(function, settings, source, outputs):
    """Outputs that share memory with `source` share its version and can be replayed from it."""
    base = source if source._view is None else source._view.base
    several = type(outputs) is tuple
    for index, output in enumerate(outputs if several else (outputs,)):
        if backend.shares_memory(output.array, source.array):
            output._version = source._version
            which = index if several else None
            output._view = ViewOf(source, function, settings, which, base, base._edge)


def _announce(ctx, inputs):
    """Listeners of this thread learn that an operation starts."""
    for tracer in state.tracers:
        tracer.before_forward(ctx, inputs)


def _tell_watchers(ctx, inputs, outputs):
    """Tracers and the NaN hunt of this thread see every forward step."""
    for tracer in state.tracers:
        tracer.record_forward(ctx, inputs, outputs)
    if state.anomaly:
        anomaly.check_forward(ctx, outputs)
