"""Headless Chromium for tests of pages; without one, these tests are skipped."""

import os
import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# No background traffic of the browser's own; the first is needed by root, in containers.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
# Milliseconds: a busy machine may take long to open a page, and how long is not what is tested.
PATIENCE = 240_000


def new_tab(browser, **settings):
    """A page in a context of its own, which closes with it."""
    tab = browser.new_page(**settings)
    tab.set_default_timeout(PATIENCE)
    return tab


@contextmanager
def visits(browser):
    """visit(url, width=400): a page of a file. At the end, all are closed.

    None of them may have asked for anything but files, nor complained.
    """
    pages, requests, complaints = [], [], []

    def visit(url, *, width=1280, height=800, **settings):
        page = new_tab(browser, viewport={"width": width, "height": height}, **settings)
        pages.append(page)
        page.on("request", lambda sent: requests.append(sent.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield visit
    for page in pages:
        page.close()
    assert requests
    assert [url for url in requests if not url.startswith("file://")] == []
    assert complaints == []


def chromium():
    """The path of the browser: CHROMIUM, or the first of the usual names on the PATH."""
    found = (shutil.which(name) for name in NAMES)
    return os.environ.get("CHROMIUM") or next((path for path in found if path), None)


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install -e '.[browser]'"
    )
    path = chromium()
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium, or its path in CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield launched
        launched.close()
