"""CUDA through CuPy: check whether it works, explain why not, and provide `mt.cuda`.

Only this file imports CuPy, when CUDA is first used. The ops are tested on the strict device,
which is NumPy with the restrictions of a GPU (see strict.py). The error messages were tested with
CuPy 14.2 without a driver, with two installed wheels, and with simulated versions of CuPy's other
errors. The code that uses CuPy has been tested on a simulated device, where CuPy's kernels are
compiled for a CPU, but not on a GPU (see docs/devices.md).
"""

import importlib
import importlib.util
import os

from minitorch_attn.backend import cublas, kernel_table
from minitorch_attn.backend.graph_capture import refuse
from minitorch_attn.backend.platforms import Device, Platform
from minitorch_attn.backend.sync import record_sync
from minitorch_attn.errors import ArgumentError, DeviceError

from ..named_errors import names_arguments

__all__ = [
    "CudaPlatform", "current_device", "device_count", "empty_cache", "get_device_name",
    "is_available", "load", "memory_allocated", "set_device", "synchronize",
]  # fmt: skip

# All of them install a module named `cupy`.
_WHEELS = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "amd-cupy")
_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100  # cudaError_t
_known = {}  # "cupy": the working module, or "error": the reason why CuPy does not work


def is_available():
    """Return True if CUDA works, which needs CuPy, a driver, a device, and a kernel that runs.

    Examples
    --------
    >>> is_available() in (True, False)
    True
    """
    try:
        load()
    except DeviceError:
        return False
    return True


def load():
    """Return CuPy after checking, once per process, that it works.

    Raises
    ------
    DeviceError
        If CuPy does not work. The message says why and what to do.
    """
    if not _known:
        try:
            _known["cupy"] = _checked_cupy()
        except DeviceError as error:
            _known["error"] = error
    if "error" in _known:
        raise DeviceError(*_known["error"].args)
    return _known["cupy"]


def _checked_cupy():
    """Import CuPy and check that CuPy, the driver and a device work."""
    wheels = _installed_wheels()
    if len(wheels) > 1:
        raise _two_wheels(wheels)
    try:
        cupy = _import_cupy()
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            raise _not_installed() from None
        raise _no_toolkit(error, wheels) from error
    except ImportError as error:
        raise _no_toolkit(error, wheels) from error
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except RuntimeError as error:
        if getattr(error, "status", None) == _NO_DEVICE:
            raise _no_device(error) from error
        raise _no_driver(error, runtime) from error
    if count == 0:
        raise _no_device("0 devices")
    try:
        answer = float((cupy.arange(3, dtype="float32") * 2).sum().get())
    except Exception as error:  # CuPy and its libraries raise many types here
        raise _no_toolkit(error, wheels) from error
    if answer != 6:
        raise _no_toolkit(f"0 + 2 + 4 = {answer} on the device", wheels)
    return cupy


def _import_cupy():
    return importlib.import_module("cupy")


def _installed_wheels():
    """Return the names of the installed distributions that provide CuPy."""
    from importlib import metadata  # takes 15 ms, so not at the top of the file

    found = []
    for name in _WHEELS:
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found.append(name)
    return found


def _first_line(error):
    """Return the type and the first nonempty line of an error."""
    lines = [line.strip(" =") for line in str(error).splitlines()]
    text = next((line for line in lines if line), "no message")
    return f"{type(error).__name__}: {text}" if isinstance(error, BaseException) else text


def _not_installed():
    return DeviceError(
        "CUDA is unavailable: CuPy is not installed",
        got="no module named 'cupy'",
        hint="python -m pip install 'cupy-cuda13x[ctk]' (or cupy-cuda12x for an older driver)",
    )


def _two_wheels(wheels):
    return DeviceError(
        "CUDA is unavailable: two conflicting CuPy packages are installed",
        got=" and ".join(wheels),
        expected="only one of them",
        hint=f"python -m pip uninstall {' '.join(wheels)}, then reinstall one",
    )


def _no_driver(error, runtime):
    try:
        driver, built_for = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    except RuntimeError:
        driver = built_for = 0
    if driver and getattr(error, "status", None) == _INSUFFICIENT_DRIVER:
        return DeviceError(
            "CUDA is unavailable: the NVIDIA driver is too old for this CuPy",
            got=f"a driver for CUDA {_version(driver)}, CuPy for CUDA {_version(built_for)}",
            hint="update the driver, or install 'cupy-cuda12x[ctk]' instead of cupy-cuda13x",
        )
    return DeviceError(
        "CUDA is unavailable: the NVIDIA driver is missing or does not work",
        got=_first_line(error),
        hint="install the driver, check it with nvidia-smi, and start containers with `--gpus all`",
    )


def _version(number):
    """Format CUDA's version number: 13020 becomes "13.2"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _no_device(error):
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    setting = "" if visible is None else f", with CUDA_VISIBLE_DEVICES={visible!r}"
    return DeviceError(
        "CUDA is unavailable: the NVIDIA driver does not show a GPU",
        got=_first_line(error) + setting,
        hint="unset CUDA_VISIBLE_DEVICES, and check that `nvidia-smi -L` lists a GPU",
    )


def _no_toolkit(error, wheels):
    wheel = wheels[0] if wheels and wheels[0] != "cupy" else "cupy-cuda13x"
    return DeviceError(
        "CUDA is unavailable: the CUDA toolkit (NVRTC, headers) is missing or damaged",
        got=_first_line(error),
        hint=f"python -m pip install '{wheel}[ctk]', which includes the toolkit",
    )


# The functions of `mt.cuda`.


def device_count():
    """Return the number of CUDA devices; 0 if CUDA does not work."""
    return load().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device():
    """Return the index of the current device, on which new arrays are created."""
    return load().cuda.runtime.getDevice()


@names_arguments
def set_device(index):
    """Make `index` the current device, on which new arrays are created."""
    load().cuda.runtime.setDevice(_checked_index(index))


def get_device_name(index=0):
    """Return the name of a CUDA device."""
    name = load().cuda.runtime.getDeviceProperties(_checked_index(index))["name"]
    return name.decode() if isinstance(name, bytes) else name


@names_arguments
def synchronize(index=None):
    """Wait until the device (default: the current one) has finished all work."""
    cupy = load()
    record_sync("cuda.synchronize()")
    cupy.cuda.Device(current_device() if index is None else _checked_index(index)).synchronize()


def memory_allocated():
    """Return the number of bytes used by the arrays on the current device."""
    return load().get_default_memory_pool().used_bytes()


def empty_cache():
    """Free the memory that CuPy caches for later arrays."""
    load().get_default_memory_pool().free_all_blocks()


def _checked_index(index):
    """Convert an int, a name or a Device to a device index, and check that the device exists."""
    if isinstance(index, Device):
        index = index.index
    elif isinstance(index, str):
        index = int(index.partition(":")[2] or 0)
    if not isinstance(index, int):
        raise ArgumentError(
            "a CUDA device index must be an integer",
            got=repr(index),
            hint="pass an int, or a name such as 'cuda:0'",
        )
    count = load().cuda.runtime.getDeviceCount()
    if not 0 <= index < count:
        raise DeviceError(
            f"device 'cuda:{index}' is unavailable",
            got=f"{count} devices",
            expected=" or ".join(f"'cuda:{i}'" for i in range(count)),
            hint="check whether CUDA_VISIBLE_DEVICES hides devices from this process",
        )
    return index


class CudaPlatform(Platform):
    """Platform for CUDA: CuPy creates the arrays and runs the ops on the current device."""

    def __init__(self):
        self.cupy = load()
        self.array_types = (self.cupy.ndarray,)
        kernel_table.array_types.update(self.array_types)
        if importlib.util.find_spec("minitorch_attn.kernels"):  # not in the students' package
            importlib.import_module("minitorch_attn.kernels")  # fills the table

    def module(self, device):
        if _checked_index(device) != current_device():
            raise DeviceError(
                f"'{device}' is not the current CUDA device",
                got=f"'cuda:{current_device()}' as the current device",
                hint=f"mt.cuda.set_device({device.index})",
            )
        return self.cupy

    def module_of(self, array):
        return self.cupy

    def device_of(self, array):
        return Device("cuda", array.device.id)

    def from_host(self, array, device):
        if array.ndim and array.size:
            refuse("copies an array from the host to the device")
        with self.cupy.cuda.Device(_checked_index(device)):
            if array.ndim or array:
                return self.cupy.array(array)  # an array of one number is filled, not copied
            zero = self.cupy.empty((), array.dtype)
            zero.set(array)  # cupy.array(-0.0) would be 0.0
            return zero

    def to_host(self, array):
        record_sync("a copy to the host")
        return array.get()

    def start_reading(self, array):
        from cupyx import empty_pinned

        host = empty_pinned(array.shape, array.dtype)
        array.get(out=host, blocking=False)
        return lambda: host

    def wait(self):
        record_sync("waiting for the device")
        self.cupy.cuda.get_current_stream().synchronize()

    def owner(self, array):
        return array.data.mem

    def address(self, array):
        return array.data.ptr

    def erf(self, x):
        from cupyx.scipy import special

        if x.dtype == "float16":  # CuPy would compute in float64
            return special.erf(x.astype("float32")).astype(x.dtype)
        return special.erf(x)

    def matmul(self, a, b):
        return cublas.matmul(self.cupy, a, b)
