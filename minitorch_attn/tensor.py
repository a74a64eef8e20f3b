"""Tensor: an array, its gradient, and the node of the graph that computed it.

Every operator is one line that calls an operation in `ops/`, which contains the mathematics. The
other methods, such as `x.softmax(-1)`, come from the tables in `methods.py`.
"""

from . import backend
from .errors import ArgumentError, DeviceError, DTypeError, GraphError, ShapeError
from .named_errors import named_error, names_arguments

__all__ = ["Tensor", "ViewOf", "leaf", "wrap", "tensor"]


changes = [0]  # number of in-place changes to all tensors so far


class ViewOf:
    """Record of how a view was created, to recreate it after an in-place change to its base."""

    __slots__ = ("parent", "function", "settings", "which", "base", "base_edge")

    def __init__(self, parent, function, settings, which, base, base_edge):
        self.parent = parent
        self.function = function
        self.settings = settings
        self.which = which  # index of the output, if the operation has several
        self.base = base
        self.base_edge = base_edge


class Tensor:
    """A multi-dimensional array that remembers how it was computed.

    As in PyTorch, this constructor makes tensors of the default dtype, float32: `Tensor([1, 2])`
    has the elements 1.0 and 2.0, and `Tensor(1, 2)` has shape (1, 2). In contrast, `mt.tensor` does
    not convert integers to float32, and keeps the dtype of arrays.

    Parameters
    ----------
    *data : nested sequence, array or Tensor; or sizes
        Elements, which are copied, or the size of each axis, for a tensor of zeros.
    requires_grad : bool
        Whether to record operations on this tensor, for `backward`.
    dtype : numpy dtype, optional
        Dtype of the elements. By default, the dtype of `data` if it is a Tensor, otherwise float32
        (the default dtype).
    device : str or Device, optional
        Device to copy the data to, such as "cpu" or "cuda:0".

    Attributes
    ----------
    array : NumPy, CuPy or strict array
        The elements.
    grad : Tensor or None
        Gradient dL/d(this), after `backward`.

    Examples
    --------
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __slots__ = ("array", "_grad", "_edge", "_version", "_view", "__weakref__")
    __array_ufunc__ = None  # NumPy and CuPy then call Tensor.__rmul__ for `array * tensor`
    __array_priority__ = 1000
    __hash__ = object.__hash__

    @names_arguments
    def __init__(self, *data, requires_grad=False, dtype=None, device=None):
        if len(data) == 1 and isinstance(data[0], Tensor):
            dtype = dtype or data[0].dtype
        self.array = as_new_array(_elements(data), dtype or backend.get_default_dtype(), device)
        self._grad = self._edge = self._view = None
        self._version = [0]
        if requires_grad:
            self.requires_grad = True

    # The array

    @property
    def shape(self):
        """The size of each axis, as a tuple."""
        return self.array.shape

    @property
    def dtype(self):
        """The dtype of the elements, a NumPy dtype such as `mt.float32`."""
        return self.array.dtype

    @property
    def ndim(self):
        """Number of axes."""
        return self.array.ndim

    @property
    def device(self):
        """The device that holds the array."""
        return backend.device_of(self.array)

    @property
    def data(self):
        """A tensor outside the graph that shares the memory of this tensor."""
        return self.detach()

    @data.setter
    def data(self, value):
        array = value.array if isinstance(value, Tensor) else value
        if not (backend.is_array(array) and backend.is_number_dtype(array.dtype)):
            raise DTypeError(
                "Tensor.data: the value is not a tensor",
                got=f"{type(value).__name__}",
                hint="x.data = mt.tensor(value)",
            )
        self.array = array
        if self._edge is not None and self.is_leaf:
            self._edge[0].dtype = self.array.dtype

    @property
    def is_cuda(self):
        """True if the array is on a GPU."""
        return self.device.type == "cuda"

    @property
    def T(self):
        """A view of the tensor with the axes in reverse order."""
        return ops.permute(self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self):
        """A view of the tensor with the last two axes exchanged."""
        return ops.transpose(self, -2, -1)

    def numpy(self):
        """Return the values as a NumPy array.

        The array of a tensor on the CPU shares the tensor's memory; otherwise, it is a copy.
        """
        return backend.to_host(self.array)

    def __array__(self, dtype=None, copy=None):
        """Return the values for NumPy, in calls such as `np.asarray(x)` and `plt.plot(x)`.

        As in PyTorch, this raises an error if the tensor requires grad, because NumPy does not
        record operations. It also raises an error if the tensor is not on the CPU, because copying
        a tensor to the host is slow.
        """
        if self.requires_grad:
            raise GraphError(
                "NumPy cannot compute with a tensor that requires grad",
                got=f"a tensor of shape {self.shape} with requires_grad=True",
                hint="use x.detach(), or x.numpy() for an array",
            )
        if self.device.type != "cpu":
            raise DeviceError(
                "NumPy cannot compute with a tensor that is not on the CPU",
                got=f"a tensor of shape {self.shape} on {self.device}",
                hint="use x.cpu(), or x.numpy() for an array",
            )
        return backend.host_array(self.array, dtype, copy)

    def __array_function__(self, function, types, arguments, settings):
        """Call a NumPy function with the values of tensors: `np.mean(x)`, `np.stack([x, y])`."""
        return function(*_values(arguments), **_values(settings))

    def item(self):
        """Return the value of a one-element tensor as a Python number."""
        if self.array.size != 1:
            raise ArgumentError(
                "Tensor.item(): the tensor must have exactly one element",
                got=f"shape {self.shape}",
                hint="index it first, or use .tolist()",
            )
        return self.numpy().item()

    def tolist(self):
        """Return the values as nested Python lists, or as a number for a 0-d tensor."""
        return self.numpy().tolist()

    def contiguous(self):
        """Return the tensor itself if its memory is in row-major order, else a row-major copy."""
        return self if self.array.flags.c_contiguous else self.clone()

    def is_contiguous(self):
        """Return True if the memory is in row-major order."""
        return bool(self.array.flags.c_contiguous)

    def data_ptr(self):
        """Return the memory address of the first element, an integer."""
        return backend.address(self.array)

    def size(self, dim=None):
        """Return the shape, or the size of axis `dim`."""
        try:
            return self.shape if dim is None else self.shape[dim]
        except (IndexError, TypeError) as error:
            raise named_error(error, Tensor.size, (self, dim)) from error

    def dim(self):
        """Return the number of axes."""
        return self.array.ndim

    def numel(self):
        """Return the number of elements."""
        return self.array.size

    def ndimension(self):
        """Return the number of axes, as `dim` does."""
        return self.array.ndim

    def nelement(self):
        """Return the number of elements, as `numel` does."""
        return self.array.size

    def stride(self, dim=None):
        """Return each axis's stride, or the stride of axis `dim`, as a number of elements."""
        strides = tuple([step // self.array.itemsize for step in self.array.strides])
        try:
            return strides if dim is None else strides[dim]
        except (IndexError, TypeError) as error:
            raise named_error(error, Tensor.stride, (self, dim)) from error

    def element_size(self):
        """Return the number of bytes of one element."""
        return self.array.itemsize

    @property
    def itemsize(self):
        """Number of bytes of one element; same as `element_size`."""
        return self.array.itemsize

    @property
    def nbytes(self):
        """Number of bytes of all elements."""
        return self.array.nbytes

    def is_floating_point(self):
        """Return True if the elements are floating-point numbers."""
        return self.array.dtype.kind == "f"

    # The graph

    @property
    def grad(self):
        """Gradient dL/d(this), a Tensor, or None before the first `backward`."""
        return self._grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not isinstance(value, Tensor):
                raise DTypeError(
                    "Tensor.grad: value must be a Tensor or None", got=type(value).__name__
                )
            if value.array.shape != self.array.shape:
                raise ShapeError(
                    "Tensor.grad: the shape of the gradient does not match the shape of its tensor",
                    got=f"{value.shape}",
                    expected=f"{self.shape}",
                )
        self._grad = value

    @property
    def requires_grad(self):
        """True if operations on this tensor are recorded."""
        return self._current_edge() is not None

    @requires_grad.setter
    def requires_grad(self, value):
        value = flag_of(value, "Tensor", "requires_grad")
        if value and not self.requires_grad:
            if self.array.dtype.kind != "f":
                raise DTypeError(
                    "requires_grad=True: the tensor must have a floating-point dtype",
                    got=f"{self.dtype}",
                    hint="convert it first, with x.float()",
                )
            self._edge = (engine.Leaf(self), 0)
            self._view = None  # a leaf: it shares the memory of its base, but not the graph
        elif not value and self.requires_grad:
            if not self.is_leaf:
                raise GraphError(
                    "requires_grad=False: the tensor is not a leaf, but the result of an operation",
                    hint="call x.detach(), which returns a tensor outside the graph",
                )
            self._edge = None

    @property
    def is_leaf(self):
        """True if this tensor is not the result of a recorded operation."""
        edge = self._current_edge()
        return edge is None or type(edge[0]) is engine.Leaf

    @property
    def grad_fn(self):
        """The graph node that made this tensor; None for a leaf."""
        return None if self.is_leaf else self._current_edge()[0]

    def changed_in_place(self):
        """Give this tensor a new version, so that operations that saved it detect the change.

        The new version is the total number of in-place changes so far, counted over all tensors. A
        tensor and its views have the same version.
        """
        changes[0] += 1
        self._version[0] = changes[0]

    @names_arguments
    def requires_grad_(self, requires_grad=True):
        """Set `requires_grad` and return the tensor."""
        self.requires_grad = requires_grad
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Add dL/dx to the `.grad` of every leaf x that this tensor depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            Gradient dL/d(this) of the loss L. If this tensor has one element, the default is 1.
        retain_graph : bool, optional
            Whether to keep the saved tensors for another backward pass; by default, the value of
            `create_graph`.
        create_graph : bool
            Whether to record the backward pass itself, for second derivatives.
        inputs : sequence of Tensor, optional
            Tensors to which gradients are added; by default all leaves.
        """
        from .autograd import backward

        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def detach(self):
        """Return a tensor outside the graph that shares this tensor's memory."""
        alias = wrap(self.array)
        alias._version = self._version
        return alias

    def detach_(self):
        """Remove this tensor from the graph, in place. The tensor becomes a leaf."""
        self._edge = self._view = None
        return self

    def retain_grad(self):
        """Make `backward` store the gradient of this non-leaf tensor in its `.grad`."""
        if not self.is_leaf:
            engine.retain_grad(self)

    def register_hook(self, hook):
        """Register a hook: `backward` calls `hook(grad)` when this tensor's gradient is complete.

        The hook may return a different gradient, which replaces the original.

        Returns
        -------
        handle with a method `remove()`
        """
        return engine.add_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """Register a hook: `hook(tensor)` is called after each addition to this leaf's `.grad`."""
        return engine.add_accumulate_hook(self, hook)

    def _current_edge(self):
        """Return the edge (node, output index) that receives this tensor's gradient.

        None if the tensor is outside the graph. If the base of a view was changed in place, the
        view is first recreated from the base.
        """
        view = self._view
        if view is not None and view.base._edge is not view.base_edge:
            inplace.replay_view(self)
        return self._edge

    # Text

    def __repr__(self):
        return formatting.tensor_repr(self)

    def __format__(self, spec):
        try:
            return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)
        except (TypeError, ValueError) as error:
            cls = DTypeError if isinstance(error, TypeError) else ArgumentError
            raise cls(
                "format(x, spec): spec is unsupported",
                got=f"{spec!r:.40} for a tensor of shape {self.shape}",
                hint="format an element, x[0].item(), or use mt.set_printoptions",
            ) from None

    def __len__(self):
        if self.ndim == 0:
            raise DTypeError("len(): a 0-d tensor does not have a length", hint="use x.numel()")
        return self.array.shape[0]

    def __iter__(self):
        if self.ndim == 0:
            raise DTypeError("iter(): a 0-d tensor is not iterable", hint="use x.item()")
        return iter(ops.unbind(self, 0))

    def __bool__(self):
        if self.array.size != 1:
            raise ArgumentError(
                "bool(): the truth value is ambiguous unless the tensor has exactly one element",
                got=f"shape {self.shape}",
                hint="use x.any() or x.all()",
            )
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError(
                "a tensor used as a Python index must be a 0-d integer tensor",
                got=f"{self.dtype} of shape {self.shape}",
                hint="convert with x.long(), or take the only element with x.item()",
            )
        return int(self.item())

    def __contains__(self, value):
        same = self == value
        if not isinstance(same, Tensor):
            raise DTypeError("in: value is neither a tensor nor a number", got=type(value).__name__)
        return bool(same.any())

    def __reduce__(self):
        """Return the class, values, device and requires_grad of a leaf, for pickle."""
        if not self.is_leaf:
            raise GraphError(
                "pickle: the tensor is not a leaf, but the result of an operation",
                hint="pickle the values: x.detach()",
            )
        return _unpickled, (type(self), self.numpy(), str(self.device), self.requires_grad)

    def __copy__(self):
        copy = _new(type(self))
        for name in Tensor.__slots__[:-1]:  # all slots except __weakref__
            setattr(copy, name, getattr(self, name))
        return copy

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise GraphError(
                "deepcopy: the tensor is not a leaf, but the result of an operation",
                hint="copy the values with x.detach().clone()",
            )
        copy = wrap(self.array.copy())
        copy.requires_grad = self.requires_grad
        if self.grad is not None:
            copy.grad = self.grad.detach().clone()
        memo[id(self)] = copy
        return copy

    # Operators

    def __neg__(self):
        return ops.neg(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return ops.abs(self)

    def __invert__(self):
        return ops.bitwise_not(self)

    def __add__(self, other):
        return ops.add(self, other)

    def __sub__(self, other):
        return ops.sub(self, other)

    def __mul__(self, other):
        return ops.mul(self, other)

    def __truediv__(self, other):
        return ops.div(self, other)

    def __floordiv__(self, other):
        return ops.floor_divide(self, other)

    def __mod__(self, other):
        return ops.remainder(self, other)

    def __pow__(self, exponent):
        return ops.pow(self, exponent)

    def __matmul__(self, other):
        return ops.matmul(self, other)

    def __and__(self, other):
        return ops.bitwise_and(self, other)

    def __or__(self, other):
        return ops.bitwise_or(self, other)

    def __xor__(self, other):
        return ops.bitwise_xor(self, other)

    # Reflected operators, which Python calls if the left operand is not a Tensor, as in 2 - x

    def __radd__(self, other):
        return ops.add(other, self)

    def __rsub__(self, other):
        return ops.sub(other, self)

    def __rmul__(self, other):
        return ops.mul(other, self)

    def __rtruediv__(self, other):
        return ops.div(other, self)

    def __rfloordiv__(self, other):
        return ops.floor_divide(other, self)

    def __rmod__(self, other):
        return ops.remainder(other, self)

    def __rpow__(self, base):
        return ops.pow(base, self)

    def __rmatmul__(self, other):
        return ops.matmul(other, self)

    def __rand__(self, other):
        return ops.bitwise_and(other, self)

    def __ror__(self, other):
        return ops.bitwise_or(other, self)

    def __rxor__(self, other):
        return ops.bitwise_xor(other, self)

    # In place: x += y

    def __iadd__(self, other):
        return self.add_(other)

    def __isub__(self, other):
        return self.sub_(other)

    def __imul__(self, other):
        return self.mul_(other)

    def __itruediv__(self, other):
        return self.div_(other)

    # Comparison

    def __eq__(self, other):
        return False if other is None else ops.eq(self, other)

    def __ne__(self, other):
        return True if other is None else ops.ne(self, other)

    def __lt__(self, other):
        return ops.lt(self, other)

    def __le__(self, other):
        return ops.le(self, other)

    def __gt__(self, other):
        return ops.gt(self, other)

    def __ge__(self, other):
        return ops.ge(self, other)

    # Indexing

    def __getitem__(self, index):
        return ops.getitem(self, index)

    def __setitem__(self, index, value):
        ops.setitem(self, index, value)


def wrap(array, edge=None):
    """Return a Tensor that holds the given array itself, without a copy or conversion.

    Parameters
    ----------
    array : backend array
    edge : (node, output index), optional
        Node of the graph that computed the array, and the index of its output.

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


def leaf(array, requires_grad=False):
    """Return a leaf tensor that holds the given array itself, without a copy."""
    result = wrap(array)
    if requires_grad:
        result.requires_grad = True
    return result


def _unpickled(cls, values, device, requires_grad):
    """Create a leaf (a Tensor or a Parameter) from the values that `Tensor.__reduce__` stored."""
    array = backend.from_host(values, backend.as_device(device))
    return leaf(array, requires_grad) if cls is Tensor else cls(wrap(array), requires_grad)


_new = object.__new__


def as_new_array(data, dtype, device):
    """Copy any data that `tensor(data)` accepts into a new array."""
    if isinstance(data, Tensor):
        data = data.array
    array = backend.new_array(data, dtype)
    return array if device is None else backend.to_device(array, backend.as_device(device))


def _values(data):
    """Replace the tensors in nested lists, tuples and dicts with arrays, for NumPy."""
    if isinstance(data, Tensor):
        return data.__array__()
    if isinstance(data, (list, tuple)):
        return type(data)([_values(item) for item in data])
    if isinstance(data, dict):
        return {key: _values(item) for key, item in data.items()}
    return data


def _elements(data):
    """Return the elements specified by the arguments of `Tensor(...)`."""
    if len(data) == 1 and not isinstance(data[0], (int, float)):
        return data[0]
    if all(type(size) is int and size >= 0 for size in data):
        return ops.zeros(data or (0,))
    raise ArgumentError(
        "Tensor(*data): data is neither one sequence of elements nor sizes",
        got=", ".join(map(repr, data)),
        hint="mt.tensor(...) for a number, Tensor([...]) for elements, Tensor(2, 3) for sizes",
    )


@names_arguments
def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """Make a tensor with a copy of `data`.

    Parameters
    ----------
    data : array, nested sequence, number or Tensor
        Data to copy. Python floats become float32 (or the dtype that `mt.set_default_dtype` set)
        and ints become int64; arrays keep their dtype.
    dtype : numpy dtype, optional
        Dtype to convert the data to.
    device : str or Device, optional
        Device to copy the data to.
    requires_grad : bool
        Whether to record operations on the tensor, for `backward`.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If nested sequences have different lengths.

    Examples
    --------
    >>> tensor([1, 2]).dtype, tensor([1.0]).dtype
    (dtype('int64'), dtype('float32'))
    """
    return leaf(as_new_array(data, dtype, device), requires_grad)


# These modules import Tensor, so they are imported last. The operators and methods call them.
from .autograd import engine, inplace  # noqa: E402  isort: skip
from . import formatting, ops  # noqa: E402  isort: skip
from .methods import add_methods  # noqa: E402  isort: skip
from .ops.plumbing.axes import flag_of  # noqa: E402  isort: skip

add_methods(Tensor)
