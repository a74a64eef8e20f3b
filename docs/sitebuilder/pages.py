"""What is in a Markdown page besides text: code that runs, and names with a place."""

import contextlib
import io
import linecache
import re

EXECUTED = re.compile(r"^```\{executed\}\n(.*?)^```$", re.M | re.S)


WHERE = re.compile(r"\{where\}`(?:[^`<]*<)?([^`>]+)>?`")


def blocks(page):
    """The executed code of a Markdown page, block by block."""
    return EXECUTED.findall(page)


def names(page):
    """The names that a page gives the places of."""
    return WHERE.findall(page)


def run(code, namespace, file="<page>", line=1):
    """What `code` prints, run in `namespace`; messages say that it begins at `line` of `file`."""
    printed = io.StringIO()
    code = "\n" * (line - 1) + code
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    with contextlib.redirect_stdout(printed):
        exec(compile(code, file, "exec"), namespace)
    return printed.getvalue()
