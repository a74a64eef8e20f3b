"""Source links: update the links from Markdown pages to lines of the source.

The title of each link is the dotted name of its target:

    [`ops/softmax.py:52`](../minitorch_attn/ops/softmax.py#L52 "ops.softmax.Softmax.forward")

`make -C docs links` looks up every name, and updates the file and the line of its link. A test
fails if a link is out of date. On the site, these links point to the pages of the source files.
"""

import os
import re
import sys
from pathlib import Path

from .names import ROOT, UnknownNameError, locate

LINK = re.compile(r'\[(?P<label>[^\]]+)\]\([^\s)#]+\.py#L\d+ "(?P<name>[\w.]+)"\)')
ROLE = re.compile(r"\{where\}`(?:(?P<label>[^`<]+?)\s*<)?(?P<name>[\w.]+)>?`")
_PLACE = re.compile(r"`[\w/]+\.py:\d+`")  # a label that is a file and a line


def pages():
    """Return the paths of the Markdown pages that may contain links to the source."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "lessons" / "README.md"]
    return [page for page in found if page.exists()] + sorted((ROOT / "docs").glob("*.md"))


def names(text):
    """Return the dotted names that the text of a page links to."""
    return [match["name"] for match in LINK.finditer(text)]


def refreshed(text, folder):
    """Return the text of a page in `folder` with the current file and line in every link."""
    text = ROLE.sub(lambda match: _link(match["name"], match["label"], folder), text)
    return LINK.sub(lambda match: _link(match["name"], match["label"], folder), text)


def _link(name, label, folder):
    place = locate(name)
    if label is None or _PLACE.fullmatch(label):
        label = f"`{place.short}`"
    elif not label.startswith("`"):
        label = f"`{label}`"
    target = os.path.relpath(ROOT / place.file, folder)
    return f'[{label}]({target}#L{place.line} "{name}")'


def as_roles(text):
    """Replace source links with {where} roles, which the site turns into links to its pages."""

    def role(match):
        label = match["label"].strip("`")
        shown = match["name"] if _PLACE.fullmatch(match["label"]) else f"{label} <{match['name']}>"
        return f"{{where}}`{shown}`"

    return LINK.sub(role, text)


def main():
    """Update the source links in all Markdown pages, and report names that no longer exist."""
    failed = False
    for page in pages():
        before = page.read_text(encoding="utf-8")
        try:
            after = refreshed(before, page.parent)
        except UnknownNameError as error:
            print(f"{page.relative_to(ROOT)}: {error}", file=sys.stderr)
            failed = True
            continue
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{Path(page).relative_to(ROOT)}: updated")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
