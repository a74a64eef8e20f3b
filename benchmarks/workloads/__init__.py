"""Workloads: each module builds one step in this library, in PyTorch and usually in JAX.

A workload module has a `TITLE` and a dict `ENGINES` (name -> function that builds a `Step`). A
workload is timed only if the results of its engines agree.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Step:
    """One step of a workload in one engine.

    Attributes
    ----------
    run : callable
        Function without arguments that runs one step.
    evidence : callable
        Function that returns {name: NumPy array}, the results and gradients of the last step, for
        the comparison between engines. It is called after one step from the initial state.
    operations : int
        Number of operations in a step, for workloads that report time per operation.
    """

    run: Callable
    evidence: Callable
    operations: int = 1
