"""Visualization: figures drawn with matplotlib, which is imported on first use."""

from .accuracy import accuracy_figure
from .attention import attention_figure, attention_maps
from .captions import caption_figure
from .collapse import collapse_figure
from .cross_attention import cross_attention_figure
from .detection import detections_figure, query_boxes_figure
from .images import image_rows_figure
from .loss import loss_figure
from .masks import masks_figure
from .memory import memory_figure
from .messages import messages_figure
from .passes import passes_figure
from .pipeline import pipeline_figure
from .positions import position_similarity_figure, sinusoidal_figure
from .rollout import attention_rollout, class_attention_figure
from .roofline import roofline_figure
from .sound import ctc_figure, sound_figure, time_attention_figure
from .superposition import (
    dimensionality_figure,
    feature_directions_figure,
    superposition_figure,
)
from .transport import transport_figure
from .windows import relative_index_figure, windows_figure
from .words import meanings_figure, word_map_figure

__all__ = [
    "accuracy_figure", "attention_figure", "attention_maps", "attention_rollout", "caption_figure",
    "class_attention_figure", "collapse_figure", "cross_attention_figure", "ctc_figure",
    "detections_figure",
    "dimensionality_figure", "feature_directions_figure", "image_rows_figure", "loss_figure",
    "masks_figure", "meanings_figure", "memory_figure", "messages_figure",
    "passes_figure", "pipeline_figure", "position_similarity_figure", "query_boxes_figure",
    "relative_index_figure",
    "roofline_figure", "sinusoidal_figure", "sound_figure", "superposition_figure",
    "time_attention_figure", "transport_figure", "windows_figure", "word_map_figure",
]  # fmt: skip
