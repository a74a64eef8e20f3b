"""Equivalent forms of a computation, such as `(q / 3) @ k` and `(q @ k) / 3`.

Their intermediate values differ, but their results agree.

A detour is a step that differs, or occurs in only one recording, but does not change the result.
To recognize a detour, look at the steps that use its outputs: each of them must be a detour as
well, or have inputs that agree with those of the matching step in the other recording.
"""

from .steps import Entry

__all__ = ["detours"]


def detours(steps, agrees, given, loose):
    """Find the detours: steps that differ between the recordings but lead to the same result.

    Parameters
    ----------
    steps : list of Step
        Steps in the order in which they ran.
    agrees : set of int
        Numbers of the steps that agree with the other recording.
    given : set of int
        Numbers of the steps whose inputs agree.
    loose : set of int
        Numbers of the steps that occur in only one recording and whose results may be unused.

    Returns
    -------
    set of int
        Numbers of the detour steps.
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
    """Map the id (`number`) of each Entry to the set of ids of the steps that use this Entry.

    A step can use an Entry directly, or use a sum of gradients in which the Entry is a term.
    """
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
