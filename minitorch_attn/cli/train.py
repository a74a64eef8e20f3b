"""`mta train RECIPE` and `mta tour`: commands that train a model, and their options."""

import inspect
import math

import click
from click.core import ParameterSource

from ..errors import DataError
from ..schema import INTEGER, NUMBER, TEXT, check, read_json, read_toml, record
from ..training.recipes import RECIPES, load_recipe
from ..training.worker_splits import SPLITS
from ..training.workers import launched_size
from .source_line import Command, Group
from .training_session import Session

__all__ = ["tour", "train"]

_POSITIVE = click.IntRange(min=1)


class _Finite(click.FloatRange):
    """A range of finite numbers. Unlike `click.FloatRange`, it rejects NaN."""

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


_ABOVE_ZERO = _Finite(min=0, min_open=True)
_FOLDER, _FILE = click.Path(file_okay=False), click.Path(dir_okay=False)
_TYPES = {
    "count": _POSITIVE, "natural": click.IntRange(min=0), "whole": int, "positive": _ABOVE_ZERO,
    "from_zero": _Finite(min=0), "share": _Finite(0, 1, max_open=True),
    "text": str, "file": _FILE,
}  # fmt: skip
_TOUR = ("steps", "out", "text", "device", "seed", "resume")
_FIRST = ("steps", "minutes", "out", "text", "device", "seed")


def _read_config(context, parameter, path):
    """Read options from the --config file. Options on the command line take precedence."""
    if path is None:
        return None
    try:
        values = read_toml(path) if path.endswith(".toml") else read_json(path)
        if "minitorch_attn" in values:  # the file is the config.json of a run
            check(values, record({"options": record({})}), path)
            values = values["options"]
    except DataError as error:
        raise click.BadParameter(str(error)) from None
    values = {key.replace("-", "_"): value for key, value in values.items()}
    known = {p.name for p in context.command.params} - {"config", "resume", "help"}
    unknown = sorted(set(values) - known)
    if unknown:
        raise click.BadParameter(
            f"{path} has unknown options: {', '.join(unknown)}\n"
            f"known options: {', '.join(sorted(known))}"
        )
    values = {key: value for key, value in values.items() if value is not None}
    kinds = {p.name: _kind(p.type) for p in context.command.params}
    try:
        check(values, record({}, kinds), path)
    except DataError as error:
        raise click.BadParameter(str(error)) from None
    context.default_map = values
    return path


def _kind(type):
    """Return the type that an option's value in the --config file must have.

    A range, such as "at least 1", is not part of this type: Click checks it later.
    """
    if isinstance(type, click.types.IntParamType):
        return INTEGER
    return NUMBER if isinstance(type, click.types.FloatParamType) else TEXT


def _resume_value(context, parameter, value):
    if value is None or value in ("latest", "previous"):
        return value
    if value.isdecimal():
        return int(value)
    raise click.BadParameter(f"{value!r} is not 'latest', 'previous' or a step number")


def _of_recipe(option):
    """Create the command-line option that sets one of a recipe's options."""
    kind = option.kind
    type = click.Choice(kind) if isinstance(kind, tuple) else _TYPES[kind]
    default = {} if option.default is None else {"default": option.default, "show_default": True}
    name = option.name.replace("_", "-")
    return click.Option([f"--{name}", option.name], type=type, help=option.help, **default)


def _of_session():
    """Create the options that every recipe has, such as --out and --resume."""
    return [
        click.Option(
            ["--minutes"], type=_ABOVE_ZERO, help="Training time in minutes, instead of --steps."
        ),
        click.Option(
            ["--workers"],
            type=_POSITIVE,
            default=1,
            show_default=True,
            help="Number of processes that share the work of each step.",
        ),
        click.Option(
            ["--split"],
            type=click.Choice(SPLITS),
            default="data",
            show_default=True,
            help="What the workers divide: the examples of each batch (data), the heads and hidden "
            "features of the model (tensor), or the tokens of each sequence (sequence).",
        ),
        click.Option(["--out"], type=_FOLDER, help="Run folder.  [default: a new folder in runs/]"),
        click.Option(
            ["--config"],
            type=_FILE,
            is_eager=True,
            callback=_read_config,
            help="TOML or JSON file of option values, or the config.json of a run.",
        ),
        click.Option(
            ["--resume"],
            is_flag=False,
            flag_value="latest",
            callback=_resume_value,
            metavar="[previous|STEP]",
            help="Continue the run in --out, or the latest run, from its latest checkpoint, "
            "from the previous checkpoint, or from the checkpoint at STEP.",
        ),
    ]


def _parameters(recipe_class, names=None):
    """Collect all options of a command, with the most common ones first."""
    found = [_of_recipe(option) for option in recipe_class.OPTIONS] + _of_session()
    found = [option for option in found if names is None or option.name in names]
    first = {name: place for place, name in enumerate(_FIRST)}
    last = {"config": 1, "resume": 2}
    return sorted(found, key=lambda o: (last.get(o.name, 0), first.get(o.name, len(first))))


def _run(kind, recipe_class, values):
    """Run the training session for a command."""
    if values.get("minutes") is not None and _is_given("steps"):
        raise click.UsageError("--steps and --minutes cannot be combined: give one of them")
    values.pop("config", None)
    workers, split = values.pop("workers", 1), values.pop("split", "data")
    if split not in recipe_class.splits:
        raise click.UsageError(
            f"{kind} cannot use --split {split}: its model and its loss are made for "
            f"--split {' or '.join(recipe_class.splits)}"
        )
    session = {name: values.pop(name, None) for name in ("out", "resume", "minutes")}
    given = {name: value for name, value in values.items() if _is_given(name)}
    if workers == 1 and launched_size() == 1:
        return Session(kind, recipe_class, values, given, **session).run()
    return _run_workers(workers, split, kind, recipe_class, values, given, session)


def _run_workers(workers, split, kind, recipe_class, values, given, session):
    """Train in several processes. Start them, unless a launcher such as mpiexec started them."""
    if recipe_class.one_process:
        raise click.UsageError(f"{kind} runs in one process only: {recipe_class.one_process}")
    if session["minutes"] is not None:
        raise click.UsageError("--minutes and --workers cannot be combined: give --steps")
    if not values["device"].startswith("cpu"):
        raise click.UsageError(
            f"--workers shares the cores of the CPU; it cannot be combined with --device "
            f"{values['device']}"
        )
    if launched_size() > 1:
        from .worker_session import WorkerSession, join

        joined = join()
        if workers not in (1, joined):
            raise click.UsageError(f"--workers {workers}, but {joined} processes were started")
        return WorkerSession(kind, recipe_class, values, given, split=split, **session).run()
    from .worker_processes import start_workers

    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    options += [] if split == "data" else [f"--split={split}"]
    if session["out"] is not None:
        options.append(f"--out={session['out']}")
    if session["resume"] is not None:
        options.append(f"--resume={session['resume']}")
    return start_workers(workers, [*kind.split(), *options])


def _is_given(name):
    """Return whether the user gave an option on the command line or in the --config file."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def _tour(**values):
    """Train a small GPT in about a minute, and look inside it.

    By default, the model learns from the English text of Python's help topics, so nothing is
    downloaded. The command compares the loss with unigram and bigram baselines, checks the
    gradients of the trained model against finite differences, and writes figures, metrics, a sample
    and checkpoints to a run folder. Ctrl-C saves and stops; --resume continues.
    """
    return _run("tour", load_recipe("gpt"), values)


tour = Command(
    "tour", calls="training/recipes/character_gpt.py",
    params=_parameters(load_recipe("gpt"), _TOUR), callback=_tour, help=inspect.getdoc(_tour),
)  # fmt: skip


class _Recipes(Group):
    """Command group that creates a command for each recipe on demand."""

    def list_commands(self, context):
        return list(RECIPES)

    def get_command(self, context, name):
        if name not in RECIPES:
            return None
        recipe_class = load_recipe(name)
        return Command(
            name,
            calls=recipe_class.__module__.replace(".", "/").partition("/")[2] + ".py",
            params=_parameters(recipe_class),
            callback=lambda **values: _run(f"train {name}", recipe_class, values),
            help=(inspect.getdoc(recipe_class) or "").partition("\n\nParameters\n")[0],
            short_help=recipe_class.summary,
        )


def _list_recipes(context, parameter, wanted):
    """Print the recipes, each with the metric values it should reach, and exit."""
    if wanted and not context.resilient_parsing:
        for name in RECIPES:  # little padding: with more, long lines would not fit
            recipe = load_recipe(name)
            click.echo(f"  {name:5}  {recipe.summary}\n{'':9}{recipe.target}")
        context.exit()


@click.group(cls=_Recipes, calls="training/recipes/")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_recipes,
    help="List the recipes with their targets.",
)  # fmt: skip
def train():
    """Train a model with a recipe; every option has a default."""
