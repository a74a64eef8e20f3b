"""Differences that cancel out: two ways to one result, as (q / 3) @ k and (q @ k) / 3.

A step that differs, or that only one recording has, is a detour if whatever uses its results is
given the same as in the other recording, or is itself part of a detour.
"""

from .steps import Entry

__all__ = ["detours"]


def detours(steps, agrees, given, loose):
    """The steps of one recording that differ from the other and make no difference.

    Parameters
    ----------
    steps : list of Step
        In the order in which they ran.
    agrees : set of int
        Numbers of those that agree with the other recording.
    given : set of int
        Numbers of those whose inputs agree.
    loose : set of int
        Numbers of those that may end in nothing: they have no counterpart, and others follow.

    Returns
    -------
    set of int
        Numbers of steps.
    """
    users = _users(steps)
    found = set()
    for step in reversed(steps):
        if step.number in agrees:
            continue
        uses = [users.get(entry.number, ()) for entry in step.outputs if isinstance(entry, Entry)]
        if step.number not in loose and not (uses and all(uses)):
            continue
        later = {number for some in uses for number in some if number != step.number}
        if all(number in given or number in found for number in later):
            found.add(step.number)
    return found


def _users(steps):
    """Number of an entry -> the steps that use it, also as a part of a sum."""
    users, sums = {}, []
    for step in steps:
        used = [entry for entry in step.inputs if isinstance(entry, Entry)]
        if step.kind == "accumulate":
            used = [step.added[0].contribution]
        for entry in used:
            users.setdefault(entry.number, set()).add(step.number)
        for a in step.added:
            if a.before is not None and step.kind != "accumulate":
                sums.append((a.before.number, a.contribution.number, a.after.number))
    for before, contribution, after in reversed(sums):
        for number in (before, contribution):
            users.setdefault(number, set()).update(users.get(after, ()))
    return users
