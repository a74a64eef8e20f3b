"""Training: the training loop, checkpoints, run folders and progress display."""

from .checkpoint import Checkpoints
from .loop import Loop, mean_loss
from .parallel import ThreadSplit
from .progress import Progress
from .run_folder import RunFolder

__all__ = [
    "Checkpoints", "Loop", "Progress", "RunFolder", "ThreadSplit", "mean_loss",
]  # fmt: skip
