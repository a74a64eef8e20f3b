"""mt.save and mt.load return what was saved, or raise one clear error."""

import errno
import io
import json
import math
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minitorch_attn as mt
from minitorch_attn import serialization
from minitorch_attn.errors import ArgumentError, CheckpointError, DTypeError
from minitorch_attn.files import atomic_file

DTYPES = ["bool", "float16", "float32", "float64"] + [
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
]


def round_trip(state, **kwargs):
    file = io.BytesIO()
    mt.save(state, file)
    file.seek(0)
    return mt.load(file, **kwargs)


def same(a, b):
    """Equal to the bit, in values and in kinds."""
    if type(a) is not type(b):
        return False
    if isinstance(a, mt.Tensor):
        a, b = a.numpy(), b.numpy()
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a, str(a)) == (b, str(b))
    return a == b


arrays = hnp.arrays(
    st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
)
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=6)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | arrays
    | arrays.map(mt.tensor)
    | arrays.filter(lambda a: a.size).map(lambda a: a.flat[0])
)
keys = texts | st.integers() | st.sampled_from(["$tensor", "$dict", "", "__metadata__", "a.b", "a"])
states = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(states)
def test_every_state_comes_back(state):
    assert same(round_trip(state), state)


def test_to_a_path_and_back(tmp_path, make):
    weight = make(2, 3, dtype="float32")
    path = tmp_path / "état.safetensors"
    mt.save({"weight": weight, "step": 7}, path)
    loaded = mt.load(str(path))
    assert loaded["step"] == 7
    assert loaded["weight"].numpy().tobytes() == weight.numpy().tobytes()
    assert not loaded["weight"].requires_grad
    assert [p.name for p in tmp_path.iterdir()] == ["état.safetensors"]


def test_tensors_go_to_the_device_asked_for(device):
    state = round_trip([mt.tensor([1.0, 2.0], device=device)], device=device)
    assert state[0].device == mt.tensor([1.0], device=device).device
    assert round_trip(state)[0].device.type == "cpu"


def test_a_single_number_keeps_its_shape(tmp_path):
    state = {"count": np.array(7), "t": np.ones((2, 3)).T}
    serialization.write_safetensors(tmp_path / "one", state)
    arrays = serialization.read_safetensors(tmp_path / "one")[1]
    assert (arrays["count"].shape, arrays["t"].shape) == ((), (3, 2)) and arrays["count"] == 7


def test_loaded_memory_is_writable_and_its_own():
    loaded = round_trip({"a": np.zeros(3), "t": mt.zeros(3)})
    loaded["a"][0] = 1
    loaded["t"].array[0] = 1
    assert loaded["t"].tolist() == [1, 0, 0]


def test_shared_tensors_are_stored_once_and_shared_again():
    table = mt.rand(100, 10)
    file = io.BytesIO()
    mt.save({"in": table, "out": table.detach(), "part": table[:50], "turned": table.T}, file)
    assert file.tell() < 4 * (1000 + 500 + 1000) + 1500
    file.seek(0)
    loaded = mt.load(file)
    assert loaded["in"] is loaded["out"]
    assert loaded["turned"].numpy().tobytes() == np.ascontiguousarray(table.numpy().T).tobytes()


def test_any_memory_layout():
    base = np.arange(24.0).reshape(4, 6)
    for array in (base.T, base[::2, ::-1], np.broadcast_to(base[0], (3, 6)), base.astype(">f8")):
        assert (round_trip([array])[0] == array).all()


def test_two_states_in_one_file():
    file = io.BytesIO()
    mt.save({"first": mt.ones(3)}, file)
    mt.save("second", file)
    file.seek(0)
    assert list(mt.load(file)) == ["first"]
    assert mt.load(file) == "second"


def test_other_programs_can_read_the_tensors(tmp_path):
    from safetensors.numpy import load_file, save_file

    path = tmp_path / "model.safetensors"
    mt.save({"model": {"layers.0.weight": mt.ones(2, 3)}, "epoch": 1}, path)
    tensors = load_file(path)
    assert list(tensors) == ["model.layers.0.weight"]
    assert tensors["model.layers.0.weight"].tolist() == [[1, 1, 1], [1, 1, 1]]

    save_file({"a": np.arange(3), "b": np.array(1.5)}, path, metadata={"format": "pt"})
    loaded = mt.load(path)
    assert same(loaded, {"a": mt.tensor(np.arange(3)), "b": mt.tensor(np.array(1.5))})


@pytest.mark.parametrize(
    ("state", "where", "what"),
    [
        ({"a": [1, {2}]}, "state['a'][1]", "a set"),
        ({"f": np.zeros(2, complex)}, "state['f']", "complex128"),
        ([np.array(["x"])], "state[0]", "<U1"),
        ({"a": {(1, 2): 3}}, "keys of state['a']", "(1, 2), a tuple"),
        ({"a": {True: 3}}, "keys of state['a']", "True, a bool"),
        ({"fn": print}, "state['fn']", "a builtin_function_or_method"),
    ],
)
def test_what_cannot_be_saved_is_named(state, where, what, tmp_path):
    with pytest.raises(DTypeError) as caught:
        mt.save(state, tmp_path / "x")
    assert where in str(caught.value) and what in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_contains_itself():
    state = {}
    state["self"] = [state]
    with pytest.raises(ArgumentError, match="contains itself"):
        mt.save(state, io.BytesIO())


# Damage


@pytest.fixture(scope="module")
def small_file():
    file = io.BytesIO()
    mt.save({"w": mt.tensor([1.5, -2.0]), "b": [np.array([True]), 3, "x"]}, file)
    return file.getvalue()


def test_every_damaged_byte_is_noticed(small_file):
    for position in range(len(small_file)):
        for flip in (0x01, 0x20, 0xFF):
            raw = bytearray(small_file)
            raw[position] ^= flip
            with pytest.raises(CheckpointError):
                mt.load(io.BytesIO(raw))


def test_every_truncation_is_noticed(small_file, tmp_path):
    for length in range(len(small_file)):
        path = tmp_path / "part.safetensors"
        path.write_bytes(small_file[:length])
        for source in (path, io.BytesIO(small_file[:length])):
            with pytest.raises(CheckpointError) as caught:
                mt.load(source)
        assert "the open BytesIO" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04 and so on", "a zip file"),
        (b"\x80\x04\x95 and so on", "a pickle"),
        (b"Once upon a time there was", "begins with b'Once upo"),
        (b"\x40" + bytes(7) + b"x" * 64, "begins with b'@"),
        (b"abc", "begins with b'abc'"),
        (b"\x40" + bytes(7) + b"{", "ends within its header"),
        (b"\x02" + bytes(7) + b"[]", "begins with"),
    ],
)
def test_foreign_files_are_named(content, what, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        mt.load(path)
    assert str(path) in str(caught.value) and what in str(caught.value)


def test_a_dtype_that_numpy_lacks(tmp_path):
    text = b'{"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}'
    path = tmp_path / "f8"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0")
    with pytest.raises(CheckpointError, match="dtype F8_E4M3"):
        mt.load(path)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    values = np.array([[1.5, -2.0, 0.0], [3.140625, 1e30, -np.inf]], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2")
    entry = '{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}'
    text = (
        '{"a":' + entry % ("F32", "[1]", 0, 4)
        + ',"b":' + entry % ("BF16", "[2, 3]", 4, 16) + "}"
    ).encode()  # fmt: skip
    path = tmp_path / "bf16"
    path.write_bytes(
        len(text).to_bytes(8, "little") + text + np.float32(7).tobytes() + upper.tobytes()
    )
    loaded = mt.load(path)
    assert loaded["b"].dtype == mt.float32 and loaded["a"].item() == 7
    expected = (upper.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(loaded["b"].numpy(), expected)
    assert expected[0, 0] == 1.5 and expected[1, 2] == -np.inf


def test_a_newer_format_is_named(small_file):
    text = small_file.replace(b'format": "1"', b'format": "2"')
    with pytest.raises(CheckpointError, match="newer"):
        mt.load(io.BytesIO(text))


def test_missing_files_folders_and_text_files(tmp_path):
    with pytest.raises(CheckpointError, match="nowhere.*\n.*No such file"):
        mt.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="could not be read"):
        mt.load(tmp_path)
    with pytest.raises(CheckpointError, match="mode 'rb'"):
        mt.load(io.StringIO("text"))
    with pytest.raises(CheckpointError, match="create the folder"):
        mt.save(1, tmp_path / "no" / "such" / "folder")
    with pytest.raises(CheckpointError, match="not a regular file"):
        mt.save(1, tmp_path)


# The disk


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_the_old_file_survives_a_refused_write(call, code, tmp_path, monkeypatch):
    path = tmp_path / "state.safetensors"
    mt.save("old", path)

    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(CheckpointError) as caught:
        mt.save("new", path)
    assert str(path) in str(caught.value) and os.strerror(code) in str(caught.value)
    assert "unchanged" in str(caught.value)
    monkeypatch.undo()
    assert mt.load(path) == "old"
    assert os.listdir(tmp_path) == ["state.safetensors"]


def test_ctrl_c_while_saving_leaves_the_old_file(tmp_path):
    path = tmp_path / "state"
    mt.save("old", path)
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as file:
        file.write(b"half of it")
        raise KeyboardInterrupt
    assert mt.load(path) == "old"
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX limits")
def test_the_system_limits_the_file_size(tmp_path):
    """A real refusal in the middle of a write, as from a full disk."""
    path = tmp_path / "state"
    mt.save("old", path)
    code = f"""
import resource, signal, minitorch_attn as mt
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))
try:
    mt.save(mt.zeros(100000), {str(path)!r})
except mt.errors.CheckpointError as error:
    print(error)
"""
    root = os.path.dirname(os.path.dirname(os.path.abspath(mt.__file__)))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert "File too large" in done.stdout, done.stderr
    assert mt.load(path) == "old"
    assert os.listdir(tmp_path) == ["state"]


def test_an_open_file_that_refuses():
    class Full(io.BytesIO):
        name = "/mnt/stick/a.safetensors"

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CheckpointError, match="/mnt/stick/a.safetensors"):
        mt.save(1, Full())


@pytest.mark.skipif(os.name == "nt", reason="links need privileges there")
def test_a_link_stays_a_link(tmp_path):
    real = tmp_path / "real"
    real.write_bytes(b"")
    (tmp_path / "link").symlink_to(real)
    mt.save(3, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert mt.load(real) == 3


def test_the_usual_permissions(tmp_path):
    mt.save(1, tmp_path / "a")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_the_names_of_pytorch(tmp_path):
    """`map_location`, a device, and `weights_only`, which is always so."""
    path = tmp_path / "x"
    mt.save(obj={"a": mt.ones(2)}, f=path)
    for options in ({"map_location": "strict"}, {"device": "strict", "weights_only": False}):
        assert mt.load(f=path, **options)["a"].device.type == "strict"
    assert mt.load(path, map_location="cpu")["a"].device.type == "cpu"


@pytest.mark.parametrize(
    "node",
    ['{"$tensor": "x"}', '{"$tensor": 5}', '{"$array": "x"}', '{"$scalar": ["a"]}', '{"$float": 1}',
     '{"$float": "x"}', '{"$tuple": "ab"}', '{"$dict": [1]}', '{"$dict": [[1]]}',
     '{"$dict": [[[1], 2]]}', '{"$dict": [[true, 2]]}', "[" * 100_000, "x"],
    ids=lambda node: node[:20],
)  # fmt: skip
def test_a_malformed_state_with_the_right_checksum(node):
    arrays = {"a": np.ones((2, 3), "f4")}
    metadata = {
        serialization._FORMAT: "1", serialization._STATE: node,
        serialization._SUM: serialization._digest(node, arrays),
    }  # fmt: skip
    file = io.BytesIO()
    serialization._write(file, metadata, arrays)
    file.seek(0)
    with pytest.raises(CheckpointError, match="is damaged"):
        mt.load(file)


def header_of(**entry):
    text = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}})
    return len(text).to_bytes(8, "little") + text.encode() + bytes(8)


@pytest.mark.parametrize(
    "entry",
    [{"data_offsets": [0, 2**40]}, {"data_offsets": [0, 2**63]}, {"data_offsets": [0]},
     {"data_offsets": [-8, 0]}, {"data_offsets": None}, {"shape": [2**40]}, {"shape": ["2"]},
     {"shape": [1] * 64 + [2]}, {"shape": 2}, {"dtype": 5}, {"dtype": None}, {"shape": [2.0]}],
    ids=str,
)  # fmt: skip
def test_headers_that_claim_other_sizes(entry, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(header_of(**entry))
    tracemalloc.start()
    for source in (path, io.BytesIO(header_of(**entry)), open(path, "rb")):
        with pytest.raises(CheckpointError):
            mt.load(source)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()
    mt.load(io.BytesIO(header_of()))
