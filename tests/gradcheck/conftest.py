"""The reports of gradcheck are wrapped at the same width everywhere, whatever the terminal."""

import pytest


@pytest.fixture(autouse=True)
def terminal_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
