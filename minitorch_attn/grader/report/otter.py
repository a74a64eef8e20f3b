"""Otter-Grader: convert public checks to Otter test files for a release folder."""

import re

__all__ = ["otter", "public_case"]


def otter(entries):
    """Make test files in Otter's format: `tests/qN.py`.

    The tests run in the student's process, without this package's sandbox. Hidden checks are
    omitted.

    Parameters
    ----------
    entries : list of CheckEntry
        All checks of the assignment.

    Returns
    -------
    dict of str to str
        Text of each file, by file name.
    """
    files = {}
    for number, entry in enumerate((e for e in entries if not e.hidden), 1):
        test = {
            "name": f"q{number}", "points": entry.points,
            "suites": [{
                "type": "doctest", "scored": True, "setup": "", "teardown": "",
                "cases": [{"code": public_case(entry.name), "hidden": False, "locked": False}],
            }],
        }  # fmt: skip
        title = re.sub(r"[^\w ,.-]", " ", entry.name)
        files[f"q{number}.py"] = f"# {title}\nOK_FORMAT = True\n\ntest = {_literal(test)}\n"
    return files


def public_case(name):
    """Return the text of a doctest that runs the named public check in the release folder."""
    return (
        ">>> import json, subprocess, sys\n"
        '>>> command = [sys.executable, "check.py", "--json"]\n'
        ">>> done = subprocess.run(command, capture_output=True)\n"
        f'>>> [found] = [r for r in json.loads(done.stdout) if r["name"] == {name!r}]\n'
        '>>> found["status"], found["message"]\n'
        "('passed', '')"
    )


def _literal(value):
    import pprint

    return pprint.pformat(value, width=96, sort_dicts=False)
