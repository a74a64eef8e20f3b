"""CUDA graphs: `GraphedStep` captures a whole training step once and replays it in one call.

A training step of a small model launches a few hundred kernels, and Python needs 5 to 10
microseconds for each launch. A CUDA graph contains all these kernels, and a single call to the
driver launches the whole graph.
"""

import warnings
from contextlib import contextmanager

from ..autograd.listener import Listener
from ..autograd.modes import is_grad_enabled
from ..backend import (
    array_module,
    cuda,
    device_of,
    get_rng_state,
    initial_seed,
    next_offset,
    set_rng_state,
)
from ..backend.graph_capture import (
    LENGTH,
    Capture,
    Rehearsal,
    is_recording,
    recorded_by,
    write_numbers,
)
from ..errors import ArgumentError, DeviceError
from ..nn.parameter import Parameter
from ..tensor import Tensor, wrap
from .trees import map_tensors, signature, tensors_in

__all__ = ["GraphedStep"]


class GraphedStep:
    """Run a step, and replay it as a CUDA graph from the fourth call on.

    The step is any function of tensors, such as a forward pass, or a training step with forward
    pass, backward pass and update. The first `num_warmup_iters` calls run the step as usual. The
    next call captures the step's kernel launches in a graph. The graph then runs this step and all
    later ones. Every call has exactly the same effect as the step itself, bit for bit. This
    includes dropout masks, learning rates and step counts.

    If a step cannot be captured, GraphedStep runs the step as usual, warns once, and stores the
    reason in `reason`. On the CPU, no step can be captured. On a GPU, the step must not wait for
    the GPU (`loss.item()`), copy data from the host, or advance a learning-rate schedule (call
    `scheduler.step()` after the step).

    Parameters
    ----------
    step : callable
        Function of tensors, which may be nested in tuples, lists and dicts. A graph does not run
        Python code: printing, counting and appending to lists happen only in the calls before the
        graph exists. The step may use other tensors, such as a model's parameters, as long as they
        are not replaced by new tensors.
    num_warmup_iters : int, default 3
        Number of calls before the capture, at least 1.
    max_graphs : int, default 8
        Maximum number of graphs, one for each combination of shapes, dtypes and other arguments.
        Calls with further combinations run as usual.
    copy_outputs : bool, default True
        Whether a call returns copies. If False, the next call overwrites the returned tensors.

    Attributes
    ----------
    reason : str or None
        Why the latest call did not use a graph; None if it used one or was a warm-up.
    replays : int
        Number of calls that replayed a graph.

    Notes
    -----
    Each graph occupies the memory of a full step. PyTorch's equivalents are `torch.cuda.graph` and
    `torch.cuda.make_graphed_callables`.

    Examples
    --------
    On the CPU, the step runs as usual:

    >>> import warnings
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 1)
    >>> optimizer = mt.optim.AdamW(model.parameters())
    >>> def step(x, y):
    ...     optimizer.zero_grad()
    ...     loss = mt.nn.functional.mse_loss(model(x), y)
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> graphed = GraphedStep(step)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     loss = graphed(mt.ones(2, 3), mt.zeros(2, 1))
    >>> loss.shape, graphed.replays, "a tensor is on the cpu" in graphed.reason
    ((), 0, True)
    """

    def __init__(self, step, *, num_warmup_iters=3, max_graphs=8, copy_outputs=True):
        if not isinstance(num_warmup_iters, int) or num_warmup_iters < 1:
            raise ArgumentError(
                "GraphedStep: num_warmup_iters must be an int, at least 1",
                got=f"{num_warmup_iters!r}",
                hint="use 3, the default: warm-ups compile the kernels, which a capture cannot do",
            )  # fmt: skip
        self._step = step
        self._warmups, self._max_graphs, self._copy = num_warmup_iters, max_graphs, copy_outputs
        self.reason, self.replays = None, 0
        self.reset()

    def reset(self):
        """Free all graphs and their memory; the next calls are warm-ups again."""
        self._graphs, self._failures, self._made, self._warned = {}, {}, 0, set()

    def __call__(self, *args, **kwargs):
        """Run the step.

        Parameters
        ----------
        *args, **kwargs
            Arguments of the step. Each combination of shapes and dtypes of the tensors, and of
            values of all other arguments, has its own graph.

        Returns
        -------
        The result of the step, with tensors that do not require grad.
        """
        if is_recording():  # inside the step of another graph
            return self._step(*args, **kwargs)
        self.reason = _unsuitable((args, kwargs))
        if self.reason is not None:
            return self._as_usual(args, kwargs)
        key = signature((args, kwargs)), is_grad_enabled()
        if key in self._failures:
            self.reason = self._failures[key]
            return self._as_usual(args, kwargs)
        graph = self._graphs.get(key)
        if graph is not None and graph.capture is not None and not graph.is_valid():
            graph = self._graphs.pop(key) and None
        if graph is None:
            if self._made >= self._max_graphs:
                self.reason = (
                    f"more than {self._max_graphs} graphs would be needed: shapes, other arguments "
                    "or the tensors that the step uses keep changing"
                )
                return self._as_usual(args, kwargs)
            graph = self._graphs[key] = _Graph(self._step, args, kwargs, self._warmups)
            self._made += 1
        return self._run(key, graph, args, kwargs)

    def _run(self, key, graph, args, kwargs):
        """Run a graph or a warm-up; warn if it turns out that the step cannot be captured."""
        outputs = graph.run(args, kwargs)
        if graph.failure is not None:
            self._failures[key] = self.reason = graph.failure
            del self._graphs[key]
            self._made -= 1
            self._warn()
        elif graph.capture is not None:
            self.replays += 1
        return map_tensors(outputs, _copied) if self._copy else outputs

    def _as_usual(self, args, kwargs):
        self._warn()
        return map_tensors(self._step(*args, **kwargs), Tensor.detach)

    def _warn(self):
        if self.reason not in self._warned:
            self._warned.add(self.reason)
            warnings.warn(f"GraphedStep runs without a graph: {self.reason}", stacklevel=4)


def _copied(tensor):
    return wrap(tensor.array.copy())


def _unsuitable(arguments):
    """Return the reason why a graph cannot run with these arguments, or None if it can."""
    tensors = tensors_in(arguments)
    for tensor in tensors:
        device = device_of(tensor.array)
        if device.type != "cuda":
            return f"a tensor is on the {device.type}"
        if tensor.requires_grad:
            return "an argument requires grad"
    try:
        cupy = cuda.load()
    except DeviceError as error:
        return error.message
    if not hasattr(cupy.cuda, "Graph"):
        return "this CuPy does not have CUDA graphs"
    return None


class _Graph:
    """Graph of one step for one combination of arguments: warm-ups, then a capture, then replays.

    The step runs on the graph's own stream, with memory from the graph's own pool. No other
    computation can therefore reuse memory that the graph has freed.
    """

    def __init__(self, step, args, kwargs, warmups):
        self.step, self.warmups = step, warmups
        self.cupy = cuda.load()
        self.pool = self.cupy.cuda.MemoryPool()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.board = self.cupy.zeros(LENGTH)
        self.inputs = map_tensors((args, kwargs), _like)  # copies only the tensors
        self.places = tensors_in(self.inputs)
        self.capture = self.failure = self.uses = self.launch = self.outputs = None

    def is_valid(self):
        """Return True if the step still uses the same memory as the captured graph."""
        return self.capture.is_valid() and self.uses.unchanged()

    def run(self, args, kwargs):
        """Run one step and return its outputs, which the next step may overwrite."""
        for place, tensor in zip(self.places, tensors_in((args, kwargs)), strict=True):
            place.array[...] = tensor.array
        if self.capture is not None:
            self.capture.advance()
            self._replay(next_offset(16 * self.counters))
            return self.outputs
        self.warmups -= 1
        if self.warmups > 0:
            return self._beside()
        if self.warmups == 0:
            return self._rehearse()
        return self._captured()

    @contextmanager
    def _own_stream(self):
        """Run a block on this graph's stream and pool; the caller's stream waits for the block."""
        outside = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(outside.record())
        with self.stream, self.cupy.cuda.using_allocator(self.pool.malloc):
            yield
        outside.wait_event(self.stream.record())

    def _beside(self):
        """Run the step as usual on the stream of the graph."""
        args, kwargs = self.inputs
        with self._own_stream():
            return map_tensors(self.step(*args, **kwargs), Tensor.detach)

    def _rehearse(self):
        """Run the step as usual, and find out whether it can be captured."""
        with recorded_by(Rehearsal()) as rehearsal, _Uses() as self.uses:
            outputs = self._beside()
        if rehearsal.refused:
            self.failure = f"the step {rehearsal.refused[0]}"
        return outputs

    def _captured(self):
        """Capture the step and run the graph; if that fails, run the step as usual."""
        random = get_rng_state()
        first = next_offset(0)
        capture = Capture(self.board, initial_seed(), first)
        uses = self.uses.before_capture()
        try:
            with self._own_stream(), recorded_by(capture), uses:
                self.launch, self.outputs = self._record()
        except Exception as error:  # CuPy and the driver raise many types
            capture.undo()
            uses.undo()
            set_rng_state(random)
            self.failure = f"the capture failed: {type(error).__name__}: {_first_line(error)}"
            return self._beside()
        self.counters = next_offset(0) - first
        self.capture, self.uses = capture, uses
        uses.finish()
        self._replay(first)
        return self.outputs

    def _record(self):
        """Capture the step. Return a function that launches the graph, and the step's outputs."""
        args, kwargs = self.inputs
        self.stream.begin_capture()
        try:
            outputs = self.step(*args, **kwargs)
        except BaseException:
            try:
                self.stream.end_capture()
            except Exception:  # CUDA has already canceled the capture
                pass
            raise
        return self.stream.end_capture().launch, map_tensors(outputs, Tensor.detach)

    def _replay(self, first):
        """Launch the graph on the current stream. Dropout uses random counters from `first` on."""
        self.capture.set_random(initial_seed(), first)
        write_numbers(self.board, self.capture.values)
        self.launch()
        self.uses.after_replay()


def _like(tensor):
    """Return an uninitialized tensor with the shape and dtype of `tensor`."""
    return wrap(array_module(tensor.array).empty(tensor.shape, tensor.array.dtype))


def _first_line(error):
    return next(iter(str(error).splitlines()), "")


class _Uses(Listener):
    """Parameters, gradients and modules that a step uses besides its arguments."""

    def __init__(self, leaves=()):
        self.leaves = leaves  # tensors that got a gradient in the rehearsal
        self.arrays, self.modes = {}, {}
        self.before = {leaf: leaf.grad for leaf in leaves}
        self.memory = {x: g.array for x, g in self.before.items() if g is not None}
        self.seen, self.in_place, self.after = set(), set(), {}

    def record_forward(self, ctx, inputs, outputs):
        """Record each parameter's array, to notice later if the array has been replaced."""
        for x in inputs:
            if isinstance(x, Parameter):
                self.arrays[x] = x.array

    def record_gradient(self, tensor):
        """Record that a leaf gets a gradient, and whether it is added to an earlier gradient."""
        if tensor not in self.seen:
            self.seen.add(tensor)
            if tensor.grad.array is self.memory.get(tensor):
                self.in_place.add(tensor)

    def enter_module(self, module):
        """Record whether a module is in training mode."""
        self.modes[module] = module.training

    def before_capture(self):
        """Return a new `_Uses` for the capture; its `leaves` are those that got a gradient here."""
        return _Uses(list(self.seen))

    def finish(self):
        """Record the gradients after the captured step."""
        self.after = {leaf: leaf.grad for leaf in self.leaves}

    def undo(self):
        """After a failed capture, restore the gradients from before the capture."""
        for leaf, grad in self.before.items():
            leaf.grad = grad

    def after_replay(self):
        """Set each leaf's gradient as the step would have done."""
        for leaf, grad in self.after.items():
            leaf.grad = grad

    def unchanged(self):
        """Return True if a replay would read and write the same memory as the step."""
        return (
            all(x.array is array for x, array in self.arrays.items())
            and all(module.training is mode for module, mode in self.modes.items())
            and all(self._same_gradient(leaf) for leaf in self.leaves)
        )

    def _same_gradient(self, leaf):
        if leaf in self.in_place:  # the step adds to a gradient
            return leaf.grad is not None and leaf.grad.array is self.memory[leaf]
        return self.before[leaf] is not None or leaf.grad is None
