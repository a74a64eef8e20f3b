"""Mixed precision, `torch.amp`: autocast, GradScaler and float32 master weights."""

from .autocast_mode import autocast, is_autocast_available
from .grad_scaler import GradScaler
from .master_weights import MasterWeights

__all__ = ["GradScaler", "MasterWeights", "autocast", "is_autocast_available"]
