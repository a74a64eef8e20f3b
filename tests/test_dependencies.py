"""docs/dependencies.md gives a reason for every package and extra of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]


def split(requirement):
    """Name and lower bound: "click>=8.2" -> ("click", "8.2")."""
    name, bound = re.match(r"([\w.-]+)(?:\[\w+\])?(?:[>=]=([\w.]+))?", requirement).groups()
    return name.lower(), bound


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_every_package_of_the_base(requirement):
    name, bound = split(requirement)
    (row,) = [row for row in ROWS if row[0].lower() == name]
    assert row[1] == bound and len(row[2]) > 20


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_every_extra(extra):
    (row,) = [row for row in ROWS if f"`{extra}`" in row[0]]
    assert len(row[2]) > 3
    for requirement in PROJECT["optional-dependencies"][extra]:
        name = split(requirement)[0].partition("-cuda")[0]
        assert name in row[1].lower(), name
