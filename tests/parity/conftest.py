"""Options: number of random calls for each operation; report how many were compared."""

import pytest
from parity import tally


def pytest_addoption(parser):
    parser.addoption(
        "--draws",
        type=int,
        default=tally.DEFAULT_DRAWS,
        help="calls to draw for each operation; any other number than the default also draws"
        " other calls on every run (--hypothesis-seed fixes them)",
    )


@pytest.fixture(scope="session")
def draws(request):
    """The calls to draw for each operation."""
    return request.config.getoption("--draws", tally.DEFAULT_DRAWS)


def pytest_terminal_summary(terminalreporter):
    if not tally.compared:
        return
    failed = terminalreporter.stats.get("failed", [])
    differences = sum("parity" in report.nodeid for report in failed)
    terminalreporter.write_line(
        f"parity: {tally.compared.total()} drawn cases over {len(tally.compared)} ops and layers,"
        f" {differences} differences ({tally.second.total()} with second derivatives;"
        f" besides, {tally.refused.total()} wrong calls refused by both)"
    )
