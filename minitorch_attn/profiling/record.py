"""Record the time, FLOPs and bytes of every operation, forward and backward."""

from time import perf_counter

from ..autograd.listener import Listener
from ..backend import device_of, is_array
from ..backend.cuda import synchronize
from ..files import atomic_file
from ..ops.plumbing.flops import backward_flops, forward_flops
from ..tensor import Tensor
from .ceilings import ceilings
from .chrome import chrome_trace
from .groups import by_module, by_op
from .table import profile_table

__all__ = ["Event", "Profile", "profile"]


class Event:
    """One forward or backward pass of an operation, or one call of a module.

    Attributes
    ----------
    name : str
        Name of the operation, or path of the module.
    phase : str
        "forward", "backward" or "module".
    start, seconds : float
        Time from the start of the profile to the start of the event, and duration including
        nested events, both in seconds.
    own_seconds : float
        Duration in seconds without nested events, such as operations in a recorded `backward`.
    modules : tuple of str
        Paths of the enclosing modules, the outermost first. For a backward event, the modules that
        enclosed the forward pass of the operation.
    flops, nbytes, elements : int
        FLOPs in matrix products and convolutions, bytes read and written, and number of elements
        written.
    shapes : tuple
        Shapes of the inputs; None for numbers.
    dtype : dtype or None
    """

    def __init__(self, name, phase, start, modules):
        self.name, self.phase, self.start, self.modules = name, phase, start, modules
        self.seconds = self.own_seconds = 0.0
        self.flops = self.nbytes = self.elements = 0
        self.shapes, self.dtype = (), None

    def __repr__(self):
        return f"<Event: {self.name} {self.phase}, {self.seconds * 1e3:.3f} ms>"


class _Running:
    """An event that has not ended, with the total time of the events inside it."""

    def __init__(self, event, key):
        self.event, self.key, self.inside = event, key, 0.0


class Profile(Listener):
    """Times of the operations that ran in a `with` block on this thread.

    FLOPs are counted in matrix products and convolutions only, two for each multiply-add; see
    `ops/plumbing/flops.py`. The number of bytes counts each input and output once, and no temporary
    arrays. The roofline is the speed that the machine's peak FLOP/s and memory bandwidth allow for
    these counts. An operation may run below the roofline, or above it if its data are in a cache.
    On a GPU, the profiler waits for each operation to finish.

    Attributes
    ----------
    events : list of Event
        Events in the order in which they ended.
    seconds : float
        Duration of the whole block in seconds.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 5)
    >>> with mt.profile() as p:
    ...     model(mt.ones(2, 3)).sum().backward()
    >>> [(event.name, event.phase, event.flops) for event in p.events if event.flops]
    [('Linear', 'forward', 60), ('Linear', 'backward', 60)]
    """

    def __init__(self):
        self.events = []
        self.seconds = 0.0
        self._began = 0.0
        self._running, self._modules = [], []
        self._nodes = {}  # number of a Context -> (modules, FLOPs of its forward pass)
        self._paths = {}  # id of a module -> its path
        self._roots = []  # kept alive, so that Python does not reuse their ids
        self._ceilings = None
        self._on_gpu = False

    def __enter__(self):
        self._began = perf_counter() - self.seconds  # continue if the profile is entered again
        return super().__enter__()

    def __exit__(self, *exc_info):
        self.seconds = perf_counter() - self._began
        self._running.clear()
        self._modules.clear()
        return super().__exit__(*exc_info)

    # Hooks called by the engine

    def before_forward(self, ctx, inputs):
        modules = tuple(running.event.name for running in self._modules)
        self._start(ctx.function.__name__, "forward", modules, ctx, inputs)

    def record_forward(self, ctx, inputs, outputs):
        event = self._stop(ctx)
        event.flops = forward_flops(ctx, inputs, outputs)
        outputs = outputs if type(outputs) is tuple else (outputs,)
        _describe(event, ctx, inputs, outputs)
        if hasattr(ctx, "number"):
            self._nodes[ctx.number] = (event.modules, event.flops)

    def before_backward(self, ctx, grads):
        modules, _ = self._nodes.get(ctx.number, ((), 0))
        self._start(ctx.function.__name__, "backward", modules, ctx, grads)

    def record_backward(self, ctx, grads, results):
        event = self._stop(ctx)
        _, flops = self._nodes.get(ctx.number, ((), 0))
        event.flops = backward_flops(event.name, flops, ctx.needs_grad)
        saved = (*ctx._saved, *ctx._constant, *(ctx._intermediate or ()))
        _describe(event, ctx, (*grads, *saved), results)

    def enter_module(self, module):
        path = self._path(module)
        outer = tuple(running.event.name for running in self._modules)
        event = Event(path, "module", perf_counter() - self._began, outer)
        self._modules.append(_Running(event, module))

    def leave_module(self, module):
        while self._modules:
            running = self._modules.pop()
            event = running.event
            event.seconds = perf_counter() - self._began - event.start
            self.events.append(event)
            if running.key is module:
                return

    def _path(self, module):
        """Return the module's path within the outermost running module."""
        if not self._modules:
            root = type(module).__name__
            self._roots.append(module)
            for name, inner in module.named_modules():
                self._paths[id(inner)] = f"{root}.{name}" if name else root
        path = self._paths.get(id(module))
        return path or f"{self._modules[-1].event.name}.{type(module).__name__}"

    # Time

    def _start(self, name, phase, modules, ctx, values):
        self._on_gpu = any(_is_on_gpu(value) for value in values)
        if self._on_gpu:
            synchronize()
        event = Event(name, phase, 0.0, modules)
        self._running.append(_Running(event, ctx))
        event.start = perf_counter() - self._began

    def _stop(self, ctx):
        if self._on_gpu:
            synchronize()
        now = perf_counter() - self._began
        running = self._running.pop()
        while running.key is not ctx:  # skip operations that raised an error and did not end
            running = self._running.pop()
        event = running.event
        event.seconds = now - event.start
        event.own_seconds = event.seconds - running.inside
        if self._running:
            self._running[-1].inside += event.seconds
        self.events.append(event)
        return event

    # Results

    @property
    def ceilings(self):
        """Peak speed and bandwidth of this machine, for the dtype with the most recorded FLOPs."""
        if self._ceilings is None:
            flops = {}
            for event in self.events:
                flops[event.dtype] = flops.get(event.dtype, 0) + event.flops
            dtype = max(flops, key=flops.get, default=None)
            place = "cuda" if self._on_gpu else "cpu"
            known = dtype is not None and dtype.kind == "f"
            self._ceilings = ceilings(dtype if known else "float32", place)
        return self._ceilings

    def by_op(self):
        """Return one Group for each operation, in descending order of time.

        Returns
        -------
        list of Group
        """
        return by_op(self.events)

    def by_module(self):
        """Return one Group for each module, in the order in which the modules were first called.

        Returns
        -------
        list of Group
        """
        return by_module(self.events)

    def table(self, rows=20, depth=2):
        """Return the times of all operations and modules as text.

        Parameters
        ----------
        rows : int
            Maximum number of operations to show.
        depth : int, optional
            Maximum nesting depth of the modules to show; None for all.
        """
        return profile_table(self, rows, depth)

    def __str__(self):
        return self.table()

    def save_picture(self, path):
        """Plot the time by operation and the roofline, and write the figure to a PNG file.

        Parameters
        ----------
        path : str or path
        """
        from ..viz import roofline_figure
        from ..viz.style import save_figure

        roofs = self.ceilings
        save_figure(roofline_figure(self.by_op(), roofs.flops, roofs.bandwidth), path)

    def save_chrome_trace(self, path):
        """Write all events to a JSON file for chrome://tracing or ui.perfetto.dev.

        Parameters
        ----------
        path : str or path
        """
        with atomic_file(path) as file:
            file.write(chrome_trace(self.events).encode())


def profile():
    """Time every operation inside a `with` block.

    Returns
    -------
    Profile

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.profile() as p:
    ...     y = mt.ones(2, 3) @ mt.ones(3, 5)
    >>> print(p.by_op()[0].name)
    MatMul
    """
    return Profile()


def _array(value):
    array = value.array if isinstance(value, Tensor) else value
    return array if is_array(array) else None


def _is_on_gpu(value):
    array = _array(value)
    return array is not None and device_of(array).type == "cuda"


def _describe(event, ctx, read, written):
    """Record the shapes, the dtype, and the bytes read and written. A view moves 0 bytes."""
    event.shapes = ctx.shapes
    made = [array for array in map(_array, written) if array is not None]
    if made:
        event.dtype = made[0].dtype
    if ctx.function.view:
        return
    given = [array for array in map(_array, read) if array is not None]
    distinct = {id(array): array.nbytes for array in (*given, *made)}
    event.nbytes = sum(distinct.values())
    event.elements = sum(array.size for array in made)
