"""The code on the pages runs and prints what the text says."""

import pytest
from sitebuilder import pages
from sitebuilder.names import ROOT

PAGES = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if pages.blocks(path.read_text(encoding="utf-8"))
]


def test_the_pages_with_code_are_there():
    assert {"add_an_op", "stepper", "walk"} <= {page.stem for page in PAGES}


@pytest.fixture
def numpy_prints():
    import numpy as np

    options = np.get_printoptions()
    yield
    np.set_printoptions(**options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, numpy_prints):
    namespace = {}
    printed = [
        pages.run(code, namespace, f"{page.name}, block {number}")
        for number, code in enumerate(pages.blocks(page.read_text(encoding="utf-8")), 1)
    ]
    assert "".join(printed).strip()


def test_an_error_in_the_code_of_a_page_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        pages.run("1 / 0", {})


def test_blocks_share_what_they_define():
    namespace = {}
    assert pages.run("x = 2", namespace) == ""
    assert pages.run("print(x + 1)", namespace) == "3\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_of_code_fit_the_column(page):
    code = "\n".join(pages.blocks(page.read_text(encoding="utf-8")))
    assert [line for line in code.splitlines() if len(line) > 96] == []
