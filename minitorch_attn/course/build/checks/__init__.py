"""Checks of the learner's functions: each makes the same call to the library, and compares.

`Check.mine` runs in the child process with the learner's module; `Check.library` in the parent.
"""

from . import models, tensors, training

__all__ = ["CHECKS"]

CHECKS = [*tensors.CHECKS, *models.CHECKS, *training.CHECKS]
