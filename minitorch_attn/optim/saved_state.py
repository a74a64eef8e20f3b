"""Saved state of optimizers and schedules: check the types of its values before loading it."""

import math

from ..errors import CheckpointError
from ..schema import (
    ANY,
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    Kind,
    check,
    list_of,
    map_of,
    number_from,
    optional,
    record,
)  # fmt: skip

__all__ = ["OPTIMIZER", "OPTIONS", "check_like", "check_saved"]

# Infinity is the first `best` of ReduceLROnPlateau.
_NUMBER = Kind("a number", lambda n: NUMBER.accepts(n) or n in (math.inf, -math.inf))
# Options of an optimizer, which divides by 1 - beta^step.
OPTIONS = {
    "betas": list_of(number_from(0, math.nextafter(1, 0)), 2),
    **dict.fromkeys(("lr", "weight_decay", "momentum", "alpha"), NUMBER),
}  # fmt: skip
OPTIMIZER = record({
    "state": Kind("a dict", lambda value: isinstance(value, dict),
                  lambda value: ((key, entry, map_of(ANY)) for key, entry in value.items())),
    "param_groups": list_of(record({"params": list_of(COUNT)})),
})  # fmt: skip


def check_saved(saved, kind, where):
    """Raise a CheckpointError if a saved state does not match a Kind (see `schema.py`)."""
    hint = "pass the result of state_dict()"
    check(saved, kind, f"{where}.load_state_dict", CheckpointError, hint)


def check_like(saved, current, where, others=None):
    """Raise a CheckpointError if a saved value differs in type from the current value.

    Parameters
    ----------
    saved, current : dict
    where : str
        Name of the optimizer or schedule for error messages.
    others : dict of str to Kind, optional
        Kinds, by name, for values that need a stricter check than a comparison of types.
    """
    kinds = {name: _like(value) for name, value in current.items()}
    kinds |= {name: kind for name, kind in (others or {}).items() if current.get(name)}
    check_saved(saved, record({}, kinds), where)


def _like(value):
    if type(value) in (int, float):
        return _NUMBER
    if isinstance(value, list | tuple) and value:
        return list_of(_like(value[0]), len(value))
    return {bool: optional(FLAG), str: TEXT}.get(type(value), ANY)
