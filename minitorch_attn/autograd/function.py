"""Function (an operation with its derivative) and Context (a graph node with its saved arrays).

The graph consists of Contexts. Each application of a Function creates one Context, whose `edges`
link to the Contexts that computed the inputs. A Tensor that requires grad but was not computed
by an operation has a `Leaf` as its node, which receives the gradient.
"""

import weakref
from itertools import count

from numpy import ndarray

from .. import backend
from ..backend.kernel_table import kernel_for
from ..errors import DTypeError, GraphError, MissingMethodError
from ..tensor import Tensor, ViewOf, changes, wrap
from . import anomaly, modes
from .autocast import using_casts
from .modes import state
from .tensor_habits import explain_call, refuse_output

__all__ = ["Context", "Function", "Leaf"]


class _Shared(dict):
    """Cache that replaces equal tuples by one shared tuple, so that a graph contains fewer objects.

    Python's garbage collector visits every tuple and list. If each operation stored its own list of
    shapes, garbage collection would take 1/7 of the time of a small operation. Shared tuples halve
    the time for garbage collection.
    """

    def __missing__(self, record):
        if len(self) > 10_000:  # the shapes of this program keep changing, so start again
            self.clear()
        self[record] = record
        return record


_shared = _Shared()
next_number = count().__next__  # creation order is a topological order: inputs come first


class Leaf:
    """Graph node of a leaf tensor, which adds gradients to the tensor's `.grad`.

    The reference to the tensor is weak. Otherwise, a gradient with a graph of its own
    (`create_graph=True`) would form a reference cycle with its tensor.
    """

    edges = ()
    hooks = None
    outputs_like = None
    after_accumulate = None

    def __init__(self, tensor):
        self.number = next_number()
        self.tensor = weakref.ref(tensor)
        self.dtype = tensor.array.dtype  # the dtype that its gradient must have

    def __repr__(self):
        return "<Leaf>"


class Context:
    """Graph node of one application of a Function, with the arrays saved for its `backward`.

    Attributes
    ----------
    function : type
        The Function subclass.
    edges : tuple
        For each positional input, the (node, output index) that computed it; None if not recorded.
    needs_grad : list
        For each positional input, its edge (a truthy value) if it needs a gradient, else None.
    shapes : tuple
        Shapes of the inputs; None for numbers and absent inputs.
    settings : dict
        Keyword arguments of `apply`.
    """

    function = None
    kernel = (
        None  # on a GPU, the class whose `forward` and `backward` run in place of the function's
    )
    edges = ()
    needs_grad = ()
    shapes = ()
    settings = {}
    number = None  # creation order, once the operation is a node of the graph
    dtype = None  # dtype of the output
    outputs_like = None  # (shape, dtype) of each output, if there are several
    hooks = None
    created_at = None  # the line of the call, in anomaly mode
    retained = False  # for several outputs: whether the backward pass keeps the graph
    as_tensors = False  # True while the backward pass is recorded; `saved` then returns Tensors
    holds = False  # True if something was saved for the backward pass
    freed = False  # True after a backward pass; in a checkpoint, the object that recomputes
    place = None  # in a checkpoint: the index of this operation
    _saved = ()
    _sources = ()  # for each saved array: its index in the list (*inputs, *outputs)
    _counters = ()  # one per saved array: the version counter of its tensor
    _clock = 0  # number of in-place changes of all tensors when the operation ran
    _constant = ()
    _intermediate = None

    def save(self, *arrays):
        """Save inputs or outputs of this operation (the arrays, not copies) for `backward`."""
        self._saved = arrays
        self.holds = True

    def save_for_backward(self, *arrays):
        """Same as `save`, under PyTorch's name."""
        self.save(*arrays)

    def constants(self, *arrays):
        """Save arrays that do not have a derivative, such as indices, masks and random offsets."""
        self._constant = arrays
        self.holds = True

    def save_intermediate(self, *arrays):
        """Save intermediate results of a fused operation.

        These arrays do not belong to a tensor, so a second derivative cannot flow through them. If
        `create_graph=True`, the engine therefore differentiates the composed version (`composed`),
        which computes the same result with differentiable operations.
        """
        self._intermediate = arrays
        self.holds = True

    @property
    def saved(self):
        """Arrays stored by `save`, or Tensors of the graph if `create_graph=True`."""
        if changes[0] == self._clock and not self.as_tensors:
            return self._saved  # fast path: arrays, and no in-place change since they were saved
        if self.freed:
            self._bring_back()
        self._check_versions()
        return self._as_tensors() if self.as_tensors else self._saved

    @property
    def saved_tensors(self):
        """PyTorch's name for `saved`."""
        return self.saved

    @property
    def needs_input_grad(self):
        """PyTorch's form of `needs_grad`: for each positional input, True or False."""
        return tuple([edge is not None for edge in self.needs_grad])

    @property
    def constant(self):
        """Arrays stored by `constants`."""
        if self.freed:
            self._bring_back()
        return self._constant

    @property
    def intermediate(self):
        """Arrays stored by `save_intermediate`."""
        if self.freed:
            self._bring_back()
        return self._intermediate

    def free(self):
        """Drop the saved arrays after a backward pass."""
        self.freed = True
        self._clock = -1
        self._saved = self._constant = ()
        self._intermediate = None

    def _origin_of(self, saved, arrays, inputs, raw, outputs):
        """Return (index, tensor) for the input or output that a saved array belongs to.

        The index counts the inputs first, then the outputs.
        """
        if type(raw) is not tuple:
            raw, outputs = (raw,), (outputs,)
        candidates = zip((*arrays, *raw), (*inputs, *outputs), strict=True)
        for source, (array, tensor) in enumerate(candidates):
            if array is saved:
                return source, tensor
        self._refuse_foreign(saved)

    def _as_tensors(self):
        """Return the saved arrays as Tensors, each linked to its node in the graph."""
        tensors = []
        for source, array in zip(self._sources, self._saved, strict=True):
            if not hasattr(array, "dtype"):
                tensors.append(array)
                continue
            index = source - len(self.edges)
            tensors.append(wrap(array, self.edges[source] if index < 0 else (self, index)))
        return tuple(tensors)

    def stash(self, keeper, place):
        """Drop the saved arrays until `keeper.bring_back()` recomputes them.

        `place` is the index of this operation in the checkpoint `keeper`.
        """
        self.freed, self.place = keeper, place
        self._clock = -1
        self._saved = self._constant = ()
        if self._intermediate is not None:
            self._intermediate = ()  # () instead of None marks a fused operation

    def take_over(self, other):
        """Take over the arrays of `other`, this operation's Context in a checkpoint's rerun."""
        self.freed, self.place, self._clock = other.freed, other.place, other._clock
        self._saved, self._constant = other._saved, other._constant
        self._sources, self._counters = other._sources, other._counters
        self._intermediate = other._intermediate
        self.kernel = other.kernel

    def _bring_back(self):
        """Recompute what a checkpoint dropped; if a backward pass freed it, raise an error."""
        while self.freed and self.freed is not True:
            self.freed.bring_back()  # in nested checkpoints, this may have to be repeated
        if not self.freed:
            return
        raise GraphError(
            f"{self.function.__name__}.backward: the saved buffers are already freed",
            got="a second backward pass through the same graph",
            expected="one backward pass, because it drops the saved buffers to free memory",
            hint="pass retain_graph=True to the first backward()",
        )

    def _check_versions(self):
        """Raise an error if a saved tensor has been changed in place since it was saved."""
        saved = zip(self._sources, self._saved, self._counters, strict=True)
        for source, array, counter in saved:
            if counter is None or counter[0] <= self._clock:
                continue
            index = source - len(self.edges)
            which = f"input {source}" if index < 0 else f"output {index}"
            raise GraphError(
                f"{self.function.__name__}.backward: a saved tensor was changed in place",
                got=f"new values in its {which}, of shape {array.shape}",
                expected="the values that the forward pass used",
                hint="use the out-of-place operation, or clone() the tensor before you change it",
            )

    def _refuse_foreign(self, array):
        raise GraphError(
            f"{self.function.__name__}.forward: arguments of ctx.save must be inputs or outputs",
            got=f"an array of shape {getattr(array, 'shape', None)} that is neither",
            hint="use ctx.constants(...) for masks and indices, "
            "ctx.save_intermediate(...) in a fused operation",
        )

    def __repr__(self):
        return f"<{getattr(self.function, '__name__', None)}>"


class Function:
    """Base class of the mathematical operations, each with `forward` and `backward`.

    Subclasses must define two static methods. `forward(ctx, *inputs, **settings)` takes raw arrays
    (or numbers, or None) and returns a raw array or a tuple of them. `backward(ctx, *grads)`
    takes dL/d(output) for each output and returns dL/d(input), or None, for each positional
    input. `backward` runs on arrays, or on Tensors if `create_graph=True`.

    Attributes
    ----------
    view : bool
        True if the output may share memory with the first input.
    composed : callable, optional
        Composed version of a fused operation, `composed(ctx, *tensors, **settings)`.

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
        raise MissingMethodError("Function: the subclass does not define forward")

    @staticmethod
    def backward(ctx, *grads):
        raise MissingMethodError("Function: the subclass does not define backward")

    @classmethod
    def call(cls, *inputs, **settings):
        """Run the operation on arrays and return arrays; with a Tensor as input, call `apply`."""
        for value in inputs:
            if isinstance(value, Tensor):
                return cls.apply(*inputs, **settings)
        ctx = Context()
        ctx.function = cls
        ctx.needs_grad = (False,) * len(inputs)
        on_host = inputs and type(inputs[0]) is ndarray
        runs = cls if on_host else kernel_for(cls, inputs, settings)
        return runs.forward(ctx, *inputs, **settings)

    @classmethod
    def apply(cls, *inputs, **settings):
        """Run `forward` on the arrays inside the tensors and record what `backward` needs.

        Parameters
        ----------
        *inputs : Tensor, number or None
        **settings
            Arguments of `forward` that do not need a gradient.

        Returns
        -------
        Tensor or tuple of Tensor
        """
        ctx = Context()
        ctx.function = cls
        if settings:
            ctx.settings = settings
        arrays = _arrays_of(inputs, ctx)
        watched = modes.watchers
        if watched:
            if state.autocast is not None:
                inputs, given = state.autocast.inputs(cls, inputs), inputs
                if inputs is not given:
                    arrays = _arrays_of(inputs, ctx)
            if _runs_composed(cls):
                return _run_composed(ctx, inputs, arrays, settings)
            _tell_before(ctx, inputs)
        runs = cls
        if arrays and type(arrays[0]) is not ndarray:
            runs = ctx.kernel = kernel_for(cls, arrays, settings)
        try:
            raw = runs.forward(ctx, *arrays, **settings) if settings else runs.forward(ctx, *arrays)
        except Exception as error:
            backend.check_same_device(arrays, cls.__name__)  # raises if there are two devices
            explain_call(error, cls, "forward")  # raises if an array lacks a tensor's method
            raise
        outputs = wrap(raw) if type(raw) is ndarray else _wrapped(raw, arrays, cls)
        if ctx.number is not None:
            _record(ctx, inputs, arrays, raw, outputs)
        if cls.view:
            _link_views(cls, settings, inputs[0], outputs)
        if watched:
            _tell_after(ctx, inputs, outputs)
        return outputs


def _arrays_of(inputs, ctx):
    """Return the inputs' arrays. Set `ctx.edges` and, if the graph records `ctx`, `ctx.number`."""
    grad_enabled = state.grad_enabled
    if not (grad_enabled or modes.watchers):  # neither the graph nor a listener needs the edges
        ctx.needs_grad = [None] * len(inputs)
        return [x.array if isinstance(x, Tensor) else x for x in inputs]
    arrays, edges, shapes, recording = [], [], [], False
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
    if recording:
        ctx.number = next_number()
    ctx.shapes = _shared[tuple(shapes)]
    return arrays


def _runs_composed(function):
    """Return True if a recording requests the composed version of this fused operation."""
    wanted = state.take_apart
    return wanted is not None and function.composed is not None and wanted(function)


def _wrapped(raw, arrays, function):
    """Wrap the result of `forward` (an array, a scalar, or a tuple of them) in Tensors."""
    backend.check_same_device(arrays, function.__name__)
    if type(raw) is tuple:
        return tuple([wrap(_plain(a, function) if type(a) is not ndarray else a) for a in raw])
    return wrap(_plain(raw, function))


def _plain(value, function):
    """Return one result of `forward` as an array; raise an error for a Tensor."""
    array = backend.as_array(value)
    if type(array) is not ndarray and not backend.is_array(array):
        refuse_output(function, value)
    return array


def _record(ctx, inputs, arrays, raw, outputs):
    """Make `ctx` the node of `outputs`. Record the tensor and version of each saved array."""
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
    if ctx._saved:
        ctx._clock = changes[0]
        sources, counters, last = [], [], len(arrays)
        for source, saved in enumerate(ctx._saved):
            if source < last and saved is arrays[source]:  # the usual case: saved in order
                tensor = inputs[source]
            elif saved is raw:
                source, tensor = last, outputs
            elif saved is None:
                source = tensor = None
            else:
                source, tensor = ctx._origin_of(saved, arrays, inputs, raw, outputs)
            sources.append(source)
            counters.append(tensor._version if isinstance(tensor, Tensor) else None)
        ctx._sources, ctx._counters = _shared[tuple(sources)], counters
    if ctx._intermediate is not None and ctx.function.composed is None:
        raise GraphError(
            f"{ctx.function.__name__}.composed is missing, but forward saves intermediate results",
            hint="define composed(ctx, *inputs, **settings), which computes the same result with "
            "differentiable operations, next to backward",
        )


def _run_composed(ctx, inputs, arrays, settings):
    """Run the composed version of a fused operation instead, so that listeners see each step.

    The fused forward runs first: it draws the random masks and computes the constants that the
    composed version reads from `ctx`.
    """
    ctx.function.forward(ctx, *arrays, **settings)
    for listener in state.listeners:
        listener.enter_fused(ctx, inputs)
    outputs = None
    try:
        with using_casts(None):
            outputs = ctx.function.composed(ctx, *inputs, **settings)
    finally:
        for listener in state.listeners:
            listener.leave_fused(ctx, outputs)
    return outputs


def _link_views(function, settings, source, outputs):
    """Make views of `source` share its version counter, and store how to recreate each view."""
    if not isinstance(source, Tensor):
        raise DTypeError(
            f"{function.__name__.lower()}: input is not a tensor",
            got=f"{source!r:.60} of type {type(source).__name__}",
            hint="convert it with mt.tensor(...)",
        )
    base = source if source._view is None else source._view.base
    several = type(outputs) is tuple
    for index, output in enumerate(outputs if several else (outputs,)):
        if backend.shares_memory(output.array, source.array):
            output._version = source._version
            which = index if several else None
            output._view = ViewOf(source, function, settings, which, base, base._edge)


def _tell_before(ctx, inputs):
    """Tell the listeners of this thread that an operation starts."""
    for listener in state.listeners:
        listener.before_forward(ctx, inputs)


def _tell_after(ctx, inputs, outputs):
    """Tell the listeners of this thread that an operation ended; in anomaly mode, check for NaN."""
    for listener in state.listeners:
        listener.record_forward(ctx, inputs, outputs)
    if state.anomaly:
        anomaly.check_forward(ctx, outputs)
