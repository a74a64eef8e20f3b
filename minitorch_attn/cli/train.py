"""`mta tour` and `mta train gpt`: their options."""

import json
import tomllib
from pathlib import Path

import click
from click.core import ParameterSource

from ..training.character_gpt import DEFAULTS
from .session import Session

__all__ = ["tour", "train"]

_POSITIVE = click.IntRange(min=1)
_TOUR = ("steps", "out", "text", "device", "seed", "resume")


def _read_config(context, parameter, path):
    """Make the values of a file the defaults of the other options."""
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}") from None
    if isinstance(values, dict) and "minitorch_attn" in values:
        values = values.get("options")  # the config.json of a run
    if not isinstance(values, dict):
        raise click.BadParameter(f"{path} is not a table of options")
    values = {key.replace("-", "_"): value for key, value in values.items()}
    known = {p.name for p in context.command.params} - {"config", "resume", "help"}
    unknown = sorted(set(values) - known)
    if unknown:
        raise click.BadParameter(
            f"{path} has unknown options: {', '.join(unknown)}\n"
            f"known are: {', '.join(sorted(known))}"
        )
    context.default_map = {key: value for key, value in values.items() if value is not None}
    return path


def _resume_value(context, parameter, value):
    if value is None or value in ("latest", "previous"):
        return value
    if value.isdecimal():
        return int(value)
    raise click.BadParameter(f"{value!r} is neither 'latest', 'previous' nor a step.")


def _option(name, help, type=None, **settings):
    """(name, decorator) of an option; the default is the recipe's, if it has one."""
    default = DEFAULTS.get(name)
    if default is not None:
        settings = {"default": default, "show_default": True, **settings}
    return name, click.option(f"--{name.replace('_', '-')}", name, type=type, help=help, **settings)


_FROM_ZERO, _ABOVE_ZERO = click.FloatRange(min=0), click.FloatRange(min=0, min_open=True)
_FILE, _FOLDER = click.Path(dir_okay=False), click.Path(file_okay=False)

_OPTIONS = dict([
    _option("steps", "Training steps in all.", _POSITIVE),
    _option("minutes", "Instead of --steps: as many as fit into this time.", _ABOVE_ZERO),
    _option("out", "Run folder.  [default: the next free one in runs/]", _FOLDER),
    _option("text", "UTF-8 text file to learn from.  [default: Python's help topics]", _FILE),
    _option("device", "cpu, cuda or cuda:N."),
    _option("seed", "Of weights, batches and the sample.", int),
    _option("dtype", "Of the weights.", click.Choice(["float32", "float64"])),
    _option("lr", "Highest learning rate.", _ABOVE_ZERO),
    _option("warmup", "Steps until it is reached.", click.IntRange(min=0)),
    _option("batch", "Pieces of text in a step.", _POSITIVE),
    _option("context", "Characters in a piece.", _POSITIVE),
    _option("layers", "Transformer blocks.", _POSITIVE),
    _option("heads", "Attention heads in a block.", _POSITIVE),
    _option("dim", "Width of the embedding.", _POSITIVE),
    _option("dropout", "Share of values set to zero.", click.FloatRange(0, 1, max_open=True)),
    _option("weight_decay", "Of the matrices.", _FROM_ZERO),
    _option("clip", "Highest norm of the gradient; 0 is no limit.", _FROM_ZERO),
    _option("eval_every", "Steps between evaluations, and checkpoints.", _POSITIVE),
    _option(
        "config",
        "TOML or JSON file with values for these options, or config.json of a run.",
        _FILE,
        is_eager=True,
        callback=_read_config,
    ),
    _option(
        "resume",
        "Go on with the run in --out, or the newest one, from its last checkpoint. 'previous': "
        "from the one before.",
        is_flag=False,
        flag_value="latest",
        callback=_resume_value,
        metavar="[previous|STEP]",
    ),
])  # fmt: skip


def _with_options(names):
    """A decorator that adds options of the table above, in its order."""

    def add(function):
        for name in reversed([name for name in _OPTIONS if name in names]):
            function = _OPTIONS[name](function)
        return function

    return add


@click.command()
@_with_options(_TOUR)
def tour(**values):
    """Train a small GPT on English text in about a minute, and look inside it.

    It needs no download. The loss stands beside what counting alone achieves, the attention of
    the trained model is checked against finite differences, and a folder with pictures, metrics,
    a sample and checkpoints is left behind. Ctrl-C saves and stops; --resume goes on.
    """
    return _session("tour", values).run()


@click.group()
def train():
    """Train a model; every option has a default."""


@train.command()
@_with_options(_OPTIONS)
def gpt(**values):
    """Train a GPT over the characters of a text.

    Like the tour, with every size and setting. Ctrl-C saves and stops; --resume goes on, to
    losses that are equal to the bit.
    """
    if values["minutes"] is not None and _is_given("steps"):
        raise click.UsageError("--steps and --minutes: give one of them.")
    values.pop("config")
    return _session("train gpt", values).run()


def _is_given(name):
    """Whether an option comes from the user, on the command line or in a file."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def _session(kind, values):
    session = {name: values.pop(name, None) for name in ("out", "resume", "minutes")}
    given = {name: value for name, value in values.items() if _is_given(name)}
    return Session(kind, values, given, **session)
