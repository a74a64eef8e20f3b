"""Devices: find an array's device and array library (such as NumPy), and copy between devices.

Ops call `array_module(x)`, which returns the array library, and do not check which device they run
on. Each kind of device has a `Platform`, which contains everything that differs between devices:
`HostPlatform` in platforms.py, and the platforms in strict.py and cuda.py, which are imported on
first use.
"""

import importlib

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.platforms import CPU, Device, memory_owner
from minitorch_attn.errors import DeviceError, DTypeError

__all__ = [
    "address", "array_module", "as_device", "check_same_device", "device_of", "from_host",
    "is_array", "memory_of", "module_for", "platform_of", "shares_memory", "to_device", "to_host",
]  # fmt: skip

# The module and class of each device type, by name, so that importing this file is fast.
_PLATFORM_CLASSES = {
    "cpu": ("minitorch_attn.backend.platforms", "HostPlatform"),
    "cuda": ("minitorch_attn.backend.cuda", "CudaPlatform"),
    "strict": ("minitorch_attn.backend.strict", "StrictPlatform"),
}
_IGNORED = frozenset({int, float, bool, complex, type(None)})
_platforms = {}  # device type -> Platform
_platform_of_type = {}  # type of array -> Platform
_with_every_read = []


def as_device(device=None):
    """Convert a name to a device.

    Parameters
    ----------
    device : str, Device or None
        "cpu", "cuda", "cuda:N", "strict" or "strict:N"; None means "cpu".

    Returns
    -------
    Device

    Raises
    ------
    DeviceError
        If there is no device with that name.

    Examples
    --------
    >>> as_device("cuda")
    Device(type='cuda', index=0)
    """
    if type(device) is Device:
        return device
    if device is None:
        return CPU
    if isinstance(device, str):
        return Device(device)
    raise DTypeError(
        "device must be a str or a Device",
        got=f"{device!r} of type {type(device).__name__}",
        hint="pass a name such as 'cpu' or 'cuda:0'",
    )


def _platform_for(device):
    """Return the Platform of a Device. Its module is imported on first use."""
    platform = _platforms.get(device.type)
    if platform is None:
        module_name, class_name = _PLATFORM_CLASSES[device.type]
        platform = getattr(importlib.import_module(module_name), class_name)()
        _platforms[device.type] = platform
        for array_type in platform.array_types:
            _platform_of_type[array_type] = platform
    return platform


_HOST = _platform_for(CPU)


def _find_platform(array):
    """Return the Platform of an array, or None for numbers and None."""
    platform = _platform_of_type.get(type(array))
    if platform is not None:
        return platform
    if isinstance(array, (ndarray, np.generic)):
        return _HOST
    if array is None or isinstance(array, (int, float, complex)):
        return None
    if type(array).__module__.partition(".")[0] == "cupy":  # created by CuPy itself
        return _platform_for(Device("cuda"))
    raise DTypeError(
        "the argument is not an array",
        got=f"an object of type {type(array).__module__}.{type(array).__qualname__}",
        expected="an array, a Python number or None",
        hint="pass tensor.array for a Tensor, and convert a list to an array first",
    )


def platform_of(array):
    """Return the Platform of an array, or the host's Platform for a number."""
    if type(array) is ndarray:
        return _HOST
    return _find_platform(array) or _HOST


def array_module(first=None, *others):
    """Return the module that computes on these arrays: `numpy`, `cupy` or the strict module.

    Parameters
    ----------
    first, *others : array, number or None
        Arrays. Python numbers and None are ignored, but NumPy scalars count as NumPy arrays.

    Returns
    -------
    module
        `numpy` if no argument is an array.

    Raises
    ------
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> array_module(np.zeros(3), 2.0) is np
    True
    """
    if type(first) is ndarray:
        if not others:
            return np
        for array in others:
            if type(array) is not ndarray and type(array) not in _IGNORED:
                break
        else:
            return np
    elif not others:
        platform = _find_platform(first)
        return np if platform is None else platform.module_of(first)
    arrays = (first, *others)
    found = device = None
    for array in arrays:
        platform = _HOST if type(array) is ndarray else _find_platform(array)
        if platform is None:
            continue
        if found is None:
            found, device = array, platform.device_of(array)
        elif platform.device_of(array) != device:
            raise _mixture(arrays)
    return np if found is None else platform_of(found).module_of(found)


def _mixture(arrays, where=None):
    """Return an error that lists the device of each argument."""
    places = [(i, device_of(a)) for i, a in enumerate(arrays) if _find_platform(a) is not None]
    return DeviceError(
        f"{where + ': ' if where else ''}the arguments are on different devices",
        got=", ".join(f"argument {i} on {device}" for i, device in places),
        expected="all arguments on the same device",
        hint=f"call .to('{places[0][1]}') on the other arguments",
    )


def check_same_device(arrays, where):
    """Raise DeviceError if the arrays are on different devices. Numbers and None are ignored.

    Parameters
    ----------
    arrays : sequence of array, number or None
    where : str
        Name of the operation, for the error message.
    """
    first = None
    for array in arrays:
        if type(array) is ndarray:
            device = CPU
        elif (platform := _find_platform(array)) is None:
            continue
        else:
            device = platform.device_of(array)
        if first is None:
            first = device
        elif device is not first and device != first:
            raise _mixture(arrays, where)


def address(array):
    """Return the memory address of the first element of an array."""
    return platform_of(array).address(array)


def is_array(x):
    """Return True if `x` is an array on any device (or a NumPy scalar).

    Examples
    --------
    >>> is_array(np.ones(2)), is_array(1.0), is_array([1.0])
    (True, False, False)
    """
    return type(x) in _platform_of_type or isinstance(x, (ndarray, np.generic))


def module_for(device):
    """Return the module whose functions create arrays on `device`.

    Examples
    --------
    >>> module_for("cpu") is np
    True
    """
    device = as_device(device)
    return _platform_for(device).module(device)


def device_of(array):
    """Return the Device of `array`; numbers are on the CPU.

    Examples
    --------
    >>> print(device_of(np.zeros(3)))
    cpu
    """
    if type(array) is ndarray:
        return CPU
    return platform_of(array).device_of(array)


def from_host(array, device):
    """Copy a NumPy array to `device`; for "cpu", return it without a copy.

    Parameters
    ----------
    array : numpy.ndarray
    device : str or Device
    """
    device = as_device(device)
    return _platform_for(device).from_host(np.asarray(array), device)


def to_host(array):
    """Copy an array to the host; an array on the host is returned without a copy.

    Returns
    -------
    numpy.ndarray
    """
    platform = platform_of(array)
    if platform is _HOST:
        return array
    device = platform.device_of(array)
    finish = [start(device, platform) for start in _with_every_read]
    host = platform.to_host(array)  # waits once, for this copy and all reads
    for end in finish:
        if end is not None:
            end()
    return host


def with_every_read(start):
    """Register a function that reads additional data with each copy from a device to the host.

    Parameters
    ----------
    start : callable
        `start(device, platform)` starts reading data from the device. It returns None, or a
        function that finishes the reading and is called once the host has waited for the device.
    """
    _with_every_read.append(start)


def read_the_rest(device):
    """Do the additional reads of `with_every_read` now, without copying an array to the host.

    The host waits for the device. A failed range check then raises its error.
    """
    platform = _platform_for(device)
    finish = [start(device, platform) for start in _with_every_read]
    platform.wait()
    for end in finish:
        if end is not None:
            end()


def to_device(array, device):
    """Copy `array` to `device`; return the array itself if it is already there.

    Parameters
    ----------
    array : array on any device
    device : str or Device
    """
    device = as_device(device)
    if device_of(array) == device:
        return array
    return from_host(to_host(array), device)


def shares_memory(a, b):
    """Return True if two arrays belong to the same buffer, as a view and its base do.

    Only the owners are compared, not the address ranges, so two views of different parts of one
    buffer count as sharing. This is cheap, and sufficient for views and version counters.

    Examples
    --------
    >>> x = np.zeros((2, 3))
    >>> shares_memory(x[0], x.reshape(6)), shares_memory(x, x.copy())
    (True, False)
    """
    if type(a) is ndarray and type(b) is ndarray:
        return memory_owner(a) is memory_owner(b)
    platform = platform_of(a)
    return platform is platform_of(b) and platform.owner(a) is platform.owner(b)


def memory_of(array):
    """Return the object that owns an array's memory, and the size of that memory in bytes.

    Returns
    -------
    object
        Owner of the memory, the same for all views of a buffer. It supports weak references.
    int

    Examples
    --------
    >>> x = np.zeros((2, 3))
    >>> owner, size = memory_of(x[0])
    >>> owner is x, size
    (True, 48)
    """
    owner = platform_of(array).owner(array)
    if not type(owner).__weakrefoffset__:  # for example, bytes or a memory block of CuPy
        base = getattr(array, "base", None)
        owner = array if base is None or not type(base).__weakrefoffset__ else base
    return owner, getattr(owner, "nbytes", array.nbytes)
