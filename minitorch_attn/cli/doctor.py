"""`mta doctor`: check this installation, and say how to fix what does not work."""

import json

import click

from . import DONE, FAILED
from .console import console
from .source_line import Command

__all__ = ["doctor"]

_MARKS = {"ok": "ok", "optional": "without", "missing": "missing"}
_STYLES = {"ok": "green", "optional": "yellow", "missing": "bold red"}


@click.command(cls=Command, calls="cli/doctor_checks.py")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json):
    """Check Python, NumPy, the GPU, the sandbox, folders and packages.

    Each result starts with "ok", "missing" (something required) or "without" (something optional).
    The lines below a result say how to fix it. The exit status is 1 if something is "missing".
    """
    from .doctor_checks import checks

    found = [check() for check in checks()]
    failed = any(result.state == "missing" for result in found)
    if as_json:
        fields = {"ok": not failed, "checks": [result.fields() for result in found]}
        click.echo(json.dumps(fields, indent=1))
        return FAILED if failed else DONE
    out = console()
    width = max(len(result.name) for result in found)
    for result in found:
        out.print(f"{_MARKS[result.state]:<8}", style=_STYLES[result.state], end="")
        out.print(f" {result.name:<{width}}  {result.text}")
        for line in result.remedy.splitlines():
            out.print(f"         {line}")
    count = sum(result.state == "missing" for result in found)
    out.print("\n" + (f"{count} missing" if count else "everything required is available"))
    return FAILED if failed else DONE
