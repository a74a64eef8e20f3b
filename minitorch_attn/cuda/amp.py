"""Stand-in for `torch.cuda.amp`, another name of `mt.amp`."""

from ..amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
