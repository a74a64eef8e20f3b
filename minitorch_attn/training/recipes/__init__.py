"""Recipes: the tasks that `mta train` runs, one per file. The data do not require a download."""

from importlib import import_module

from .base import Recipe, Target, digest
from .options import Option, common_options, defaults

__all__ = [
    "RECIPES", "Option", "Recipe", "Target", "common_options", "defaults", "digest", "load_recipe",
]  # fmt: skip

# name of the recipe: (module, class)
RECIPES = {
    "gpt": ("character_gpt", "CharacterGPT"), "dates": ("dates", "Dates"), "t5": ("t5", "T5"),
    "bert": ("bert", "BERT"), "vit": ("vit", "ViT"), "swin": ("swin", "Swin"),
    "mae": ("mae", "MAE"),
}  # fmt: skip


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
