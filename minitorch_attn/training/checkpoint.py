"""The checkpoints of a run: the last few, each whole or not there at all."""

import contextlib
import os
import re
from pathlib import Path

from ..errors import ArgumentError, CheckpointError
from ..files import TEMPORARY_SUFFIX, write_error
from ..serialization import load, save

__all__ = ["Checkpoints"]

_NAME = re.compile(r"step-(\d+)\.safetensors")


class Checkpoints:
    """A folder of checkpoints, one safetensors file for each kept step.

    Each file is written atomically and carries a checksum; older ones are deleted only after a
    newer one is whole.

    Parameters
    ----------
    folder : str or path
        Made when the first checkpoint is saved.
    keep : int, default 2
        How many to keep, at least 2: when the newest is damaged there is one before it.

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
                "Checkpoints(keep=): a damaged checkpoint needs one before it.",
                got=str(keep),
                expected="at least 2",
            )
        self.folder = Path(folder)
        self.keep = keep

    def path(self, step):
        """Where the checkpoint of `step` is, or would be."""
        return self.folder / f"step-{step:08d}.safetensors"

    def steps(self):
        """The steps that have a checkpoint, in rising order."""
        with contextlib.suppress(OSError):
            found = map(_NAME.fullmatch, os.listdir(self.folder))
            return sorted(int(match[1]) for match in found if match)
        return []

    def save(self, step, state):
        """Write the checkpoint of `step`, then delete all but the newest `keep`.

        Parameters
        ----------
        step : int
        state : dict
            Anything that `mt.save` takes.

        Returns
        -------
        Path

        Raises
        ------
        CheckpointError
            If it cannot be written; the older ones are still there.
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
            A step; the newest; or the newest undamaged one before that.
        device : str or Device, optional

        Returns
        -------
        step : int
        state : dict

        Raises
        ------
        CheckpointError
            If there is none, or it is damaged; the message names the file.
        """
        steps = self.steps()
        if which == "previous":
            return self._load_previous(steps, device)
        wanted = steps[-1] if which == "latest" and steps else which
        if wanted not in steps:
            raise CheckpointError(
                f"{self.folder} has no {which} checkpoint."
                if which == "latest"
                else f"{self.folder} has no checkpoint of step {which}.",
                got=_list(steps),
            )
        try:
            return wanted, load(self.path(wanted), device)
        except CheckpointError as error:
            older = [step for step in steps if step < wanted]
            raise CheckpointError(
                error.message,
                got=error.got,
                expected=error.expected,
                hint=f"--resume previous, which goes back to step {older[-1]}" if older else None,
            ) from error

    def _load_previous(self, steps, device):
        damaged = []
        for step in reversed(steps[:-1]):
            try:
                return step, load(self.path(step), device)
            except CheckpointError as error:
                damaged.append(f"{self.path(step).name}: {error.got}")
        raise CheckpointError(
            f"{self.folder} has no undamaged checkpoint before the newest.",
            got="; ".join(damaged) or _list(steps),
        )

    def set_aside(self, after):
        """Rename the checkpoints of later steps to *.replaced, so that a run can go back.

        Parameters
        ----------
        after : int
            The step that the run goes back to.

        Returns
        -------
        list of Path
            The new names.
        """
        moved = []
        for step in self.steps():
            if step > after:
                path = self.path(step)
                moved.append(path.replace(path.with_name(path.name + ".replaced")))
        return moved

    def clean(self):
        """Remove what a killed process left half-written."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if name.startswith(".step-") and name.endswith(TEMPORARY_SUFFIX):
                    (self.folder / name).unlink()


def _list(steps):
    return "checkpoints of the steps " + ", ".join(map(str, steps)) if steps else "none at all"
