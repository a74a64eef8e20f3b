"""NVIDIA's compiler accepts every kernel, for each generation of GPUs; it needs no GPU."""

import ctypes
import importlib.util
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from minitorch_attn import kernels
from minitorch_attn.kernels.source import Source

CAPABILITIES = (70, 75, 80, 86, 89, 90)  # Volta, Turing, Ampere, Ampere, Ada, Hopper


def sources():
    """Return {"module.NAME": Source} of all files of the package."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__):
        for name, value in vars(import_module(f"{kernels.__name__}.{module.name}")).items():
            if isinstance(value, Source):
                found[f"{module.name}.{name}"] = value
    return found


def folder(package):
    """Return the folder of one of the vendor's wheels; skip the test if it is not installed."""
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("needs NVRTC: pip install -e '.[nvrtc]'")
    spec = importlib.util.find_spec(f"nvidia.{package}")
    if spec is None:
        pytest.skip("needs NVRTC: pip install -e '.[nvrtc]'")
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="module")
def nvrtc():
    return ctypes.CDLL(str(next((folder("cuda_nvrtc") / "lib").glob("libnvrtc.so*"))))


def compiled(nvrtc, code, expressions, capability):
    """Compile a source; return the errors, "" if there are none, and the lowered names."""
    program = ctypes.c_void_p()
    assert (
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None)
        == 0
    )
    for expression in expressions:
        assert nvrtc.nvrtcAddNameExpression(program, expression.encode()) == 0
    options = [
        b"-std=c++17",
        b"-I" + str(folder("cuda_runtime") / "include").encode(),
        f"-arch=sm_{capability}".encode(),
    ]
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    names = []
    for expression in expressions if status == 0 else ():
        lowered = ctypes.c_char_p()
        nvrtc.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(lowered))
        names.append(lowered.value)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() if status else "", names


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", sources())
def test_every_kernel_compiles(nvrtc, name, capability):
    source = sources()[name]
    expressions = [e for dtype in source.types for e in source.instances(dtype).values()]
    errors, names = compiled(nvrtc, source.code, expressions, capability)
    assert errors == ""
    assert len(set(names)) == len(set(expressions)) > 0 and all(names)


def test_a_mistake_is_found(nvrtc):
    wrong = "template <typename T, typename A> __global__ void f(T* x) { x[0] = y; }"
    errors, _ = compiled(nvrtc, wrong, ["f<float, float>"], 90)
    assert 'identifier "y" is undefined' in errors
