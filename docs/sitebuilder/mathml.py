"""Convert formulas to MathML, which works offline, without scripts and with screen readers."""

import re
from pathlib import Path

import latex2mathml.converter
import ziamath
from docutils import nodes
from sphinx.util import logging

logger = logging.getLogger(__name__)

# The converter treats these letters as operators and puts spaces around them and around slashes.
LETTERS = {"∂": "&#x02202;", "∞": "&#x0221E;"}
SLASH = "<mo>&#x0002F;</mo>"

# The fonts of a browser may lack mathematical characters, so the site contains this font.
FONT = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"


def to_mathml(latex, display=False):
    """Convert a LaTeX formula to MathML.

    >>> to_mathml("x^2").startswith("<math")
    True
    """
    latex = re.sub(r"\s+", " ", latex).strip()
    if display and r"\\" in latex and r"\begin" not in latex:
        latex = rf"\begin{{align*}}{latex}\end{{align*}}"
    latex = re.sub(r"(\\(?:begin|end)){aligned}", r"\1{align*}", latex)  # aligned is unsupported
    mathml = latex2mathml.converter.convert(latex, display="block" if display else "inline")
    for letter in LETTERS.values():
        mathml = mathml.replace(f"<mo>{letter}</mo>", f"<mi>{letter}</mi>")
    mathml = mathml.replace(SLASH, SLASH.replace("<mo>", '<mo lspace="0" rspace="0">'))
    missing = re.findall(r"<m[a-z]+>(\\[a-zA-Z]+|&)</m[a-z]+>", mathml)
    if missing:
        raise ValueError(f"latex2mathml does not support: {', '.join(missing)}")
    return mathml


def _convert(node, display):
    try:
        return to_mathml(node.astext(), display)
    except Exception as error:  # the converter raises errors of many classes
        logger.warning("formula %r: %r", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def visit_inline(translator, node):
    """Write a formula in running text (`:math:`)."""
    translator.body.append(_convert(node, display=False))
    raise nodes.SkipNode


def visit_display(translator, node):
    """Write a displayed formula, in a box that scrolls if the formula is too wide."""
    translator.body.append(f'<div class="formula">{_convert(node, display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
