"""IDX files: every data type, gzipped or not, and one clear error for damaged files."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from minitorch_attn.data.mnist import mnist, read_idx
from minitorch_attn.errors import DataError

CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def idx(array):
    """The bytes of an IDX file."""
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("packed", [False, True])
def test_arrays_come_back(code, packed, tmp_path, rng):
    array = (rng.normal(size=(2, 3, 5)) * 50).astype(code)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    found = read_idx(path)
    assert found.dtype == array.dtype and found.flags.writeable
    np.testing.assert_array_equal(found, array)


GOOD = idx(np.arange(12, dtype="u1").reshape(3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with nothing"),
        (GOOD[:3], "not an IDX file"),
        (b"\x89PNG" + GOOD, "starts with 89 50 4e 47"),
        (b"\0\0\x0a\x01" + GOOD[4:], "not an IDX file"),
        (b"\0\0\x08\x00", "not an IDX file"),
        (GOOD[:9], "are invalid"),
        (b"\0\0\x0e\x03" + b"\xff" * 12 + b"x", "are invalid"),
        (GOOD[:-1], "shorter"),
        (GOOD + b"x", "longer"),
        (GOOD[:12], "0 bytes of values"),
    ],
)
def test_broken_files(content, message, tmp_path):
    path = tmp_path / "archive is damaged"
    for packed in (content, gzip.compress(content)):
        path.write_bytes(packed)
        with pytest.raises(DataError, match=message) as caught:
            read_idx(path)
        assert str(path) in str(caught.value)


def test_broken_gzip(tmp_path):
    path = tmp_path / "a.gz"
    for content in (gzip.compress(GOOD * 100)[:-20], b"\x1f\x8bxxxxxxxxxxxxxxxxxx"):
        path.write_bytes(content)
        with pytest.raises(DataError):
            read_idx(path)
    with pytest.raises(DataError, match="could not be read"):
        read_idx(tmp_path / "nowhere")


@pytest.fixture
def folder(tmp_path, rng):
    """A small MNIST, one half of it gzipped, in a subfolder; and its arrays."""
    (tmp_path / "raw").mkdir()
    arrays = []
    for part, count in (("train", 7), ("t10k", 5)):
        images = rng.integers(256, size=(count, 3, 2)).astype("u1")
        labels = rng.integers(10, size=count).astype("u1")
        (tmp_path / "raw" / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (tmp_path / "raw" / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
        arrays += [images, labels]
    return tmp_path, arrays


def test_the_four_files(folder):
    folder, (images, labels, test_images, test_labels) = folder
    found = mnist(folder)
    assert found[0].shape == (7, 1, 3, 2) and found[0].dtype == np.float32
    np.testing.assert_array_equal(found[0][:, 0], images.astype("f4") / np.float32(255))
    np.testing.assert_array_equal(found[3], test_labels)
    assert found[1].dtype == np.int64 and found[1].tolist() == labels.tolist()
    raw = mnist(folder, dtype="uint8")
    assert raw[2].dtype == np.uint8
    np.testing.assert_array_equal(raw[2][:, 0], test_images)


def test_files_that_are_missing_or_do_not_go_together(folder, tmp_path):
    folder, (_, labels, *_) = folder
    path = folder / "raw" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(idx(labels[:-1]))
    with pytest.raises(DataError, match="do not match"):
        mnist(folder)
    path.write_bytes(idx(labels.reshape(7, 1)))
    with pytest.raises(DataError, match="do not match"):
        mnist(folder)
    path.unlink()
    with pytest.raises(DataError, match="train-labels-idx1-ubyte is missing"):
        mnist(folder)


@pytest.mark.parametrize("packed", [False, True])
def test_sizes_that_a_header_only_claims_are_not_allocated(packed, tmp_path):
    content = b"\0\0\x08\x02" + (2**16 - 1).to_bytes(4, "big") * 2 + bytes(9)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(content) if packed else content)
    tracemalloc.start()
    with pytest.raises(DataError, match="shorter than its header says"):
        read_idx(path)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


@pytest.mark.parametrize("sizes", [[1] * 65, [1] * 255, [0, 2**32 - 1, 2**32 - 1]], ids=len)
def test_axes_that_numpy_does_not_have(sizes, tmp_path):
    header = b"\0\0\x08" + bytes([len(sizes)])
    (tmp_path / "a").write_bytes(header + b"".join(n.to_bytes(4, "big") for n in sizes) + b"1")
    with pytest.raises(DataError, match="sizes of the axes are invalid"):
        read_idx(tmp_path / "a")
