"""Checks of the learner's functions: the same call, and the library's beside it.

`Check.mine` runs in the child process with the learner's module; `Check.library` in the parent.
"""

from . import models, tensors, training

__all__ = ["CHECKS"]

CHECKS = [*tensors.CHECKS, *models.CHECKS, *training.CHECKS]
