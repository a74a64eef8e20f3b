"""Tensor: creation, printing, and common mistakes."""

import copy
import inspect

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GraphError,
    ShapeError,
)


@pytest.mark.parametrize(
    "data, dtype, shape",
    [
        (1, "int64", ()),
        (1.5, "float32", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        ([1, 2.5], "float32", (2,)),
        ([[True], [False]], "bool", (2, 1)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (np.float64(2.0), "float64", ()),
        (np.arange(3, dtype="int32"), "int32", (3,)),
        (np.ones((2, 0)), "float64", (2, 0)),
        ([np.float64(1.0), np.float64(2.0)], "float64", (2,)),
    ],
)
def test_dtype_and_shape_of_new_tensors(data, dtype, shape):
    x = mt.tensor(data)
    assert (str(x.dtype), x.shape) == (dtype, shape)


def test_tensor_copies_and_from_numpy_shares():
    source = np.zeros(3)
    copied, shared = mt.tensor(source), mt.from_numpy(source)
    source[0] = 5.0
    assert copied[0].item() == 0.0
    assert shared[0].item() == 5.0


def test_strided_and_expanded_arrays_keep_their_values(device):
    base = np.arange(12.0).reshape(3, 4)
    for array in (base.T, base[::2, ::-1], np.broadcast_to(base[:1], (5, 4))):
        np.testing.assert_array_equal(mt.tensor(array, device=device).numpy(), array)


def test_nested_tensors_are_values():
    x = mt.tensor([mt.tensor([1.0, 2.0]), mt.tensor([3.0, 4.0])])
    np.testing.assert_array_equal(x.numpy(), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "data, error, words",
    [
        ([[1.0, 2.0], [3.0]], ShapeError, ["ragged", "pad"]),
        (["a", "b"], DTypeError, ["real numbers"]),
        ([None, 1.0], DTypeError, ["numbers"]),
        (1 + 2j, DTypeError, ["complex"]),
        (np.array(["x"]), DTypeError, ["real numbers"]),
    ],
)
def test_data_that_are_no_tensor(data, error, words):
    with pytest.raises(error) as caught:
        mt.tensor(data)
    for word in words:
        assert word in str(caught.value)


def test_integers_cannot_require_grad():
    with pytest.raises(DTypeError, match="floating-point"):
        mt.tensor([1, 2], requires_grad=True)


def test_backward_on_a_non_scalar_says_what_to_do(make):
    with pytest.raises(GraphError, match="reduce it to a loss"):
        (make(3) * 2).backward()


def test_backward_without_a_graph(make):
    with pytest.raises(GraphError, match="does not have a graph"):
        make(1, requires_grad=False).sum().backward()


def test_gradient_argument_of_the_wrong_shape(make):
    with pytest.raises(ShapeError, match="shape of the output"):
        (make(3) * 2).backward(mt.ones(4))


def test_grad_is_checked_when_assigned(make):
    x = make(3)
    with pytest.raises(ShapeError, match="shape of its tensor"):
        x.grad = mt.ones(4)
    with pytest.raises(DTypeError):
        x.grad = 1.0


def test_item_and_truth(make):
    with pytest.raises(ArgumentError, match="one element"):
        make(3).item()
    with pytest.raises(ArgumentError, match="ambiguous"):
        bool(make(3))
    assert mt.tensor(2.5).item() == 2.5
    assert float(mt.tensor([2.0])) == 2.0
    assert [10, 20, 30][mt.tensor(1)] == 20


def test_len_and_iteration(make):
    x = make(3, 2)
    rows = list(x)
    assert len(x) == 3 and [r.shape for r in rows] == [(2,)] * 3
    rows[1].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0], [1, 1], [0, 0]])
    with pytest.raises(DTypeError):
        len(mt.tensor(1.0))


def test_detach_shares_memory_and_version(make):
    x = make(3)
    y = x.detach()
    assert not y.requires_grad
    product = x * x
    y.mul_(0)
    assert not x.numpy().any()
    with pytest.raises(GraphError, match="changed in place"):
        product.sum().backward()


def test_deepcopy_is_independent(make):
    x = make(3)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad and twin.is_leaf
    np.testing.assert_array_equal(twin.grad.numpy(), x.grad.numpy())
    with mt.no_grad():
        twin.mul_(2)
    assert not np.array_equal(twin.numpy(), x.numpy())
    with pytest.raises(GraphError, match="is not a leaf"):
        copy.deepcopy(x * 2)


def test_numpy_on_either_side(rng):
    x, a = mt.tensor(rng.standard_normal((2, 3)), requires_grad=True), rng.standard_normal((2, 3))
    for y in (x * a, a * x, x + a, a - x):
        assert isinstance(y, mt.Tensor) and y.requires_grad
    np.testing.assert_array_equal((a - x).detach().numpy(), a - x.numpy())


def test_repr():
    assert repr(mt.tensor([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert repr(mt.tensor(3)) == "tensor(3)"
    assert repr(mt.tensor([1.0], dtype="float64")) == "tensor([1.], dtype=float64)"
    assert repr(mt.tensor([1.0], requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert repr(mt.tensor([1.0], requires_grad=True) * 2) == "tensor([2.], grad_fn=<Mul>)"
    assert repr(mt.zeros(2, 0)) == "tensor([], size=(2, 0))"
    assert repr(mt.tensor([1.0], device="strict")) == "tensor([1.], device='strict:0')"


def test_format_of_a_scalar():
    assert f"{mt.tensor(1.23456):.2f}" == "1.23"


def test_conversions(device):
    x = mt.tensor([0.0, 1.5], device=device)
    assert str(x.double().dtype) == "float64"
    assert str(x.long().dtype) == "int64"
    assert x.bool().tolist() == [False, True]
    assert x.to("float64").dtype == mt.float64
    assert x.to(device).device == x.device
    assert x.cpu().device.type == "cpu"
    with pytest.raises(ArgumentError, match="neither a dtype nor a device"):
        x.to("flaot32")


def test_gradient_passes_a_conversion(make):
    x = make(3)
    (x.float() * 2).sum().backward()
    assert x.grad.dtype == mt.float64
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])


def test_gradient_passes_a_move():
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    (x.to("strict") * 3).sum().backward()
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [3.0, 3.0]


def test_mixed_devices_are_refused():
    a, b = mt.ones(2), mt.ones(2, device="strict")
    for operation in (lambda: a + b, lambda: b * a, lambda: mt.matmul(a, b)):
        with pytest.raises(DeviceError, match="strict"):
            operation()


def test_shapes_that_do_not_broadcast_name_both(device):
    a, b = mt.ones(2, 3, device=device), mt.ones(4, device=device)
    with pytest.raises(ShapeError) as caught:
        a + b
    assert "(2, 3)" in str(caught.value) and "(4,)" in str(caught.value)


def test_a_list_is_no_operand():
    with pytest.raises(DTypeError, match="neither a tensor nor a number"):
        mt.ones(2) + [1.0, 2.0]


def test_data_can_be_replaced(make):
    x = make(3)
    x.data = mt.zeros(3, dtype="float64", device=x.device)
    assert x.requires_grad and not x.numpy().any()


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_creation_takes_sizes_or_a_tuple(name, device):
    create = getattr(mt, name)
    assert create(2, 3, device=device).shape == create((2, 3), device=device).shape == (2, 3)
    assert str(create(2, dtype="float64", device=device).dtype) == "float64"


def test_ranges(device):
    assert mt.arange(5, device=device).tolist() == [0, 1, 2, 3, 4]
    assert mt.arange(1, 2, 0.5, device=device).tolist() == [1.0, 1.5]
    assert str(mt.arange(3.0).dtype) == "float32"
    assert mt.linspace(0, 1, 5, device=device).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert mt.eye(2, 3, device=device).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert str(mt.full((2,), 7).dtype) == "int64"
    with pytest.raises(ArgumentError, match="step"):
        mt.arange(0, 3, 0)


def test_random_numbers_do_not_depend_on_the_device():
    drawn = []
    for name in ("cpu", "strict"):
        mt.manual_seed(3)
        drawn.append(
            [mt.randn(3, device=name), mt.rand(2, device=name), mt.randperm(7, device=name)]
        )
    for a, b in zip(*drawn, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


PUBLIC = [
    (name, value)
    for name, value in vars(mt.Tensor).items()
    if not name.startswith("_") and not inspect.ismemberdescriptor(value)
]
METHODS = [(name, value) for name, value in PUBLIC if inspect.isfunction(value)]


def test_every_method_and_property_is_documented():
    assert len(METHODS) > 200
    assert [name for name, value in PUBLIC if not (value.__doc__ or "").strip()] == []


@pytest.mark.parametrize(("name", "method"), METHODS, ids=[name for name, _ in METHODS])
def test_a_wrong_call_names_the_method(name, method):
    x, signature = mt.ones(2, 2), inspect.signature(method)
    with pytest.raises(TypeError, match=rf"^Tensor\.{name}\(\) got an unexpected keyword"):
        getattr(x, name)(no_such_argument=1)
    with pytest.raises(TypeError):
        signature.bind(x, no_such_argument=1)
    assert (method.__name__, method.__qualname__) == (name, f"Tensor.{name}")


@pytest.mark.parametrize(
    ("method", "signature"),
    [
        ("exp", "(input)"),
        ("sum", "(input, dim=None, keepdim=False, *, dtype=None)"),
        ("softmax", "(self, dim, dtype=None)"),
        ("clip", "(input, min=None, max=None)"),
        ("reshape", "(self, *sizes, shape=None)"),
        ("add_", "(input, other, *, alpha=1)"),
        ("float", "(self)"),
        ("size", "(self, dim=None)"),
    ],
)
def test_signatures_are_those_that_can_be_called(method, signature):
    assert str(inspect.signature(getattr(mt.Tensor, method))) == signature


def test_comparison_with_none_is_an_answer():
    x = mt.ones(2)
    assert (x == None) is False and (x != None) is True  # noqa: E711


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda x: x.addcmul(x, x, value=2), [[3, 10], [21, 36]]),
        (lambda x: x.cumprod(1), [[1, 2], [3, 12]]),
        (lambda x: x.inner(x), [[5, 11], [11, 25]]),
        (lambda x: x.trace(), 5),
        (lambda x: x.ravel(), [1, 2, 3, 4]),
        (lambda x: x.view_as(mt.zeros(4)), [1, 2, 3, 4]),
        (lambda x: x.unfold(0, 2, 1), [[[1, 3], [2, 4]]]),
        (lambda x: x.median(), 2),
        (lambda x: x.diag(), [1, 4]),
        (lambda x: x.size(-1), 2),
        (lambda x: x.t(), [[1, 3], [2, 4]]),
    ],
)
def test_methods(call, expected):
    result = call(mt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(result.numpy() if hasattr(result, "numpy") else result, expected)


@pytest.mark.parametrize(("name", "operation"), mt.ops.OTHER_NAMES.items())
def test_other_names_of_operations(name, operation, device):
    x = mt.tensor([3.0, -1.0], device=device)
    arguments = () if operation in ("abs", "neg") else (2.0,)
    wanted = getattr(mt, operation)(x, *arguments)
    assert getattr(mt, name)(x, *arguments).tolist() == wanted.tolist()
    with pytest.raises(mt.errors.MiniTorchError, match=rf"\b{name}\b"):
        getattr(mt, name)("x", *arguments)
    assert getattr(x, name)(*arguments).tolist() == wanted.tolist()
    changed = getattr(x, f"{name}_")(*arguments)
    assert changed is x and x.tolist() == [float(v) for v in wanted.tolist()]


def test_casts_and_sizes_in_bytes(device):
    x = mt.tensor([[1.0, 2.0, 3.0]], device=device)
    for name, dtype in (("byte", "uint8"), ("char", "int8"), ("short", "int16")):
        assert getattr(x, name)().dtype == dtype and getattr(x, name)().tolist() == [[1, 2, 3]]
    assert (x.nbytes, x.itemsize, x.ndimension()) == (12, 4, 2)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [(lambda x: x.clamp_min_(2), [2, 3]), (lambda x: x.clamp_max_(2), [1, 2]),
     (lambda x: x.clip_(2, 2.5), [2, 2.5]), (lambda x: x.floor_divide_(2), [0, 1]),
     (lambda x: x.cumprod_(0), [1, 3]), (lambda x: x.eq_(3), [0, 1]),
     (lambda x: x.log2_(), [0, 1.5849625])],
)  # fmt: skip
def test_in_place(call, wanted, device):
    x = mt.tensor([1.0, 3.0], device=device)
    assert call(x) is x
    np.testing.assert_allclose(x.numpy(), np.float32(wanted), rtol=1e-6)


@pytest.mark.parametrize("value", [None, "a", object(), {}])
def test_what_is_no_number_cannot_be_in_a_tensor(value, device):
    x = mt.arange(6, device=device).reshape(2, 3)
    assert 4 in x and 7 not in x and mt.tensor(2, device=device) in x
    with pytest.raises(DTypeError, match="neither a tensor nor a number"):
        value in x  # noqa: B015
