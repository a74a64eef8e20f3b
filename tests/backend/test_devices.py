"""Devices: names, the module of an array, mixed devices, transfers, shared memory."""

import subprocess
import sys

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.errors import DeviceError, DTypeError

STRICT = ("strict:0", "strict:1")


def on(device, *shape):
    return backend.from_host(np.arange(np.prod(shape), dtype="float32").reshape(shape), device)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cpu", "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:3", "cuda:3"),
        ("strict", "strict:0"),
        ("strict:1", "strict:1"),
        (None, "cpu"),
    ],
)
def test_names(name, text):
    device = backend.as_device(name)
    assert str(device) == text
    assert backend.as_device(device) is device
    assert backend.as_device(text) == device
    assert hash(backend.as_device(text)) == hash(device)


@pytest.mark.parametrize(
    "name", ["gpu", "numpy", "cpu:1", "cuda:", "cuda:-1", "cuda:one", "strict:1:2", "", "cuda:²"]
)
def test_names_of_no_device(name):
    with pytest.raises(DeviceError, match="is unknown"):
        backend.as_device(name)


def test_a_device_is_given_by_name_or_device():
    with pytest.raises(DTypeError, match="must be a str or a Device"):
        backend.as_device(0)
    assert backend.Device("cuda", 1) == backend.Device("cuda:1")
    with pytest.raises(DeviceError):
        backend.Device("cuda:1", 2)


def test_module_of_host_arrays_numbers_and_none():
    x = np.ones(3)
    for arguments in [(), (1.0,), (None,), (x,), (x, 2, None, True), (2, x), (x.sum(),)]:
        assert backend.array_module(*arguments) is np


@pytest.mark.parametrize("device", STRICT)
def test_module_of_device_arrays_makes_arrays_on_their_device(device):
    xp = backend.array_module(2.0, on(device, 3), None)
    assert xp is backend.module_for(device)
    assert str(backend.device_of(xp.zeros(2))) == device


def test_mixtures_name_positions_devices_and_remedy():
    host, first, second = np.ones(3), on("strict:0", 3), on("strict:1", 3)
    with pytest.raises(DeviceError) as caught:
        backend.array_module(2.0, host, None, first)
    text = str(caught.value)
    assert "argument 1 on cpu, argument 3 on strict:0" in text
    assert ".to('cpu')" in text
    with pytest.raises(DeviceError, match="argument 0 on strict:0, argument 1 on strict:1"):
        backend.array_module(first, second)
    with pytest.raises(DeviceError, match="argument 1 on cpu"):
        backend.array_module(first, np.float32(2))


def test_check_same_device_names_the_operation():
    backend.check_same_device((np.ones(2), None, 3, np.ones(1)), "MatMul")
    with pytest.raises(DeviceError, match="MatMul: .*different devices"):
        backend.check_same_device((np.ones(2), on("strict", 2)), "MatMul")


@pytest.mark.parametrize("value", ["text", [1.0], {}, object()])
def test_what_is_no_array_has_no_module(value):
    assert not backend.is_array(value)
    with pytest.raises(DTypeError, match="not an array"):
        backend.array_module(value)


@pytest.mark.parametrize("device", ["cpu", *STRICT])
def test_moves(device):
    host = np.arange(6.0).reshape(2, 3)
    moved = backend.from_host(host, device)
    assert backend.is_array(moved)
    assert str(backend.device_of(moved)) == device
    assert backend.to_device(moved, device) is moved
    np.testing.assert_array_equal(backend.to_host(moved), host)
    back = backend.to_device(moved, "cpu")
    assert type(back) is np.ndarray
    assert (back is host) == (device == "cpu")


def test_device_copies_share_nothing_with_the_host():
    host = np.zeros(3)
    moved = backend.from_host(host, "strict")
    host[0] = 1
    back = backend.to_host(moved)
    back[1] = 1
    assert backend.to_host(moved).tolist() == [0, 0, 0]


def test_between_strict_devices():
    moved = backend.to_device(on("strict:0", 4), "strict:1")
    assert str(backend.device_of(moved)) == "strict:1"


@pytest.mark.parametrize("device", ["cpu", "strict"])
def test_shares_memory(device):
    x = on(device, 4, 6)
    views = [x[1:], x[0], x.reshape(6, 4), x.T, x[:, ::2].T[1:], x.swapaxes(0, 1)]
    for view in views:
        assert backend.shares_memory(x, view)
        assert backend.shares_memory(view, views[0])
    for other in [x.copy(), x + 0, on(device, 4, 6), x.T.reshape(-1)]:
        assert not backend.shares_memory(x, other)
    assert not backend.shares_memory(x, on("strict:1", 4, 6))


def test_shares_memory_behind_a_buffer():
    buffer = bytearray(16)
    a, b = np.frombuffer(buffer, "f4"), np.frombuffer(buffer, "f4", offset=8)
    assert backend.shares_memory(a, b)
    assert not backend.shares_memory(a, np.frombuffer(bytearray(16), "f4"))


@pytest.mark.parametrize("device", ["cpu", "strict"])
def test_address_moves_with_the_view(device):
    x = on(device, 4)
    assert backend.address(x[2:]) - backend.address(x) == 8


def test_importing_the_backend_imports_nothing_slow():
    program = (
        "import sys, numpy; before = set(sys.modules)\n"
        "import minitorch_attn.backend\n"
        "new = set(sys.modules) - before\n"
        "slow = {'cupy', 'scipy', 'torch', 'matplotlib', 'numpy.random', 'importlib.metadata'}\n"
        "print(sorted(slow & new), 'minitorch_attn.backend.strict' in new)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.split("\n")[0] == "[] False", result.stderr
