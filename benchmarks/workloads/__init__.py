"""The workloads: each module builds the same step in this library and in PyTorch.

A workload module has `TITLE`, `ENGINES` (name -> function that builds a `Step`) and `COMPARE`
(the engines whose results must agree before anything is timed).
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Step:
    """One engine's side of a workload.

    Attributes
    ----------
    run : callable
        One step, without arguments.
    evidence : callable
        Returns {name: NumPy array}: the results and gradients of a step that has just run
        from the initial state, for the comparison between engines.
    operations : int
        How many operations a step has, where the workload quotes time per operation; else 1.
    """

    run: Callable
    evidence: Callable
    operations: int = 1
