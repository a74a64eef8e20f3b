"""Wrap gradcheck reports at the same width in every terminal."""

import pytest


@pytest.fixture(autouse=True)
def terminal_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
