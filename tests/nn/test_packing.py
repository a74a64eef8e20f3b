"""Packed and padded sequences equal plain lists of sequences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.nn.utils import rnn


def drawn(lengths, rest, device, dtype="float64"):
    """Sequences of different numbers, as arrays and as Tensors."""
    total = sum(lengths) * int(np.prod(rest))
    values = iter(np.split(1.0 + np.arange(total), np.cumsum(lengths) * int(np.prod(rest))))
    hosts = [next(values).reshape(n, *rest).astype(dtype) for n in lengths]
    return hosts, [mt.tensor(h, device=device) for h in hosts]


def padded(hosts, batch_first=False, value=0.0, side="right", total=None):
    total = total or max(map(len, hosts))
    out = np.full((len(hosts), total, *hosts[0].shape[1:]), value, hosts[0].dtype)
    for i, h in enumerate(hosts):
        out[i, total - len(h) if side == "left" else 0 :][: len(h)] = h
    return out if batch_first else out.swapaxes(0, 1)


@settings(deadline=None, max_examples=80)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    rest=st.lists(st.integers(1, 3), max_size=2),
    batch_first=st.booleans(),
    value=st.sampled_from([0.0, -2.5, float("inf"), float("nan")]),
    extra=st.integers(0, 2),
    dtype=st.sampled_from(["float64", "int64"]),
)
def test_there_and_back(device, lengths, rest, batch_first, value, extra, dtype):
    value = 3 if dtype == "int64" else value
    hosts, sequences = drawn(lengths, rest, device, dtype)
    batch = rnn.pad_sequence(sequences, batch_first, value)
    np.testing.assert_array_equal(batch.numpy(), padded(hosts, batch_first, value))
    packed = rnn.pack_padded_sequence(batch, lengths, batch_first, enforce_sorted=False)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    tokens = [hosts[i][t] for t in range(max(lengths)) for i in order if t < lengths[i]]
    np.testing.assert_array_equal(packed.data.numpy(), tokens)
    assert packed.batch_sizes.tolist() == [sum(n > t for n in lengths) for t in range(max(lengths))]
    assert packed.sorted_indices.tolist() == order
    assert [order[k] for k in packed.unsorted_indices.tolist()] == list(range(len(lengths)))
    total = max(lengths) + extra
    back, counted = rnn.pad_packed_sequence(packed, batch_first, value, total)
    np.testing.assert_array_equal(back.numpy(), padded(hosts, batch_first, value, total=total))
    assert counted.tolist() == lengths and back.dtype == batch.dtype == dtype
    for each in (rnn.unpad_sequence(batch, counted, batch_first), rnn.unpack_sequence(packed)):
        for have, want in zip(each, hosts, strict=True):
            np.testing.assert_array_equal(have.numpy(), want)


def test_what_lies_where(device):
    _, sequences = drawn([3, 1], [2], device)
    packed = rnn.pack_sequence(sequences)
    assert packed.sorted_indices is None and packed.unsorted_indices is None
    assert str(packed.batch_sizes.device) == "cpu" and packed.batch_sizes.dtype == np.int64
    assert packed.data.device == sequences[0].device
    unsorted = rnn.pack_sequence(sequences[::-1], enforce_sorted=False)
    assert unsorted.sorted_indices.device == sequences[0].device
    assert unsorted.sorted_indices.dtype == unsorted.unsorted_indices.dtype == np.int64
    lengths = rnn.pad_packed_sequence(unsorted)[1]
    assert str(lengths.device) == "cpu" and lengths.dtype == np.int64


def test_padding_on_the_left(device):
    hosts, sequences = drawn([2, 0, 3], [2], device)
    for first in (False, True):
        got = rnn.pad_sequence(sequences, first, padding_value=-1, padding_side="left")
        np.testing.assert_array_equal(got.numpy(), padded(hosts, first, -1, "left"))
    flags = [mt.tensor(v, device=device) for v in ([True], [False, True])]
    wanted = [[True, True], [False, True]]
    assert rnn.pad_sequence(flags, True, padding_value=1).tolist() == wanted


def test_one_dtype_for_all(device):
    sequences = [mt.ones(1, device=device), mt.ones(2, device=device).double()]
    assert rnn.pad_sequence(sequences).dtype == mt.float32
    assert rnn.pad_sequence(mt.ones(2, 3, device=device), batch_first=True).shape == (2, 3)


@pytest.mark.parametrize("first", [False, True])
def test_gradients(make, first):
    def there_and_back(x):
        packed = rnn.pack_padded_sequence(x, [2, 3], first, enforce_sorted=False)
        return packed.data, rnn.pad_packed_sequence(packed, first, 0.5, 7)[0]

    x = make(2, 5, 3) if first else make(5, 2, 3)
    assert gradcheck(there_and_back, x)
    assert gradcheck(lambda a, b: rnn.pad_sequence([a, b], first), (make(2, 3), make(5, 3)))
    assert gradcheck(lambda x: tuple(rnn.unpad_sequence(x, [2, 3], first)), x)


def test_the_batch_stays_as_it_is(device):
    batch = mt.zeros(5, 2, 3, device=device)
    parts = rnn.unpad_sequence(batch, mt.tensor([4, 9], device=device))
    assert [p.shape for p in parts] == [(4, 3), (5, 3)] and batch.shape == (5, 2, 3)
    parts[0].add_(1)
    assert not batch.numpy().any()


def test_a_packed_sequence_moves_and_converts(device):
    packed = rnn.pack_sequence(drawn([1, 3], [2], device)[1], enforce_sorted=False)
    assert packed.to(device) is packed and packed.double() is packed
    names = dict(float="float32", half="float16", long="int64", int="int32", short="int16",
                 char="int8", byte="uint8")  # fmt: skip
    for name, dtype in names.items():
        other = getattr(packed, name)()
        assert type(other) is rnn.PackedSequence and other.data.dtype == dtype
        assert other.sorted_indices.dtype == np.int64
        assert other.batch_sizes is packed.batch_sizes
    here = packed.to("cpu", mt.float32)
    assert here.data.dtype == mt.float32 and str(here.sorted_indices.device) == "cpu"
    assert str(packed.cpu().data.device) == "cpu"
    assert packed.is_cuda == (packed.data.device.type == "cuda")


def test_made_by_hand(device):
    data, sizes = mt.zeros(3, 1, device=device), mt.tensor([2, 1])
    order = mt.tensor([1, 0], device=device)
    for packed in (rnn.PackedSequence(data, sizes, order), rnn.PackedSequence((data, sizes))):
        assert packed.data is data and packed.batch_sizes is sizes
    assert rnn.PackedSequence(data, sizes, order).unsorted_indices.tolist() == [1, 0]
    assert rnn.invert_permutation(None) is None
    with pytest.raises(ArgumentError, match="on the CPU"):
        rnn.PackedSequence(data, sizes.to("strict"))


@pytest.mark.parametrize(
    ("shape", "lengths", "error", "message"),
    [
        ((5,), [5], ShapeError, "axes"), ((5, 2), [5], ShapeError, "one entry per sequence"),
        ((5, 2), [2, 5], ArgumentError, "must not increase"), ((5, 0), [], ShapeError, "empty"),
        ((5, 2), [5, 0], ArgumentError, "out of range"), ((5, 2, 0), [5, 1], ShapeError, "empty"),
        ((5, 2), [6, 1], ArgumentError, "from 1 to 5"), ((5, 2), None, DTypeError, "integers"),
        ((5, 2), ["a", "b"], DTypeError, "integers"),
    ],
)  # fmt: skip
def test_wrong_lengths(device, shape, lengths, error, message):
    with pytest.raises(error, match=message):
        rnn.pack_padded_sequence(mt.zeros(shape, device=device), lengths)


def test_other_wrong_arguments(device):
    x, y = mt.zeros(5, 2, device=device), mt.zeros(5, 3, device=device)
    with pytest.raises(ShapeError, match="must have 1 axis"):
        rnn.pack_padded_sequence(x, mt.tensor([[5, 5]]))
    with pytest.raises(ArgumentError, match="total_length=4"):
        rnn.pad_packed_sequence(rnn.pack_sequence([x]), total_length=4)
    with pytest.raises(DTypeError, match="must be a PackedSequence"):
        rnn.pad_packed_sequence(x)
    with pytest.raises(ShapeError, match="one entry per sequence"):
        rnn.unpad_sequence(x, [5])
    with pytest.raises(DTypeError, match="unpad_sequence: lengths must be integers"):
        rnn.unpad_sequence(x, [5, None])
    for function in (rnn.pad_sequence, rnn.pack_sequence):
        with pytest.raises(ArgumentError, match="must not be empty"):
            function([])
        with pytest.raises(ShapeError, match="shapes of the sequences"):
            function([x, y])
        with pytest.raises(ShapeError, match="shapes of the sequences"):
            function([x[0, 0]])
        with pytest.raises(DTypeError, match="not a tensor"):
            function([x, [1.0]])
        with pytest.raises(DTypeError, match="not a list"):
            function(3)
    with pytest.raises(ArgumentError, match="'right' or 'left'"):
        rnn.pad_sequence([x], padding_side="top")
