"""Folds of lesson pages: collapse code or output, and put captions below figures.

sphinx-gallery puts the code and the output of each cell on the page. `marker` returns a marker, an
HTML comment to put before a cell that is to be folded. `fold` replaces the marker with a <details>
element around the code or the output, which the reader opens with a click.
"""

import re

from docutils import nodes

_MARKER = re.compile(r"<!-- fold (code|output|end): (.*) -->")
_CAPTION = re.compile(r"Figure \d+\.\d+: .*")


def marker(what, summary):
    """Return a marker as reStructuredText; `what` is "code", "output" or "end".

    "code" folds the code of the next cell. "output" folds its output and everything up to the next
    "end" marker.
    """
    return f".. raw:: html\n\n   <!-- fold {what}: {summary} -->"


def fold(app, doctree):
    """Replace the markers of a lesson page with <details> elements; put captions below figures."""
    if not app.env.docname.startswith("lessons/"):
        return
    for note in list(doctree.findall(nodes.raw)):
        found = _MARKER.fullmatch(note.astext().strip())
        if found:
            _fold(note, *found.groups())
    for output in list(doctree.findall(nodes.literal_block)):
        if "sphx-glr-script-out" in output["classes"]:
            _put_captions_below_figures(output)


def _fold(note, what, summary):
    """Remove a marker, and insert the <details> tags that it stands for."""
    end = nodes.raw("", "</details>", format="html")
    if what == "end":
        note.parent.replace(note, end)
        return
    start = nodes.raw("", f"<details class='{what}'><summary>{summary}</summary>", format="html")
    code = note.next_node(nodes.literal_block, descend=False, siblings=True, ascend=True)
    note.parent.remove(note)
    place = code.parent.index(code)
    if what == "code":
        code.parent.insert(place + 1, end)
        code.parent.insert(place, start)
    else:
        code.parent.insert(place + 1, start)


def _put_captions_below_figures(output):
    """Move caption lines such as "Figure 9.2: ..." out of an output and below their figures."""
    lines = output.astext().splitlines()
    captions = [line for line in lines if _CAPTION.fullmatch(line)]
    if not captions:
        return
    images = []
    parent, before = output.parent, output.parent.index(output) - 1
    while before >= 0 and not isinstance(parent[before], nodes.literal_block):
        images[:0] = list(parent[before].findall(_is_image))
        before -= 1
    if len(images) != len(captions):
        return  # the captions stay in the output
    for image, caption in zip(images, captions, strict=True):
        label, _, text = caption.partition(": ")
        paragraph = nodes.paragraph("", "", nodes.strong("", label), nodes.Text(f" {text}"))
        paragraph["classes"].append("figure-caption")
        image.parent.insert(image.parent.index(image) + 1, paragraph)
    rest = "\n".join(line for line in lines if line not in captions).strip("\n")
    if rest:
        new = nodes.literal_block(rest, rest, **output.attributes)
        parent.replace(output, new)
    else:
        parent.remove(output)


def _is_image(node):
    return type(node).__name__ in ("imgsgnode", "image")
