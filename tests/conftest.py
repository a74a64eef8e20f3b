"""Fixtures: one option chooses the device of all tests; random numbers come from the host."""

import gc
import os
import signal
import sys

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores: one BLAS thread each
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
import simulated_graphs
from browsing import browser  # noqa: F401  (a fixture: one browser for all tests)
from hypothesis import settings

import minitorch_attn as mt

# A job in the background of a shell ignores SIGINT, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# In continuous integration a commit always draws the same cases; other runs draw new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Test files that take from half a minute to a few minutes, the longest first. See LongestFirst.
LONGEST = (
    "tests/course/test_guide.py", "tests/grader/grade/test_hostile.py",
    "tests/docs/test_guides.py", "tests/course/test_build_notebook.py",
    "tests/grader/grade/test_first_step.py", "tests/grader/grade/test_more_hostile.py",
    "tests/tools/test_grade_class.py", "tests/training/recipes/test_recipes.py",
    "tests/grader/grade/test_hostile_steps.py", "tests/training/test_workers_killed.py",
    "tests/course/test_build.py", "tests/course/test_jupyterlab.py",
    "tests/benchmarks/test_device_calls.py", "tests/nn/test_attention.py",
    "tests/ops/attention/test_causal.py",
)  # fmt: skip
# Long tests that share nothing: workers take them one by one.
ONE_BY_ONE = (
    "tests/lessons/", "tests/kernels/test_nvrtc.py",
    "tests/docs/test_site.py::test_pages_in_a_browser",
)  # fmt: skip
DEVICES = {"numpy": "cpu", "strict": "strict", "cupy": "cuda"}


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=sorted(DEVICES),
        default="numpy",
        help="where the tensors under test live: numpy, strict (NumPy under CuPy's rules) or cupy",
    )


def pytest_configure(config):
    if config.getoption("--device") == "cupy":
        simulated_graphs.install()
    config.addinivalue_line("markers", "gpu: needs a CUDA device")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `-n`, a worker takes whole files, because fixtures of a module can be expensive.

    The files that take longest are taken first, so that no worker is alone at the end.
    """
    if config.getoption("dist") != "load":
        return None  # `--dist` was given
    from xdist.scheduler import LoadFileScheduling

    class LongestFirst(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return nodeid if nodeid.startswith(ONE_BY_ONE) else super()._split_scope(nodeid)

        def _assign_work_unit(self, node):
            first = next((file for file in LONGEST if file in self.workqueue), None)
            if first:
                self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return LongestFirst(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector away from the collected tests, a million objects that stay.

    Otherwise every full collection takes half a second, those that tests ask for included.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path, config):
    """With `-m slow`, `serial` or `kernel`, import only files in which the marker's name occurs."""
    marker = config.getoption("markexpr").partition(" ")[0]
    if marker not in ("slow", "serial", "kernel") or not collection_path.match("test_*.py"):
        return None
    return f".{marker}" not in collection_path.read_text("utf-8") or None


def pytest_report_header(config):
    return f"minitorch_attn {mt.__version__}, device {config.getoption('--device')}"


def pytest_collection_modifyitems(config, items):
    """Leave out what the device has no influence on, and skip what needs a GPU without one."""
    if config.getoption("--device") == "strict":
        same = [item for item in items if "device" not in item.fixturenames]
        config.hook.pytest_deselected(items=same)
        items[:] = [item for item in items if "device" in item.fixturenames]
    if config.getoption("--device") == "cupy":
        return
    reason = pytest.mark.skip(reason="needs a CUDA device: run with --device=cupy on a GPU machine")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Give each test the same random numbers, whichever tests ran before it in the same process."""
    mt.manual_seed(20170612)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(20170612)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip what a simulated GPU does not have: the libraries for Fourier transforms and solvers."""
    try:
        return (yield)
    except ImportError as error:
        if str(error).endswith("is not simulated"):
            pytest.skip(f"{error}: run it on a GPU")
        raise


@pytest.fixture(scope="session")
def device(request):
    """The device name to give to `mt.tensor(..., device=)`."""
    return DEVICES[request.config.getoption("--device")]


@pytest.fixture
def rng():
    """A host generator with a fixed seed."""
    return np.random.default_rng(20170612)


@pytest.fixture
def make(rng, device):
    """make(2, 3, low=-1, high=1): a random leaf on the device under test."""

    def draw(*shape, dtype="float64", requires_grad=True, low=-1.0, high=1.0):
        values = rng.uniform(low, high, shape).astype(dtype)
        return mt.tensor(values, requires_grad=requires_grad, device=device)

    return draw
