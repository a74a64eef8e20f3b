"""What lies in a folder that the user names: published weights, or a run of ours."""

from pathlib import Path

from ..errors import CheckpointError

__all__ = ["is_run", "model_class"]


def is_run(folder):
    """Whether a command of this program has made the folder."""
    import json

    try:
        fields = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and "minitorch_attn" in fields


def model_class(folder):
    """(class, fields of config.json) of a folder as a model hub has it.

    Raises
    ------
    CheckpointError
        If the folder or its config.json is not there, with what to do about it.
    """
    from ..models.pretrained.registry import class_in

    if Path(folder).is_dir() and not (Path(folder) / "config.json").exists():
        found = sorted(path.name for path in Path(folder).iterdir())
        raise CheckpointError(
            f"{folder} holds no model.",
            got=", ".join(found[:6]) + (", ..." if len(found) > 6 else "") or "an empty folder",
            expected="config.json and model.safetensors, or a run of `mta train gpt`",
        )
    return class_in(folder)
