"""Formulas as plain text with the same meaning."""

import pytest

from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.course.math_text import markdown_for_terminal, unicode_math

FORMULAS = [
    (r"\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V", "softmax(QKᵀ/√(dₖ))V"),
    (r"\frac{\partial L}{\partial x_j} = y_j\left(g_j - \sum_i g_i y_i\right)",
     "(∂L)/(∂xⱼ) = yⱼ(gⱼ - ∑ᵢ gᵢ yᵢ)"),
    (r"(\tfrac12, \tfrac12)", "(1/2, 1/2)"),
    (r"\lambda\theta_{t-1} + \beta_2", "λθₜ₋₁ + β₂"),
    (r"10000^{2i/d}", "10000^(2i/d)"),
    (r"x^2 + W^O", "x² + Wᴼ"),
    (r"\log \sum_j e^{x_j - m}", "log ∑ⱼ e^(xⱼ - m)"),
    (r"\hat{y} \in \mathbb{R}^{n \times d}", "ŷ ∈ ℝ^(n × d)"),
    (r"a \\ b", "a\nb"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "( 1 2\n3 4 )"),
    (r"f'(x) \le -\infty", "f′(x) ≤ -∞"),
    (r"\sqrt[3]{x}", "³√x"),
    (r"\mathcal{O}(n^2 d)", "O(n² d)"),
]  # fmt: skip


@pytest.mark.parametrize(("latex", "text"), FORMULAS, ids=[text for _, text in FORMULAS])
def test_a_formula(latex, text):
    assert unicode_math(latex) == text


@pytest.mark.parametrize("latex", [r"\frac{a}", "{", "}", "^", "_", "\\", r"\sqrt", r"\left("])
def test_a_broken_formula_does_not_stop_a_lesson(latex):
    assert isinstance(unicode_math(latex), str)


def test_formulas_in_markdown():
    text = "Costs $5 and $6: `$x$`, $x_i$\n\n$$y = x^2$$\n\n```\n$x$\n```\n"
    found = markdown_for_terminal("The sum $\\sum_i x_i$.")
    assert found == "The sum `∑ᵢ xᵢ`."
    found = markdown_for_terminal(text.replace("Costs $5 and $6: ", ""))
    assert "`$x$`" in found and "`xᵢ`" in found and "```text\ny = x²\n```" in found
    assert "```\n$x$\n```" in found


def test_no_lesson_leaves_a_command_of_latex():
    for lesson in lessons():
        for cell in lesson.cells:
            if cell.kind == "markdown" and "$" in cell.text:
                text = markdown_for_terminal(cell.text)
                assert "\\" not in text.replace("`\\", "").replace("\\n", ""), lesson.path.name
