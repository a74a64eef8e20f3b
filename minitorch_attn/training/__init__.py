"""Training: the training loop, checkpoints, run folders and progress display."""

from .checkpoint import Checkpoints
from .loop import Loop, mean_loss
from .parallel import ThreadSplit
from .process_split import ProcessSplit
from .progress import Progress
from .run_folder import RunFolder

__all__ = [
    "Checkpoints", "Loop", "ProcessSplit", "Progress", "RunFolder", "ThreadSplit", "mean_loss",
]  # fmt: skip
