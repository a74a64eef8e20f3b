"""Utilities for layers: gradient clipping, parameters as one vector, and packed sequences."""

from . import rnn  # noqa: F401
from .clip_grad import clip_grad_norm_, clip_grad_value_, get_total_norm
from .vector import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector",
    "vector_to_parameters",
]  # fmt: skip
