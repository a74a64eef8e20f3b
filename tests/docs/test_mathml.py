"""Every formula in the lessons and on the pages converts to MathML."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from sitebuilder.names import ROOT

pytest.importorskip("latex2mathml", reason="needs the docs extra: pip install -e '.[docs]'")
mathml = pytest.importorskip("sitebuilder.mathml")

FILES = [*sorted((ROOT / "lessons").glob("*.py")), *sorted((ROOT / "docs").glob("*.md"))]
DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.S)
INLINE = re.compile(r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\d$])")


def formulas(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("#"))
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    display = DISPLAY.findall(text)
    return [(f, True) for f in display] + [
        (f, False) for f in INLINE.findall(DISPLAY.sub("", text))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_formulas_of_a_file(path):
    for formula, display in formulas(path):
        tree = ElementTree.fromstring(mathml.to_mathml(formula, display))
        text = "".join(tree.itertext())
        assert text.strip() and "\\" not in text.replace("\\u", ""), (formula, text)


def test_there_are_formulas():
    assert sum(len(formulas(path)) for path in FILES) > 20


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match="frobnicate"):
        mathml.to_mathml(r"\frobnicate{x}")


def test_letters_are_no_operators():
    assert "<mo>" not in mathml.to_mathml(r"\partial L / \partial c").replace('<mo lspace="0"', "")


def test_two_lines_are_aligned():
    assert mathml.to_mathml("a &= b \\\\\n c &= d", display=True).count("<mtr>") == 2


def test_the_font_is_there():
    assert mathml.FONT.stat().st_size > 100_000
