"""Course tests do not depend on the device, so they run once."""

import pytest


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("the course does not depend on the device and is tested once")
