"""Utilities for layers: gradient clipping, weight normalization, packed sequences."""

from ...absent_names import absent as _absent
from . import rnn  # noqa: F401
from .clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .vector import parameters_to_vector, vector_to_parameters
from .weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
    "parameters_to_vector", "remove_weight_norm", "vector_to_parameters", "weight_norm",
]  # fmt: skip

__getattr__ = _absent(__name__)
