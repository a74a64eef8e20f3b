"""Markdown pages: run their `{executed}` code blocks when the site is built."""

import contextlib
import io
import linecache
import re

EXECUTED = re.compile(r"^```\{executed\}\n(.*?)^```$", re.M | re.S)


def blocks(page):
    """Return the code of all {executed} blocks of a Markdown page."""
    return EXECUTED.findall(page)


def run(code, namespace, file="<page>", line=1):
    """Run `code` in `namespace` and return its output. The code starts at `line` of `file`."""
    printed = io.StringIO()
    code = "\n" * (line - 1) + code
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    with contextlib.redirect_stdout(printed):
        exec(compile(code, file, "exec"), namespace)
    return printed.getvalue()
