"""The settings of a recipe, as plain data: the commands turn them into options."""

from dataclasses import dataclass

__all__ = ["Option", "common_options", "defaults"]


@dataclass(frozen=True)
class Option:
    """One setting of a recipe.

    Parameters
    ----------
    name : str
        With underscores; `weight_decay` becomes `--weight-decay`.
    default : int, float, str or None
    help : str
    kind : str or tuple of str, default "count"
        "count" (1, 2, ...), "natural" (0, 1, ...), "whole" (any int), "positive" (float above 0),
        "from_zero" (float from 0), "share" (float from 0, below 1), "text", "file", or a tuple
        of choices.
    """

    name: str
    default: object
    help: str
    kind: str | tuple = "count"


def common_options(**changes):
    """The settings that every recipe has.

    Parameters
    ----------
    **changes
        Defaults that differ from the usual ones.

    Returns
    -------
    tuple of Option

    Examples
    --------
    >>> defaults(common_options(batch=64))["batch"]
    64
    """
    values = {**_COMMON, **changes}
    return tuple(Option(name, values[name], *_HELP[name]) for name in _COMMON)


def defaults(options):
    """The values that a recipe has when nothing is asked for.

    Returns
    -------
    dict
    """
    return {option.name: option.default for option in options}


_COMMON = {
    "steps": 1000,
    "device": "cpu",
    "seed": 1,
    "dtype": "float32",
    "lr": 1e-3,
    "warmup": 100,
    "batch": 64,
    "layers": 2,
    "heads": 4,
    "dim": 64,
    "dropout": 0.0,
    "weight_decay": 0.01,
    "clip": 1.0,
    "eval_every": 250,
    "threads": 1,
}
_HELP = {
    "steps": ("Training steps in all.",),
    "device": ("cpu, cuda or cuda:N.", "text"),
    "seed": ("Of weights, batches and what is drawn at random.", "whole"),
    "dtype": ("Of the weights.", ("float32", "float64")),
    "lr": ("Highest learning rate.", "positive"),
    "warmup": ("Steps until it is reached.", "natural"),
    "batch": ("Examples in a step.",),
    "layers": ("Transformer blocks.",),
    "heads": ("Attention heads in a block.",),
    "dim": ("Width of the embedding.",),
    "dropout": ("Share of values set to zero.", "share"),
    "weight_decay": ("Of the matrices.", "from_zero"),
    "clip": ("Highest norm of the gradient; 0 is no limit.", "from_zero"),
    "eval_every": ("Steps between evaluations, and checkpoints.",),
    "threads": ("Threads that share out each batch.",),
}
