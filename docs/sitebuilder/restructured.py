r"""Convert Markdown to reStructuredText, which sphinx-gallery reads.

The elements that lessons use are supported: headings, paragraphs, lists, tables, quotes, fenced
code, links, emphasis, code and mathematics. Anything else raises an error, so that no text is lost.

>>> print(to_rst("Rows of $W$ are `d`s, *not* words."))
Rows of \ :math:`W`\  are \ ``d``\ s, \ *not*\  words.
"""

import re

import mistune
from mistune.plugins import math

# Underlines of headings, level by level.
UNDERLINES = "=-~^"

# A formula within text. As in a notebook, the formula may continue on the next line.
MATH = (
    r"\$\$(?P<display_formula>(?:[^$\\]|\\.)+?)\$\$|"
    r"\$(?!\s)(?P<formula>(?:[^$\\]|\\.)+?)(?<!\s)\$(?!\d)"
)


def _mathematics(markdown):
    """Plugin for mistune that recognizes displayed formulas and formulas within text."""

    def parse(inline, match, state):
        display = match["display_formula"]
        kind = "inline_math" if display is None else "block_math"
        state.append_token({"type": kind, "raw": display or match["formula"]})
        return match.end()

    math.math(markdown)
    markdown.inline.register("inline_math", MATH, parse, before="link")


_parse = mistune.create_markdown(renderer=None, plugins=[_mathematics, "table"])


def to_rst(markdown):
    """Convert Markdown text to reStructuredText."""
    return "\n".join(_blocks(_parse(markdown))).strip("\n")


def plain(markdown):
    """Return Markdown text without its markup, on one line."""

    def words(tokens):
        for token in tokens:
            if "children" in token:
                yield from words(token["children"])
            elif "raw" in token:
                yield token["raw"]
            elif token["type"] == "softbreak":
                yield " "

    return " ".join("".join(words(_parse(markdown))).split())


class UnknownMarkdownError(ValueError):
    """Raised for a Markdown element that lessons may not use, such as HTML."""


def _chosen(kinds, token):
    """Return the function in `kinds` that converts tokens of this type, or raise an error."""
    if token["type"] not in kinds:
        raise UnknownMarkdownError(f"{token['type']}: {token.get('raw', token)!r}")
    return kinds[token["type"]]


def _blocks(tokens):
    for token in tokens:
        if token["type"] != "blank_line":
            yield from _chosen(_BLOCKS, token)(token)
            yield ""


def _indented(lines, by="   "):
    return [by + line if line else "" for line in lines]


def _heading(token):
    text = _inline(token["children"])
    yield text
    yield UNDERLINES[token["attrs"]["level"] - 1] * max(len(text), 4)


def _paragraph(token):
    """Yield the lines of a paragraph; a formula in `$$` becomes a displayed formula."""
    row = []
    for child in token["children"]:
        if child["type"] == "block_math":
            yield from _running(row)
            yield from ["", *_formula(child), ""]
            row = []
        else:
            row.append(child)
    yield from _running(row)


def _running(children):
    text = _inline(children).strip()
    return [line.strip() for line in text.split("\n")] if text else []


def _formula(token):
    lines = [line for line in token["raw"].strip().split("\n") if line.strip()]
    return [".. math::", "", *_indented(lines)]


def _code(token):
    language = (token.get("attrs") or {}).get("info") or "none"
    language = {"sh": "console", "text": "none"}.get(language, language)
    lines = token["raw"].rstrip("\n").split("\n")
    return [f".. code-block:: {language}", "", *_indented(lines)]


def _list(token):
    ordered, start = token["attrs"]["ordered"], token["attrs"].get("start", 1)
    for number, item in enumerate(token["children"], start):
        mark = f"{number}. " if ordered else "* "
        lines = list(_blocks(item["children"]))
        while lines and not lines[-1]:
            lines.pop()
        yield mark + lines[0]
        yield from _indented(lines[1:], " " * len(mark))
        yield ""


def _quote(token):
    return _indented(list(_blocks(token["children"])))


def _table(token):
    head, *body = token["children"]
    rows = [head["children"]]
    rows += [row["children"] for part in body for row in part["children"]]
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield ""
    for row in rows:
        for column, cell in enumerate(row):
            mark = "   * - " if column == 0 else "     - "
            yield (mark + _inline(cell["children"])).rstrip()


_BLOCKS = {
    "heading": _heading,
    "paragraph": _paragraph,
    "block_text": _paragraph,
    "block_math": _formula,
    "block_code": _code,
    "list": _list,
    "block_quote": _quote,
    "table": _table,
}


def _inline(tokens):
    r"""Convert inline tokens. Remove `\ ` at the ends of a line, where it would join two lines."""
    text = "".join(_chosen(_INLINE, token)(token) for token in tokens)
    return re.sub(r"^\\ |\\ $", "", text, flags=re.M)


def _escaped(text):
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def _markup(text):
    r"""Put `\ ` on both sides of inline markup, so that letters may directly adjoin it."""
    return rf"\ {text}\ "


def _words(token):
    """Return a token's text without markup: reStructuredText cannot nest inline markup."""
    return _escaped("".join(child.get("raw", " ") for child in token["children"]))


def _link(token):
    """Convert a link; a lesson's file and `exercise-NN` become links to pages of the site."""
    text, url = _words(token), token["attrs"]["url"]
    lesson = re.fullmatch(r"(?:\./)?(\d\d_\w+)\.py", url)
    if re.fullmatch(r"exercise-\d\d", url):
        return _markup(f":ref:`{text} <{url}>`")
    return _markup(f":doc:`{text} <{lesson[1]}>`" if lesson else f"`{text} <{url}>`__")


_INLINE = {
    "text": lambda token: _escaped(token["raw"]),
    "softbreak": lambda token: "\n",
    "linebreak": lambda token: "\n",
    "codespan": lambda token: _markup(f"``{token['raw']}``"),
    "inline_math": lambda token: _markup(f":math:`{' '.join(token['raw'].split())}`"),
    "emphasis": lambda token: _markup(f"*{_words(token)}*"),
    "strong": lambda token: _markup(f"**{_words(token)}**"),
    "link": _link,
}
