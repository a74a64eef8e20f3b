"""Nothing here depends on the device: it is tested once."""

import pytest


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("the course does not depend on the device and is tested once")
