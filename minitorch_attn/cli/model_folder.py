"""Model folders given on the command line: published weights or run folders of `mta train`."""

from pathlib import Path

from ..errors import CheckpointError, DataError
from ..schema import read_json

__all__ = ["is_run", "model_class"]


def is_run(folder):
    """Return whether the folder is a run folder of `mta train` or `mta tour`."""
    try:
        return "minitorch_attn" in read_json(Path(folder) / "config.json")
    except DataError:
        return False


def model_class(folder):
    """Find the model class and read config.json of a Hugging Face or timm folder.

    Raises
    ------
    CheckpointError
        If the folder or its config.json does not exist.
    """
    from ..models.pretrained.registry import class_in

    if Path(folder).is_dir() and not (Path(folder) / "config.json").exists():
        found = sorted(path.name for path in Path(folder).iterdir())
        raise CheckpointError(
            f"{folder}: config.json is missing",
            got=", ".join(found[:6]) + (", ..." if len(found) > 6 else "") or "an empty folder",
            expected="config.json and model.safetensors, or a run of `mta train gpt`",
        )
    return class_in(folder)
