"""`--help` shows the source file of each command, and each file names its command."""

import re
from importlib import import_module

import click
import pytest

from minitorch_attn.cli.app import mta
from tests.cli.conftest import ROOT

SOURCE = re.compile(r"^Source: (minitorch_attn/cli/\w+\.py):(\d+)(?: calls ([\w/.]+))?$")


def tree(command=mta, path=("mta",)):
    """(path, command) of a command and all below it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from tree(command.get_command(context, name), (*path, name))


COMMANDS = dict(tree())


def source_of(path):
    command = COMMANDS[path]
    # Click keeps the help option that a command makes first: it must be the one of `mta`.
    context = click.Context(
        command, info_name=path[-1], terminal_width=80, help_option_names=["-h", "--help"]
    )
    last = command.get_help(context).splitlines()[-1]
    assert len(last) <= 80, last
    return SOURCE.match(last)


def test_there_are_commands_at_every_level():
    known = {("mta",), ("mta", "tour"), ("mta", "course", "grade"), ("mta", "train", "gpt")}
    assert known <= set(COMMANDS) and len(COMMANDS) > 35


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_ends_with_the_place_of_the_code(path):
    file, line, calls = source_of(path).groups()
    text = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1 :]
    callback = COMMANDS[path].callback
    assert text[0].startswith(("@", "def _tour(")) or "lambda" in text[0]
    at = next((i for i, row in enumerate(text) if f"def {callback.__name__}(" in row), 0)
    assert at < 40 and all(not row.startswith("def ") for row in text[:at])  # only decorators
    assert calls is None or (ROOT / "minitorch_attn" / calls).exists()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_name_of_a_command_leads_to_its_file(path):
    file = source_of(path)[1]
    module = import_module(file.removesuffix(".py").replace("/", "."))
    title = module.__doc__.splitlines()[0]
    if path == ("mta",):
        assert file.endswith("/app.py")
        return
    top = path[1]
    assert file.split("/")[-1].startswith("train" if top == "tour" else top)
    assert title.startswith("`mta ") and f"`mta {top}" in title
    if len(path) == 3 and top not in ("train", "exercise", "build"):
        assert re.search(rf"`(mta {top} )?{path[2]}`", title), title
