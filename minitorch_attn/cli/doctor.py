"""`mta doctor`: what of this machine and this installation works, and what to do about the rest."""

import json

import click

from . import DONE, FAILED
from .console import console

__all__ = ["doctor"]

_MARKS = {"ok": "ok", "optional": "without", "missing": "missing"}
_STYLES = {"ok": "green", "optional": "yellow", "missing": "bold red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def doctor(as_json):
    """Check Python, NumPy, the GPU, the sandbox, folders and packages.

    Each line is ok, missing (needed) or without (optional), with what to do about it. Exit
    status 1 if something needed is missing.
    """
    from ..course.doctor import checks

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
    out.print("\n" + (f"{count} missing" if count else "nothing that is needed is missing"))
    return FAILED if failed else DONE
