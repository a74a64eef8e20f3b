"""Recipes: the tasks that `mta train` runs, one per file. None of them downloads data."""

from importlib import import_module

from ...schema import ANY, NUMBER, TEXT, Kind, map_of, optional, record
from .base import Recipe, Target, digest
from .options import Option, check_options, common_options, defaults, kind_of

__all__ = [
    "RECIPES", "Option", "Recipe", "Target", "check_run", "common_options", "defaults", "digest",
    "kind_of", "load_recipe",
]  # fmt: skip

# name of the recipe: (module, class)
RECIPES = {
    "gpt": ("character_gpt", "CharacterGPT"), "dates": ("dates", "Dates"), "t5": ("t5", "T5"),
    "bert": ("bert", "BERT"), "vit": ("vit", "ViT"), "swin": ("swin", "Swin"),
    "mae": ("mae", "MAE"),
    "captions": ("captions", "Captions"), "clip": ("clip", "Clip"), "detr": ("detr", "DetrDigits"),
    "dino": ("dino", "DINODigits"), "igpt": ("image_gpt", "IGPT"), "mvit": ("mvit", "MViT"),
    "seq2seq": ("seq2seq", "RecurrentDates"), "speech": ("speech", "Speech"),
    "mask-predict": ("mask_predict", "MaskPredict"),
    "nonlocal": ("non_local", "NonLocal"),
    "superposition": ("superposition", "Superposition"), "uniter": ("uniter", "Uniter"),
    "vatt": ("vatt", "Vatt"),
    "words": ("words", "Words"),
}  # fmt: skip

_COMMANDS = ("tour", *(f"train {name}" for name in RECIPES))
_RUN = record(
    {"options": record({})},
    {
        "command": Kind(f"one of {', '.join(_COMMANDS)}", lambda text: text in _COMMANDS),
        "minitorch_attn": TEXT, "vocabulary": optional(TEXT), "data": map_of(ANY),
        "baselines": map_of(NUMBER),
    },
)  # fmt: skip


def check_run(run):
    """Check the `config.json` of a run, and return its options with defaults for missing ones.

    Parameters
    ----------
    run : RunFolder

    Returns
    -------
    dict

    Raises
    ------
    CheckpointError
        If a field is missing or has the wrong type.
    """
    run.check_config(_RUN)
    name = run.config.get("command", "tour").removeprefix("train ")
    known = load_recipe("gpt" if name == "tour" else name).OPTIONS
    check_options(known, run.config["options"], f"{run.path}/config.json: options")
    return {**defaults(known), **run.config["options"]}


def load_recipe(name):
    """Import the module of a recipe and return its class.

    Parameters
    ----------
    name : str
        One of `RECIPES`.

    Returns
    -------
    type

    Examples
    --------
    >>> load_recipe("gpt").target.metric
    'validation_loss'
    """
    module, attribute = RECIPES[name]
    return getattr(import_module(f".{module}", __name__), attribute)
