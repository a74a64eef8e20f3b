"""Pictures, drawn with matplotlib, which is imported when the first one is drawn."""

from .attention import attention_figure, attention_maps
from .loss import loss_figure

__all__ = ["attention_figure", "attention_maps", "loss_figure"]
