"""Typed constructors, the default dtype and the options of printing."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, MiniTorchError

NAMES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8",
    "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), NAMES.items())
def test_typed_constructors(name, dtype, device):
    make = getattr(mt, name)
    x = make([[1, 0]], device=device)
    assert type(x) is mt.Tensor and x.dtype == dtype and x.tolist() == [[1, 0]]
    assert make(2, 3).shape == (2, 3) and make(2, 3).dtype == dtype and make().shape == (0,)
    assert make(mt.tensor([1.0, 0.0])).dtype == dtype
    assert isinstance(x, make) and not isinstance([1], make)
    assert not any(isinstance(x, getattr(mt, other)) for other in NAMES if other != name)
    with pytest.raises(MiniTorchError):
        make(2, "x")


@pytest.fixture
def double():
    """float64 as the default dtype."""
    assert mt.get_default_dtype() == mt.float32
    mt.set_default_dtype(mt.float64)
    yield
    mt.set_default_dtype(mt.float32)


def test_the_default_dtype(double, device):
    x, whole = mt.tensor([0.1], device=device), mt.tensor([1, 2], device=device)
    assert x.dtype == np.float64 and x.item() == 0.1
    results = [mt.zeros(2), mt.rand(2), mt.linspace(0, 1, 3), mt.arange(0, 1, 0.5), mt.Tensor(2),
               mt.full((2,), 0.5), whole / 2, whole * 0.5, whole.exp(), mt.nn.Linear(2, 3).weight,
               mt.eye(2), mt.randn(2)]  # fmt: skip
    assert {result.dtype for result in results} == {np.dtype("float64")}
    assert whole.dtype == np.int64 and mt.FloatTensor([1]).dtype == np.float32
    assert mt.tensor(np.float32([1])).dtype == np.float32 and mt.finfo().bits == 64
    assert "dtype" not in repr(mt.zeros(2)) and "dtype=float32" in repr(mt.FloatTensor(2))


def test_half_precision_as_the_default_dtype():
    mt.set_default_dtype("float16")
    try:
        assert mt.tensor([0.1]).dtype == mt.tensor(0.1).dtype == mt.ones(2).dtype == np.float16
    finally:
        mt.set_default_dtype(mt.float32)


def test_the_default_dtype_must_be_floating_point():
    with pytest.raises(DTypeError, match="set_default_dtype: d must be"):
        mt.set_default_dtype(mt.int64)
    assert mt.get_default_dtype() == mt.float32


@pytest.fixture
def printing():
    yield mt.set_printoptions
    mt.set_printoptions(profile="default")


def test_print_options(printing):
    x = mt.tensor([3.14159, 1234.5])
    before = repr(x)
    printing(precision=2)
    assert repr(mt.tensor([3.14159])) == "tensor([3.14])"
    printing(sci_mode=True)
    assert repr(x) == "tensor([3.14e+00, 1.23e+03])"
    printing(sci_mode=False)
    assert repr(mt.tensor([1e-6, 1e6])) == "tensor([0.00, 1000000.00])"
    printing(profile="default")
    assert repr(x) == before
    printing(threshold=3, edgeitems=1)
    assert repr(mt.arange(9)) == "tensor([0, ..., 8])"
    printing(threshold=float("inf"))
    assert "..." not in repr(mt.arange(2000))
    printing(profile="default", linewidth=20)
    assert len(repr(mt.arange(9)).splitlines()) > 1
    printing(profile="short")
    assert repr(mt.tensor([3.14159])) == "tensor([3.14])"


@pytest.mark.parametrize("options", [{"profile": "long"}, {"precision": -1}, {"threshold": "all"}])
def test_wrong_print_options(options, printing):
    before = repr(mt.tensor([3.14159]))
    with pytest.raises(ArgumentError, match="set_printoptions: "):
        printing(**options)
    assert repr(mt.tensor([3.14159])) == before


@pytest.mark.parametrize("name", NAMES)
def test_type_returns_and_takes_pytorchs_name(name):
    x = getattr(mt, name)(2)
    title = "torch.cuda." if x.device.type == "cuda" else "torch."
    assert x.type() == title + name
    assert mt.zeros(2).type(x.type()).dtype == x.dtype
    assert mt.zeros(2).type(getattr(mt, name)).dtype == x.dtype
