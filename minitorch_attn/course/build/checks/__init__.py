"""Checks of the learner's functions: each compares one call with the same call to the library.

`Check.mine` runs in the child process, with the learner's module. `Check.library` runs in the
parent.
"""

from . import models, tensors, training

__all__ = ["CHECKS"]

CHECKS = [*tensors.CHECKS, *models.CHECKS, *training.CHECKS]
