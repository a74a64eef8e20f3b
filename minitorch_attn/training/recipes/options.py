"""Options for the recipes as plain data, from which the command line is built."""

from dataclasses import dataclass

from ...errors import CheckpointError
from ...schema import (
    COUNT,
    INTEGER,
    NON_NEGATIVE,
    SHARE,
    SIZE,
    TEXT,
    check,
    choice,
    optional,
    record,
)  # fmt: skip

__all__ = ["Option", "check_options", "common_options", "defaults", "kind_of"]


@dataclass(frozen=True)
class Option:
    """One setting of a recipe.

    Parameters
    ----------
    name : str
        Name with underscores. For example, `weight_decay` becomes `--weight-decay`.
    default : int, float, str or None
    help : str
    kind : str or tuple of str, default "count"
        "count" (1, 2, ...), "natural" (0, 1, ...), "whole" (any int), "positive" (float above 0),
        "from_zero" (float of at least 0), "share" (float of at least 0 and less than 1), "text",
        "file", or a tuple of choices.
    """

    name: str
    default: object
    help: str
    kind: str | tuple = "count"


def common_options(without=(), **changes):
    """Return the options that recipes have in common.

    Parameters
    ----------
    without : tuple of str, default ()
        Names of options that do not apply, such as "heads" for a model without attention heads.
    **changes
        Default values to override.

    Returns
    -------
    tuple of Option

    Examples
    --------
    >>> defaults(common_options(batch=64))["batch"]
    64
    """
    values = {**_COMMON, **changes}
    names = [name for name in _COMMON if name not in without]
    return tuple(Option(name, values[name], *_HELP[name]) for name in names)


def check_options(options, given, where):
    """Raise a CheckpointError if an option that was read from a file has an invalid value.

    Parameters
    ----------
    options : sequence of Option
    given : dict
        Values of the options, as in the `config.json` of a run.
    where : str
        Name of the file for error messages.
    """
    kinds = {option.name: kind_of(option) for option in options}
    check(given, record({}, kinds), where, CheckpointError)


def kind_of(option):
    """Return the `Kind` (see `schema.py`) that describes an option's valid values."""
    kind = choice(*option.kind) if isinstance(option.kind, tuple) else _KINDS[option.kind]
    return optional(kind) if option.default is None else kind


def defaults(options):
    """Return a dict from each option's name to its default value.

    Returns
    -------
    dict
    """
    return {option.name: option.default for option in options}


_KINDS = {
    "count": SIZE, "natural": COUNT, "whole": INTEGER, "positive": NON_NEGATIVE,
    "from_zero": NON_NEGATIVE, "share": SHARE, "text": TEXT, "file": TEXT,
}  # fmt: skip
_COMMON = {
    "steps": 1000, "device": "cpu", "seed": 1, "dtype": "float32", "lr": 1e-3, "warmup": 100,
    "batch": 64, "layers": 2, "heads": 4, "dim": 64, "dropout": 0.0, "weight_decay": 0.01,
    "clip": 1.0, "eval_every": 250, "threads": 1, "processes": 1,
}  # fmt: skip
_HELP = {
    "steps": ("Total number of training steps.",),
    "device": ("cpu, cuda or cuda:N.", "text"),
    "seed": ("Random seed of weights, batches and dropout.", "whole"),
    "dtype": ("Dtype of the weights.", ("float32", "float64")),
    "lr": ("Highest learning rate.", "positive"),
    "warmup": ("Number of warm-up steps to the maximum learning rate.", "natural"),
    "batch": ("Number of examples in a batch.",),
    "layers": ("Number of Transformer blocks.",),
    "heads": ("Number of attention heads in a block.",),
    "dim": ("Width of the embedding.",),
    "dropout": ("Dropout probability.", "share"),
    "weight_decay": ("Weight decay of matrices (not of biases and norms).", "from_zero"),
    "clip": ("Maximum gradient norm; 0 means no limit.", "from_zero"),
    "eval_every": ("Number of steps between evaluations, and between checkpoints.",),
    "threads": ("Number of threads among which each batch is split.",),
    "processes": ("Number of processes among which each batch is split (on Linux).",),
}
