"""Fixtures: the folder of the built site, and a browser."""

import os
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))  # sitebuilder


@pytest.fixture(scope="session")
def docs():
    return DOCS


@pytest.fixture(scope="session")
def site():
    """The folder of the site, as the environment variable MTA_SITE gives it."""
    folder = os.environ.get("MTA_SITE")
    if not folder:
        pytest.skip("no site to look at: make -C docs html, then MTA_SITE=docs/_build/html")
    folder = Path(folder).resolve()
    assert (folder / "index.html").exists(), f"{folder} has no index.html"
    return folder
