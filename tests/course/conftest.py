"""Course tests do not depend on the device, so they run once."""

import pytest
from course import forked

from minitorch_attn.course.build import check as build_check
from minitorch_attn.course.exercises import check as exercise_check


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("the course does not depend on the device and is tested once")


@pytest.fixture
def forks():
    """The children of checks are forks of one process: see `forked.py`."""
    with pytest.MonkeyPatch.context() as patch:
        if forked.is_available():
            patch.setattr(build_check, "run_child", forked.run_child)
            patch.setattr(exercise_check, "run_child", forked.run_child)
        yield
