"""Errors if CUDA is unavailable: five messages with their remedies, from simulated broken CuPys."""

import sys
import types

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.backend import cuda, devices
from minitorch_attn.errors import DeviceError


class CUDARuntimeError(RuntimeError):
    """As CuPy's: a RuntimeError that carries the number of the error."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


INSUFFICIENT = CUDARuntimeError(
    35,
    "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
)
NO_DEVICE = CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected")


class FakeArray:
    """Enough of cupy.ndarray for the trial kernel."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __mul__(self, other):
        return FakeArray(self.values * other)

    def sum(self):
        return FakeArray(self.values.sum())

    def get(self):
        return self.values


def fake_cupy(count=1, kernel=None, driver=13000):
    """Make a module that behaves like CuPy on a machine of some kind."""

    def answer(value):
        def call(*args):
            if isinstance(value, Exception):
                raise value
            return value

        return call

    def arange(n, dtype):
        if kernel is not None:
            raise kernel
        return FakeArray(np.arange(n, dtype=dtype))

    runtime = types.SimpleNamespace(
        getDeviceCount=answer(count),
        driverGetVersion=answer(driver),
        runtimeGetVersion=answer(13020),
        getDeviceProperties=lambda index: {"name": b"Fake GPU"},
    )
    return types.SimpleNamespace(
        cuda=types.SimpleNamespace(runtime=runtime), arange=arange, ndarray=FakeArray
    )


@pytest.fixture
def machine(monkeypatch):
    """machine(cupy, wheels): pretend to run where importing CuPy gives `cupy` or raises it."""
    monkeypatch.setattr(cuda, "_known", {})
    monkeypatch.setattr(devices, "_platforms", dict(devices._platforms))
    devices._platforms.pop("cuda", None)
    monkeypatch.setattr(devices, "_platform_of_type", dict(devices._platform_of_type))

    def pretend(cupy, wheels=("cupy-cuda13x",)):
        def import_cupy():
            if isinstance(cupy, Exception):
                raise cupy
            return cupy

        monkeypatch.setattr(cuda, "_import_cupy", import_cupy)
        monkeypatch.setattr(cuda, "_installed_wheels", lambda: list(wheels))

    return pretend


NOT_FOUND = ModuleNotFoundError("No module named 'cupy'", name="cupy")
NVRTC = RuntimeError('Failure finding "libnvrtc.so.13 or libnvrtc.so.12": No such file')
BROKEN = ImportError("\n=====\nCuPy failed to load libcublas.so.13\n=====")

MACHINES = {
    "not installed": (NOT_FOUND, (), "is not installed", "pip install 'cupy-cuda13x[ctk]'"),
    "two wheels": (
        fake_cupy(),
        ("cupy-cuda12x", "cupy-cuda13x"),
        "two conflicting CuPy packages",
        "pip uninstall cupy-cuda12x cupy-cuda13x",
    ),
    "no driver": (fake_cupy(INSUFFICIENT, driver=0), None, "driver is missing", "--gpus"),
    "old driver": (
        fake_cupy(INSUFFICIENT, driver=12040),
        None,
        "CUDA 12.4, CuPy for CUDA 13.2",
        "cupy-cuda12x",
    ),
    "no device": (fake_cupy(NO_DEVICE), None, "does not show a GPU", "unset CUDA_VISIBLE_DEVICES"),
    "no device counted": (fake_cupy(0), None, "does not show a GPU", "nvidia-smi -L"),
    "no toolkit": (fake_cupy(kernel=NVRTC), None, "libnvrtc", "'cupy-cuda13x[ctk]'"),
    "no toolkit, other wheel": (
        fake_cupy(kernel=NVRTC),
        ("cupy-cuda12x",),
        "libnvrtc",
        "'cupy-cuda12x[ctk]'",
    ),
    "broken import": (BROKEN, None, "ImportError: CuPy failed to load", "[ctk]"),
    "dependency missing": (
        ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock"),
        None,
        "fastrlock",
        "[ctk]",
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_gets_its_message_and_remedy(machine, name):
    cupy, wheels, seen, remedy = MACHINES[name]
    machine(cupy, wheels if wheels is not None else ("cupy-cuda13x",))
    assert cuda.is_available() is False
    assert cuda.device_count() == 0
    for ask in (
        lambda: backend.from_host(np.zeros(3), "cuda"),
        lambda: backend.to_device(np.zeros(3), "cuda:1"),
        lambda: backend.module_for("cuda"),
        cuda.synchronize,
    ):
        with pytest.raises(DeviceError) as caught:
            ask()
        text = str(caught.value)
        assert seen in text
        assert remedy in text.partition("  try ")[2]


def test_the_five_messages_differ(machine):
    first_lines = {}
    for name in ("not installed", "two wheels", "no driver", "no device", "no toolkit"):
        cupy, wheels, *_ = MACHINES[name]
        cuda._known.clear()
        machine(cupy, wheels if wheels is not None else ("cupy-cuda13x",))
        with pytest.raises(DeviceError) as caught:
            cuda.load()
        first_lines[name] = str(caught.value).splitlines()[0]
    assert len(set(first_lines.values())) == 5


def test_a_kernel_that_computes_wrongly_is_no_cuda(machine):
    cupy = fake_cupy()
    cupy.arange = lambda n, dtype: FakeArray([7, 7, 7])
    machine(cupy)
    with pytest.raises(DeviceError, match=r"0 \+ 2 \+ 4 = 42"):
        cuda.load()


def test_hidden_devices_are_mentioned(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    machine(fake_cupy(NO_DEVICE))
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES=''"):
        cuda.load()


def test_a_machine_where_all_is_well(machine):
    machine(fake_cupy(count=2))
    assert cuda.is_available()
    assert cuda.device_count() == 2
    assert cuda.get_device_name("cuda:1") == "Fake GPU"
    for wrong in (2, -1, "cuda:5"):
        with pytest.raises(DeviceError, match="'cuda:0' or 'cuda:1'"):
            cuda.get_device_name(wrong)


def test_the_outcome_is_found_once(machine):
    machine(NOT_FOUND, ())
    assert not cuda.is_available()
    machine(fake_cupy())
    assert not cuda.is_available()


def test_installed_wheels_are_read_from_their_metadata(tmp_path, monkeypatch):
    for name in ("cupy-cuda12x", "cupy-cuda13x"):
        folder = tmp_path / f"{name.replace('-', '_')}-14.2.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 14.2.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert cuda._installed_wheels() == ["cupy-cuda12x", "cupy-cuda13x"]


def test_cupy_is_not_imported_before_it_is_asked_for():
    if "cupy" in sys.modules:
        pytest.skip("another test imported it")
    backend.as_device("cuda")
    backend.from_host(np.zeros(2), "strict")
    assert "cupy" not in sys.modules


@pytest.mark.gpu
def test_on_a_gpu():
    x = backend.from_host(np.arange(6, dtype="float32").reshape(2, 3), "cuda")
    assert str(backend.device_of(x)) == "cuda:0"
    assert backend.shares_memory(x, x[1:]) and not backend.shares_memory(x, x.copy())
    assert backend.address(x[1:]) - backend.address(x) == 12
    np.testing.assert_allclose(backend.to_host(backend.erf(x))[0, 1], 0.8427008, atol=1e-6)
    np.testing.assert_allclose(backend.to_host(backend.matmul(x, x.T)), [[5, 14], [14, 50]])
    target = backend.module_for("cuda").zeros(2, dtype="float32")
    index = backend.from_host(np.array([1, 1]), "cuda")
    assert backend.to_host(backend.scatter_add(target, index, x[0, 1:])).tolist() == [0, 3]
    mask = backend.keep_mask((5, 7), 0.5, backend.module_for("cuda"), 1, 2)
    np.testing.assert_array_equal(
        backend.to_host(mask), backend.keep_mask((5, 7), 0.5, np, 1, 2)
    )  # fmt: skip
