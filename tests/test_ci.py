"""The continuous integration script, docs/ci.md and CONTRIBUTING.md agree with the tests."""

import ast
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
OPTIONS = PYTEST["ini_options"]


def test_the_page_lists_the_sections_of_the_script():
    sections = re.findall(r'^section "(.+)"$', SCRIPT, re.M)
    assert re.findall(r"^\d+\. \*\*(.+?)\*\*: ", PAGE, re.M) == sections
    assert [int(number) for number in re.findall(r"^(\d+)\. ", PAGE, re.M)] == list(
        range(1, len(sections) + 1)
    )


def test_the_script_is_valid_bash():
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_the_script_runs_the_tests_that_the_default_leaves_out():
    left_out = OPTIONS["addopts"][OPTIONS["addopts"].index("-m") + 1]
    assert left_out == "not slow and not serial"
    assert '-m "slow and not serial"' in SCRIPT and "-m serial" in SCRIPT
    markers = {marker.partition(":")[0] for marker in OPTIONS["markers"]}
    assert {"slow", "serial"} <= markers


def test_no_folder_of_tests_is_left_out(pytestconfig):
    """By default, pytest does not enter a folder named build; tests/grader has one."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    parts = {part for folder in folders for part in folder.relative_to(ROOT).parts}
    assert "build" in parts
    assert [part for part in parts if any(fnmatch(part, name) for name in left_out)] == []


def test_the_tests_that_need_a_kernel_are_marked():
    """The other sections skip them; the section "lessons" runs those with the marker."""
    assert "-m kernel\n" in SCRIPT
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path != Path(__file__) and "importorskip" in text:
            module = ast.parse(text)
            found |= {f"{path.stem}::{name}": is_marked for name, is_marked in needing(module)}
    assert len(found) > 10 and [name for name, is_marked in found.items() if not is_marked] == []


def needing(module):
    """Yield each test of a file that needs a kernel, also by a fixture, and if it is marked."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    packages = {"ipykernel", "nbclient", "IPython.core.interactiveshell"}
    marked = "pytestmark = pytest.mark.kernel" in map(ast.unparse, module.body)
    names = set()
    while True:
        found = {
            function.name
            for function in functions
            for node in ast.walk(function)
            if getattr(node, "value", None) in packages
            or {getattr(node, "id", None), getattr(node, "arg", None)} & names
        }
        if found == names:
            break
        names = found
    for function in functions:
        if function.name in names and function.name.startswith("test_"):
            decorators = map(ast.unparse, function.decorator_list)
            yield function.name, marked or "pytest.mark.kernel" in decorators


@pytest.mark.parametrize("text", [SCRIPT, PAGE, GUIDE], ids=["run", "ci.md", "CONTRIBUTING.md"])
def test_the_folders_and_files_of_tests_that_it_names_exist(text):
    names = set(re.findall(r"(?<![\w/.])tests/[\w/]+(?:\.py)?", text))
    assert names and [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_contributing_has_a_row_for_every_folder_of_tests():
    rows = set(re.findall(r"`tests/(\w+)/?`", GUIDE))
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert folders - rows == set() and (ROOT / "tests" / "test_lint.py").exists()


def test_every_extra_that_the_script_installs_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group in re.findall(r"'\.\[([\w,]+)\]'", SCRIPT):
        assert set(group.split(",")) <= set(extras["optional-dependencies"])
