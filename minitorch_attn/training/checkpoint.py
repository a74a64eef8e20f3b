"""Checkpoints of a training run: write them atomically, keep the newest few, and read them."""

import contextlib
import os
import re
from pathlib import Path

from ..errors import ArgumentError, CheckpointError
from ..files import remove_abandoned, write_error
from ..schema import ANY, check, map_of, record
from ..serialization import load, save

__all__ = ["Checkpoints", "model_state"]

_NAME = re.compile(r"step-(\d+)\.safetensors")


class Checkpoints:
    """Checkpoint folder with one safetensors file for each step that is kept.

    Each file is written atomically and contains a checksum. Older files are deleted only after a
    newer file is complete.

    Parameters
    ----------
    folder : str or path
        Checkpoint folder. It is created when the first checkpoint is saved.
    keep : int, default 2
        Number of checkpoints to keep, at least 2, in case the newest checkpoint is damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = Checkpoints(folder)
    ...     for step in (10, 20, 30):
    ...         path = checkpoints.save(step, {"loss": 1 / step})
    ...     checkpoints.steps(), checkpoints.load("previous")
    ([20, 30], (20, {'loss': 0.05}))
    """

    def __init__(self, folder, keep=2):
        if keep < 2:
            raise ArgumentError(
                "Checkpoints: keep must be at least 2, in case the newest checkpoint is damaged",
                got=str(keep),
            )
        self.folder = Path(folder)
        self.keep = keep

    def path(self, step):
        """Return the path of the checkpoint for `step`."""
        return self.folder / f"step-{step:08d}.safetensors"

    def steps(self):
        """Return the steps that have checkpoints, in increasing order."""
        with contextlib.suppress(OSError):
            found = map(_NAME.fullmatch, os.listdir(self.folder))
            return sorted(int(match[1]) for match in found if match)
        return []

    def save(self, step, state):
        """Write a checkpoint for `step`, then delete all but the newest `keep` checkpoints.

        Parameters
        ----------
        step : int
        state : dict
            State to save: any values that `mt.save` accepts.

        Returns
        -------
        Path

        Raises
        ------
        CheckpointError
            If the checkpoint cannot be written. Older checkpoints are then not deleted.
        """
        path = self.path(step)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(self.folder, error) from error
        save(state, path)
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink(missing_ok=True)
        return path

    def load(self, which="latest", device=None):
        """Read a checkpoint.

        Parameters
        ----------
        which : int, "latest" or "previous"
            Step, "latest" (newest checkpoint) or "previous" (newest intact checkpoint before it).
        device : str or Device, optional

        Returns
        -------
        step : int
        state : dict

        Raises
        ------
        CheckpointError
            If the checkpoint is missing or damaged. The message names the file.
        """
        steps = self.steps()
        if which == "previous":
            return self._load_previous(steps, device)
        wanted = steps[-1] if which == "latest" and steps else which
        if wanted not in steps:
            raise CheckpointError(
                f"{self.folder}: the {which} checkpoint is missing"
                if which == "latest"
                else f"{self.folder}: the checkpoint of step {which} is missing",
                got=_list(steps),
                hint='pass which="latest"' if steps else "save a checkpoint first",
            )
        try:
            return wanted, load(self.path(wanted), device)
        except CheckpointError as error:
            older = [step for step in steps if step < wanted]
            raise CheckpointError(
                error.message,
                got=error.got, expected=error.expected,
                hint=f"resume from step {older[-1]} with --resume previous" if older else None,
            ) from error  # fmt: skip

    def _load_previous(self, steps, device):
        damaged = []
        for step in reversed(steps[:-1]):
            try:
                return step, load(self.path(step), device)
            except CheckpointError as error:
                damaged.append(f"{self.path(step).name}: {error.got}")
        raise CheckpointError(
            f"{self.folder}: there is no intact checkpoint before the newest one",
            got="; ".join(damaged) or _list(steps), hint="start the run again in a new folder",
        )  # fmt: skip

    def set_aside(self, after):
        """Rename all checkpoints after step `after` to *.replaced.

        The checkpoint of step `after` is then the newest, so a run can continue from it.

        Parameters
        ----------
        after : int
            Step to which the run returns. The checkpoint of this step is not renamed.

        Returns
        -------
        list of Path
            The new paths.
        """
        moved = []
        for step in self.steps():
            if step > after:
                path = self.path(step)
                moved.append(path.replace(path.with_name(path.name + ".replaced")))
        return moved

    def clean(self):
        """Remove temporary files left by a killed process."""
        remove_abandoned(self.folder)


def model_state(state, where):
    """Return the model's state in a checkpoint. Raise a CheckpointError if it is missing."""
    check(state, record({"model": map_of(ANY)}), f"{where}: the checkpoint", CheckpointError)
    return state["model"]


def _list(steps):
    return "checkpoints of the steps " + ", ".join(map(str, steps)) if steps else "no checkpoints"
