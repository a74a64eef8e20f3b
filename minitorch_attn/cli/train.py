"""`mta tour` and `mta train RECIPE`: their options."""

import inspect
import json
import tomllib
from pathlib import Path

import click
from click.core import ParameterSource

from ..training.recipes import RECIPES, load_recipe
from .console import table
from .session import Session

__all__ = ["tour", "train"]

_POSITIVE = click.IntRange(min=1)
_ABOVE_ZERO = click.FloatRange(min=0, min_open=True)
_FOLDER, _FILE = click.Path(file_okay=False), click.Path(dir_okay=False)
_TYPES = {
    "count": _POSITIVE,
    "natural": click.IntRange(min=0),
    "whole": int,
    "positive": _ABOVE_ZERO,
    "from_zero": click.FloatRange(min=0),
    "share": click.FloatRange(0, 1, max_open=True),
    "text": str,
    "file": _FILE,
}
_TOUR = ("steps", "out", "text", "device", "seed", "resume")
_FIRST = ("steps", "minutes", "out", "text", "device", "seed")


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


def _of_recipe(option):
    """The command-line option for a setting of a recipe."""
    kind = option.kind
    type = click.Choice(kind) if isinstance(kind, tuple) else _TYPES[kind]
    default = {} if option.default is None else {"default": option.default, "show_default": True}
    name = option.name.replace("_", "-")
    return click.Option([f"--{name}", option.name], type=type, help=option.help, **default)


def _of_session():
    """The options that belong to a session, not to its recipe; new ones at each call."""
    return [
        click.Option(
            ["--minutes"],
            type=_ABOVE_ZERO,
            help="Instead of --steps: as many as fit into this time.",
        ),
        click.Option(
            ["--out"], type=_FOLDER, help="Run folder.  [default: the next free one in runs/]"
        ),
        click.Option(
            ["--config"],
            type=_FILE,
            is_eager=True,
            callback=_read_config,
            help="TOML or JSON file with values for these options, or config.json of a run.",
        ),
        click.Option(
            ["--resume"],
            is_flag=False,
            flag_value="latest",
            callback=_resume_value,
            metavar="[previous|STEP]",
            help="Go on with the run in --out, or the newest one, from its last checkpoint. "
            "'previous': from the one before.",
        ),
    ]


def _parameters(recipe_class, names=None):
    """All options of a command, those that are used most at the top."""
    found = [_of_recipe(option) for option in recipe_class.OPTIONS] + _of_session()
    found = [option for option in found if names is None or option.name in names]
    first = {name: place for place, name in enumerate(_FIRST)}
    last = {"config": 1, "resume": 2}
    return sorted(found, key=lambda o: (last.get(o.name, 0), first.get(o.name, len(first))))


def _run(kind, recipe_class, values):
    """Start the session of a command."""
    if values.get("minutes") is not None and _is_given("steps"):
        raise click.UsageError("--steps and --minutes: give one of them.")
    values.pop("config", None)
    session = {name: values.pop(name, None) for name in ("out", "resume", "minutes")}
    given = {name: value for name, value in values.items() if _is_given(name)}
    return Session(kind, recipe_class, values, given, **session).run()


def _is_given(name):
    """Whether an option comes from the user, on the command line or in a file."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def _tour(**values):
    """Train a small GPT on English text in about a minute, and look inside it.

    It needs no download. The loss stands beside what counting alone achieves, the attention of
    the trained model is checked against finite differences, and a folder with pictures, metrics,
    a sample and checkpoints is left behind. Ctrl-C saves and stops; --resume goes on.
    """
    return _run("tour", load_recipe("gpt"), values)


tour = click.Command(
    "tour",
    params=_parameters(load_recipe("gpt"), _TOUR),
    callback=_tour,
    help=inspect.getdoc(_tour),
)


class _Recipes(click.Group):
    """A command for each recipe, made when it is asked for."""

    def list_commands(self, context):
        return list(RECIPES)

    def get_command(self, context, name):
        if name not in RECIPES:
            return None
        recipe_class = load_recipe(name)
        return click.Command(
            name,
            params=_parameters(recipe_class),
            callback=lambda **values: _run(f"train {name}", recipe_class, values),
            help=inspect.getdoc(recipe_class).partition("\n\nParameters\n")[0],
            short_help=recipe_class.summary,
        )


def _list_recipes(context, parameter, wanted):
    """Print the recipes, one line each, and end."""
    if wanted and not context.resilient_parsing:
        recipes = [load_recipe(name) for name in RECIPES]
        click.echo(table([(r.name, r.summary, str(r.target)) for r in recipes]))
        context.exit()


@click.group(cls=_Recipes)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_recipes,
    help="List the recipes, one line each, with the figure each one reaches.",
)
def train():
    """Train a model; every option has a default."""
