"""docs/models.md: the table agrees with the models, and every class is listed."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from minitorch_attn.models.pretrained.registry import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # tools/ is not installed

from tools import model_sizes  # noqa: E402

TEXT = model_sizes.PAGE.read_text(encoding="utf-8")
STORED = model_sizes.stored(TEXT)
LARGE = 130_000_000  # parameters; the script counts larger ones alike, in more time


def parameters(line):
    return int(line.split("|")[2].replace(",", ""))


@pytest.fixture(autouse=True)
def only_once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("sizes are the same on every device")


def test_every_builder_has_a_line():
    assert list(STORED) == model_sizes.builders()


@pytest.mark.parametrize("name", [n for n, line in STORED.items() if parameters(line) < LARGE])
@pytest.mark.slow
def test_the_table_is_what_the_models_have(name):
    found = model_sizes.row(name)
    assert STORED[name] == f"| `{name}` | " + " | ".join(found[1:]) + " |"


def test_every_class_is_named():
    modules = [import_module(f"minitorch_attn.models.pretrained.{name}") for name in
               FAMILIES.values()]  # fmt: skip
    missing = [name for module in modules for name in module.__all__ if f"`{name}`" not in TEXT]
    assert missing == []
