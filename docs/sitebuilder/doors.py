"""Doors (entry points) of the home page: the entries under "Where to start" in README.md.

An entry is a paragraph that starts with a link in bold. `door_cards.py` shows this link and the
first sentence after it.
"""

import re

from .names import ROOT

README = ROOT / "README.md"
_ENTRY = re.compile(
    r"^\*\*\[(?P<title>[^\]]+)\]\((?P<target>[^)]+)\)\.?\*\*\s+(?P<sentence>.+?\.)(?=\s|$)",
    re.M | re.S,
)
# Link target in README.md -> page of the site, if the names differ.
PAGES = {
    "lessons/README.md": "lessons/index.rst",
    "exercises": "exercises.rst",
    "CONTRIBUTING.md": "contributing.md",
}


def doors(readme):
    """Return (title, page, first sentence) of every entry under "Where to start"."""
    start = readme.index("## Where to start")
    section = readme[start : readme.index("\n## ", start)]
    return [
        (
            " ".join(entry["title"].split()),
            PAGES.get(entry["target"], entry["target"].removeprefix("docs/")),
            " ".join(entry["sentence"].split()),
        )
        for entry in _ENTRY.finditer(section)
    ]
