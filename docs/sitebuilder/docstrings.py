r"""Docstrings: convert this project's plain-text conventions to reStructuredText.

In these docstrings `*` and `|` are plain characters, as in (*, n) and |x|, and an indented block in
running text is a formula or a small table, which is shown as written.
"""

import re

# numpydoc sections in which indentation separates names from descriptions.
LISTS = {
    "Parameters", "Returns", "Yields", "Raises", "Warns", "Attributes", "Methods", "See Also",
    "Other Parameters", "Examples", "References",
}  # fmt: skip


def prepared(lines):
    r"""Convert the lines of a docstring for numpydoc.

    >>> for line in prepared(["Compute", "    y = |x|", "for all (*, n)."]): print(line)
    Compute
    <BLANKLINE>
    ::
    <BLANKLINE>
        y = |x|
    <BLANKLINE>
    for all (\*, n).
    """
    out, section, in_block = [], None, False
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}\s*", below) and line.strip():
            section = line.strip()
        if section in LISTS:
            out.append(_listed(line, section))
            continue
        indented = line.startswith("    ") and line.strip()
        if indented and not in_block:
            if _begins_block(out):
                out += ["", "::", ""]
                in_block = True
        elif in_block and line.strip() and not indented:
            out.append("")
            in_block = False
        out.append(line if in_block else _escaped(line))
    return out


def _begins_block(before):
    """Return True if an indented line after `before` is a formula, not part of a list item."""
    last = next((line for line in reversed(before) if line.strip()), "")
    is_item = re.match(r"\s*([*-]|\d+\.|\.\.)\s", last) or last.startswith(" ")
    return bool(before) and not is_item and not last.endswith("::")


def _listed(line, section):
    """Escape a line of a section such as Parameters: the type or description, but not the name."""
    if section in ("Examples", "References", "See Also"):
        return line
    name, colon, kind = line.partition(" : ")
    if colon and not line.startswith(" "):
        return name + colon + _escaped(kind)
    return _escaped(line) if line.startswith(" ") or section == "Returns" else line


def _escaped(line):
    """Escape `*` and `|`, except in code, in a list item's bullet and around a run-in *Heading.*"""
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    for i in range(0, len(parts), 2):
        item = re.match(r"\s*\* |\*[A-Z][^*]*\.\* ", parts[i]) if i == 0 else None
        start = item.end() if item else 0
        parts[i] = parts[i][:start] + re.sub(r"([*|])", r"\\\1", parts[i][start:])
    return "".join(parts)


def setup(app):
    """Convert every docstring with `prepared` before numpydoc reads it."""

    def prepare(app, what, name, obj, options, lines):
        lines[:] = prepared(lines)

    app.connect("autodoc-process-docstring", prepare, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
