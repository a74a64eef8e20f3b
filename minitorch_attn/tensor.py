"""Tensor: an array, where it came from, and its gradient.

Every operator is one line that calls an operation in `ops/`; the mathematics is there.
"""

from . import backend
from .errors import ArgumentError, DTypeError, GraphError, ShapeError
from .methods import TensorMethods

__all__ = ["Tensor", "ViewOf", "wrap", "tensor"]


changes = [0]  # how many in-place changes there have been, of all tensors


class ViewOf:
    """How a view was made: replayed when its base gets a new history by an in-place change."""

    __slots__ = ("parent", "function", "settings", "which", "base", "base_edge")

    def __init__(self, parent, function, settings, which, base, base_edge):
        self.parent = parent
        self.function = function
        self.settings = settings
        self.which = which  # which output, where the operation has several
        self.base = base
        self.base_edge = base_edge


class Tensor(TensorMethods):
    """A multi-dimensional array that remembers how it was computed.

    Parameters
    ----------
    data : array, nested sequence, number or Tensor
        Python floats become float32, integers int64; arrays keep their dtype.
    requires_grad : bool
    dtype : numpy dtype, optional
    device : str or Device, optional

    Attributes
    ----------
    array : numpy, CuPy or strict array
        The raw memory.
    grad : Tensor or None
        dL/d(this), after `backward`.

    Examples
    --------
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __slots__ = ("array", "_grad", "_edge", "_version", "_view", "__weakref__")
    __array_ufunc__ = None  # ndarray * Tensor asks Tensor.__rmul__
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, data, requires_grad=False, *, dtype=None, device=None):
        self.array = as_new_array(data, dtype, device)
        self._grad = self._edge = self._view = None
        self._version = [0]
        if requires_grad:
            self.requires_grad = True

    # The array

    @property
    def shape(self):
        """Sizes of the axes, a tuple."""
        return self.array.shape

    @property
    def dtype(self):
        """A NumPy dtype; `mt.float32` and its like are NumPy dtypes."""
        return self.array.dtype

    @property
    def ndim(self):
        """Number of axes."""
        return self.array.ndim

    @property
    def device(self):
        """Where the array lives."""
        return backend.device_of(self.array)

    @property
    def data(self):
        """The same memory as a tensor outside the graph."""
        return self.detach()

    @data.setter
    def data(self, value):
        self.array = value.array if isinstance(value, Tensor) else value
        if self._edge is not None and self.is_leaf:
            self._edge[0].dtype = self.array.dtype

    @property
    def is_cuda(self):
        """Whether the array is on a GPU."""
        return self.device.type == "cuda"

    @property
    def T(self):
        """The axes in reverse order."""
        return ops.permute(self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self):
        """The last two axes exchanged."""
        return ops.transpose(self, -2, -1)

    def numpy(self):
        """The values as a NumPy array; on the CPU it shares memory with the tensor."""
        return backend.to_host(self.array)

    def item(self):
        """The value of a one-element tensor as a Python number."""
        if self.array.size != 1:
            raise ArgumentError(
                "Tensor.item(): only a tensor with one element is a number.",
                got=f"shape {self.shape}",
                hint="index it first, or use .tolist()",
            )
        return self.numpy().item()

    def tolist(self):
        """Nested Python lists, or a number for a 0-d tensor."""
        return self.numpy().tolist()

    def contiguous(self):
        """Itself if its memory is in row-major order, else a copy that is."""
        return self if self.array.flags.c_contiguous else self.clone()

    def is_contiguous(self):
        """Whether memory is in row-major order."""
        return bool(self.array.flags.c_contiguous)

    def data_ptr(self):
        """Address of the first element."""
        return backend.address(self.array)

    # The graph

    @property
    def grad(self):
        """dL/d(this), a Tensor, or None before the first `backward`."""
        return self._grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not isinstance(value, Tensor):
                raise DTypeError("Tensor.grad takes a Tensor or None.", got=type(value).__name__)
            if value.array.shape != self.array.shape:
                raise ShapeError(
                    "Tensor.grad: a gradient has the shape of its tensor.",
                    got=f"{value.shape}",
                    expected=f"{self.shape}",
                )
        self._grad = value

    @property
    def requires_grad(self):
        """Whether operations on this tensor are recorded."""
        return self._current_edge() is not None

    @requires_grad.setter
    def requires_grad(self, value):
        if value and not self.requires_grad:
            if self.array.dtype.kind != "f":
                raise DTypeError(
                    "only floating-point tensors can require gradients.",
                    got=f"{self.dtype}",
                    hint="x.float() first",
                )
            self._edge = (engine.Leaf(self), 0)
            self._view = None  # of its base it still shares the memory, but not the history
        elif not value and self.requires_grad:
            if not self.is_leaf:
                raise GraphError(
                    "requires_grad=False: this tensor was computed from others.",
                    hint="x.detach() for a tensor outside the graph",
                )
            self._edge = None

    @property
    def is_leaf(self):
        """True for tensors that no recorded operation made."""
        edge = self._current_edge()
        return edge is None or type(edge[0]) is engine.Leaf

    @property
    def grad_fn(self):
        """The graph node that made this tensor; None for a leaf."""
        return None if self.is_leaf else self._current_edge()[0]

    def changed_in_place(self):
        """Note that the memory of this tensor has new values, for operations that saved it.

        The version of a tensor is the number of its last change; views share it.
        """
        changes[0] += 1
        self._version[0] = changes[0]

    def requires_grad_(self, requires_grad=True):
        """Set `requires_grad` and return the tensor."""
        self.requires_grad = requires_grad
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Add dL/dx to the `.grad` of every leaf x that this tensor depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            dL/d(this); may be left out for a one-element tensor, where it is 1.
        retain_graph : bool, optional
            Keep the saved buffers for another pass; by default the value of `create_graph`.
        create_graph : bool
            Record the pass itself, for second derivatives.
        inputs : sequence of Tensor, optional
            Add to these tensors only.
        """
        from .autograd import backward

        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def detach(self):
        """The same memory, outside the graph. In-place changes are seen by both."""
        alias = wrap(self.array)
        alias._version = self._version
        return alias

    def detach_(self):
        """Leave the graph; this tensor becomes a leaf."""
        self._edge = self._view = None
        return self

    def retain_grad(self):
        """Keep `.grad` of a tensor that is not a leaf."""
        if not self.is_leaf:
            engine.retain_grad(self)

    def register_hook(self, hook):
        """Call `hook(grad)` when the gradient of this tensor is complete.

        The hook may return a gradient to use instead.

        Returns
        -------
        handle with a method `remove()`
        """
        return engine.add_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """Call `hook(tensor)` each time a gradient has been added to this leaf's `.grad`."""
        return engine.add_accumulate_hook(self, hook)

    def _current_edge(self):
        """(node, output index): where a gradient of this tensor goes; None outside the graph.

        A view whose base was changed in place is first replayed from its base.
        """
        view = self._view
        if view is not None and view.base._edge is not view.base_edge:
            inplace.replay_view(self)
        return self._edge

    # Text

    def __repr__(self):
        return formatting.tensor_repr(self)

    def __format__(self, spec):
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    def __len__(self):
        if self.ndim == 0:
            raise DTypeError("len() of a 0-d tensor.")
        return self.array.shape[0]

    def __iter__(self):
        if self.ndim == 0:
            raise DTypeError("a 0-d tensor cannot be iterated.")
        return iter(ops.unbind(self, 0))

    def __bool__(self):
        if self.array.size != 1:
            raise ArgumentError(
                "the truth of a tensor with more than one element is ambiguous.",
                got=f"shape {self.shape}",
                hint="x.any() or x.all()",
            )
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError("only a 0-d integer tensor can be an index.", got=f"{self.dtype}")
        return int(self.item())

    def __contains__(self, value):
        return bool((self == value).any())

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise GraphError(
                "deepcopy: only leaves can be copied.", hint="x.detach().clone() for the values"
            )
        copy = wrap(self.array.copy())
        copy.requires_grad = self.requires_grad
        if self.grad is not None:
            copy.grad = self.grad.detach().clone()
        memo[id(self)] = copy
        return copy

    # Operators: arithmetic and comparison come from methods/operators.py

    def __getitem__(self, index):
        return ops.getitem(self, index)

    def __setitem__(self, index, value):
        ops.setitem(self, index, value)

    def __pos__(self):
        return self

    def __eq__(self, other):
        return False if other is None else ops.eq(self, other)

    def __ne__(self, other):
        return True if other is None else ops.ne(self, other)

    def __iadd__(self, other):
        return self.add_(other)

    def __isub__(self, other):
        return self.sub_(other)

    def __imul__(self, other):
        return self.mul_(other)

    def __itruediv__(self, other):
        return self.div_(other)


def wrap(array, edge=None):
    """A Tensor around `array` as it is: no copy, no conversion.

    Parameters
    ----------
    array : backend array
    edge : (node, output index), optional
        What made it.

    Returns
    -------
    Tensor
    """
    result = _new(Tensor)
    result.array = array
    result._edge = edge
    result._grad = result._view = None
    result._version = [0]
    return result


_new = object.__new__


def as_new_array(data, dtype, device):
    """A fresh array for a new tensor from whatever the user gave."""
    if isinstance(data, Tensor):
        data = data.array
    array = backend.new_array(data, dtype)
    return array if device is None else backend.to_device(array, backend.as_device(device))


def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """A tensor with a copy of `data`.

    Parameters
    ----------
    data : array, nested sequence, number or Tensor
        Python floats become float32, integers int64; arrays keep their dtype.
    dtype : numpy dtype, optional
    device : str or Device, optional
    requires_grad : bool

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If nested sequences are ragged.

    Examples
    --------
    >>> tensor([1, 2]).dtype, tensor([1.0]).dtype
    (dtype('int64'), dtype('float32'))
    """
    return Tensor(data, requires_grad, dtype=dtype, device=device)


# The one knot of the import order: operators need the operations and the engine, which need Tensor.
from .autograd import engine, inplace  # noqa: E402  isort: skip
from . import formatting, ops  # noqa: E402  isort: skip
from .methods import knot, operators  # noqa: E402  isort: skip

knot.ops, knot.inplace = ops, inplace
operators.bind(Tensor, ops)
