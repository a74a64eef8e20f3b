"""`shard.json`: list the results of a shard, each with its hash, for `mta course merge`."""

from hashlib import sha256
from pathlib import Path

from ..grade.archive import passed_over
from ..grade.shard import write_shard
from .results import described, listed

__all__ = ["list_shard"]


def list_shard(task, folder, out, why, roster, shard):
    """Write `shard.json`: the results of a shard, and the list of all submissions of the class.

    Parameters
    ----------
    task : Task
    folder : path
        Folder of submissions.
    out : path
        Results folder of the shard.
    why : str
        Message for submissions that were not graded.
    roster : sequence of str
        Names of all students in the class.
    shard : Shard
    """
    documents = sorted((Path(out) / "state").glob("*.json"))
    write_shard(
        out, shard, listed=True, assignment=described(task), digest=task.digest, why=why,
        roster=list(roster), submissions=listed(folder),
        passed_over=[{"name": name, "why": reason} for name, reason in passed_over(folder)],
        results={path.stem: sha256(path.read_bytes()).hexdigest() for path in documents},
    )  # fmt: skip
