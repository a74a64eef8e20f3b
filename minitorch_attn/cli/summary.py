"""`mta summary`: list the layers of a model and the cost of one forward pass."""

import difflib
import inspect
import textwrap
from pathlib import Path

import click

from ..errors import ArgumentError
from .console import command
from .model_folder import is_run, model_class
from .source_line import Command

__all__ = ["builders", "summary"]

_IMAGES, _SOURCES = ("pixel_values", "images", "video", "x"), ("input_ids", "ids", "source")
_TARGETS = ("decoder_input_ids", "decoder_ids", "target")
_TOKENS = 128


def _sizes(context, parameter, value):
    if value is None:
        return None
    parts = value.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of sizes such as 1,3,224,224")
    return tuple(map(int, parts))


@click.command(cls=Command, calls="nn/summary.py")
@click.argument("name", metavar="FOLDER_OR_NAME")
@click.option(
    "--input",
    "sizes",
    callback=_sizes,
    metavar="1,3,224,224",
    help="Input shape.  [default: one image of the model's size, or 128 tokens]",
)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Number of levels of nested layers to list.",
)
def summary(name, sizes, depth):
    """List a model's layers with shapes, parameters, FLOPs and memory.

    FOLDER_OR_NAME is a Hugging Face or timm folder, a run folder of `mta train gpt`, or the name of
    a published model, as in `mta summary vit_b_16`. The command does not compute matrix products or
    read published weights, so even the largest models take only seconds.
    """
    from ..nn import summary as show

    model = _model(name)
    arguments = _arguments(model, sizes)
    show(model, depth=depth, **arguments)


def builders():
    """List the names of the functions in `models` that build a model of a published size."""
    from .. import models

    found = (name for name in models.__all__ if name == name.lower())
    return sorted(name for name in found if not _required(getattr(models, name)))


def _required(function):
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is empty and p.kind not in kinds]


def _model(name):
    """Build the model from a folder or a name, with uninitialized weights."""
    from .. import models
    from ..nn.init import skip_init

    with skip_init():
        if is_run(name):
            from ..training.recipes.character_gpt import trained_gpt

            return trained_gpt(name)[0]
        if Path(name).is_dir():
            cls, fields = model_class(name)
            return cls(fields)
        known = builders()
        if name in known:
            return getattr(models, name)()
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    raise ArgumentError(
        f"{name!r} is neither a folder nor the name of a model",
        expected="a folder, or one of\n" + textwrap.fill(", ".join(known), 76),
        hint=command("summary", close[0]) if close else None,
    )


def _arguments(model, sizes):
    """Make keyword arguments for the model: zeros for each of its inputs."""
    from ..ops import zeros

    names = list(inspect.signature(model.forward).parameters)
    device = next(model.parameters()).device
    image = next((name for name in names if name in _IMAGES), None)
    if image is not None:
        return {image: zeros(*(sizes or _image_sizes(model)), device=device)}
    source = next(name for name in names if name in _SOURCES)
    ids = zeros(*(sizes or (1, _tokens(model))), dtype="int64", device=device)
    arguments = {source: ids}
    target = next((name for name in names if name in _TARGETS), None)
    return arguments if target is None else {**arguments, target: ids}


def _tokens(model):
    """Return the default number of input tokens, or fewer if the model has fewer positions."""
    config = getattr(model, "config", {})
    limits = (getattr(model, "context_length", None), config.get("max_position_embeddings"))
    return min([_TOKENS, *(limit for limit in limits if limit)])


def _image_sizes(model):
    """Return the shape of an input image. If the model does not define it, use 224 x 224."""
    config = getattr(model, "config", {})
    about = config.get("pretrained_cfg") or {}  # timm's
    if hasattr(model, "input_shape"):  # videos
        return (1, *model.input_shape)
    if "input_size" in about:
        return (1, *about["input_size"])
    sizes = [getattr(module, "image_size", None) for module in model.modules()]
    sizes = [config.get("image_size"), *sizes, 224]
    size = next(size for size in sizes if size is not None)
    channels = next(m.weight.shape[1] for m in model.modules() if type(m).__name__ == "Conv2d")
    return (1, channels, *(size if isinstance(size, (list, tuple)) else (size, size)))
