"""The installed package: metadata, commands, and the cost of `import minitorch_attn`."""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import minitorch_attn as mt

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Each costs tens of milliseconds or more, and most sessions need none of them.
HEAVY = (
    "PIL", "asyncio", "click", "concurrent.futures", "cupy", "hashlib", "matplotlib", "regex",
    "rich", "safetensors", "scipy", "sklearn", "tokenizers", "torch", "transformers", "urllib",
)  # fmt: skip


def run_python(code, **more):
    """Standard output of `code` in a fresh interpreter that finds this checkout's package."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_heavy():
    loaded = run_python("import sys, minitorch_attn; print(*sorted(sys.modules))").split()
    assert "minitorch_attn" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_tools_are_loaded_when_asked_for():
    out = run_python(
        "import sys, minitorch_attn as mt\n"
        "names = ['minitorch_attn.' + name for name in ('memory', 'profiling', 'tracing', 'viz')]\n"
        "print(*[name for name in names if name in sys.modules], 'before')\n"
        "mt.memory.track(), mt.profile(), mt.trace()\n"
        "print(*[name for name in names if name in sys.modules], 'after')"
    )
    used = [f"minitorch_attn.{name}" for name in ("memory", "profiling", "tracing")]
    assert out.splitlines() == ["before", f"{' '.join(used)} after"]


def test_import_prints_nothing_and_warns_of_nothing():
    code = "import warnings; warnings.simplefilter('error'); import minitorch_attn"
    assert run_python(code) == ""


def test_version_is_the_same_everywhere():
    assert mt.__version__ == PROJECT["version"]


def test_every_public_name_exists():
    missing = [name for name in getattr(mt, "__all__", ()) if not hasattr(mt, name)]
    assert missing == []


@pytest.mark.parametrize("name", sorted(PROJECT["scripts"]))
def test_command_leads_to_a_function(name):
    entry = importlib.metadata.EntryPoint(name, PROJECT["scripts"][name], "console_scripts")
    assert callable(entry.load())


def installed():
    """The installed distribution, if it is this version's."""
    try:
        found = importlib.metadata.distribution(PROJECT["name"])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed, only importable")
    return found


def test_installed_metadata_is_that_of_pyproject():
    metadata = installed().metadata
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("name", sorted(PROJECT["scripts"]))
def test_installed_command_runs(name):
    installed()
    suffix = ".exe" if os.name == "nt" else ""
    program = Path(sysconfig.get_path("scripts")) / f"{name}{suffix}"
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "tour" in done.stdout


def test_module_runs_as_a_program():
    assert "tour" in run_python(
        "import runpy, sys; sys.argv = ['minitorch_attn', '--help']\n"
        "try:\n    runpy.run_module('minitorch_attn', run_name='__main__')\n"
        "except SystemExit as stop:\n    sys.exit(stop.code)"
    )
