"""Lesson pages contain the lesson's code and text, and offer the lesson for download."""

import ast
import json
import re
import types
import zipfile

import pytest

from minitorch_attn.course.lesson_list import Lesson, lessons
from minitorch_attn.course.notebooks import notebook

pytest.importorskip("mistune", reason="needs the docs extra: pip install -e '.[docs]'")
lesson_pages = pytest.importorskip("sitebuilder.lesson_pages")
lesson_folds = pytest.importorskip("sitebuilder.lesson_folds")
restructured = pytest.importorskip("sitebuilder.restructured")
to_rst, plain = restructured.to_rst, restructured.plain

LESSONS = lessons()


def code_of(script):
    """The code of a script in sphinx-gallery's format, as syntax."""
    tree = ast.parse(script)
    return [ast.unparse(node) for node in tree.body]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_the_code_of_a_lesson_is_unchanged(lesson):
    _, *ours = code_of(lesson_pages.gallery_script(lesson))  # the first is the text of the header
    assert ours == code_of(lesson.path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_comments_at_the_top_of_a_cell_stay_code(lesson, tmp_path):
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    path = tmp_path / lesson.path.name
    path.write_text(lesson_pages.gallery_script(lesson), encoding="utf-8")
    _, found = parser.split_code_and_text_blocks(str(path))
    code = [block[1].strip() for block in found if block[0] == "code"]
    cells = [cell.text.strip() for cell in lesson.cells if cell.kind == "code"]
    assert code == cells


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_the_text_is_restructured_text_without_complaint(lesson):
    core = pytest.importorskip("docutils.core")
    for cell in lesson.cells:
        if cell.kind == "markdown":
            rst = to_rst(cell.text).replace(":doc:", ":title-reference:")
            rst = rst.replace(".. code-block::", ".. code::")
            core.publish_doctree(rst, settings_overrides={"halt_level": 2, "report_level": 5})


def test_the_path_to_a_gpt_is_a_page():
    readme = (LESSONS[0].path.parent / "README.md").read_text(encoding="utf-8")
    page = lesson_pages.path_page(readme)
    title, underline = page.split("\n")[:2]
    assert title.startswith("The path") and underline == "=" * len(title)
    assert page.count(" step ") >= 8 and "the guide <build.html>`__" in page
    assert len(re.findall(r"<lessons/\d\d_\w+>`", page)) == 8


def test_headings():
    assert to_rst("# One `x`\n\n## Two").split("\n") == [
        r"One \ ``x``",
        "=" * len(r"One \ ``x``"),
        "",
        "Two",
        "----",
    ]


def test_markup_within_words():
    rst = to_rst("`d`s, **all**of, $a_i$th, a*b, c_, |d|")
    assert rst == (
        r"``d``\ s, \ **all**\ of, \ :math:`a_i`\ th, a\*b, c\_, \|d\|"
    )  # fmt: skip


def test_a_formula_may_go_on_in_the_next_line():
    assert to_rst("of $a =\nb$, and $c$") == r"of \ :math:`a = b`\ , and \ :math:`c`"
    assert to_rst("5 $ and 6 $") == "5 $ and 6 $"


def test_markup_at_the_end_of_a_line_does_not_join_the_lines():
    assert to_rst("of `a`\n`b` and") == "of \\ ``a``\n``b``\\  and"


def test_formulas_code_lists_and_tables():
    rst = to_rst(
        "$$\na = b\n$$\n\n```python\nx = 1\n```\n\n1. one\n   more\n2. two\n   - three\n\n"
        "| a | b |\n|---|---|\n| $x$ | `y` |\n"
    )
    assert ".. math::\n\n   a = b\n" in rst
    assert ".. code-block:: python\n\n   x = 1\n" in rst
    assert "1. one\n   more\n" in rst and "2. two\n" in rst and "   * three\n" in rst
    assert "   * - a\n     - b\n   * - :math:`x`\n     - ``y``" in rst


def test_a_formula_within_a_paragraph_gets_its_own_lines():
    assert to_rst("so that $$a$$ holds").split("\n") == [
        "so that", "", ".. math::", "", "   a", "", "holds",
    ]  # fmt: skip


def test_links_to_lessons_become_links_to_pages():
    assert to_rst("[softmax](05_softmax.py)") == ":doc:`softmax <05_softmax>`"
    assert to_rst("[paper](https://arxiv.org)") == "`paper <https://arxiv.org>`__"


@pytest.mark.parametrize("text", ["<pad> is a token", "<table></table>", "![a](b.png)"])
def test_what_would_be_lost_is_refused(text):
    with pytest.raises(restructured.UnknownMarkdownError):
        to_rst(text)


def test_plain_words():
    assert plain("Why `divide` by $\\sqrt{d}$,\n*really*?") == r"Why divide by \sqrt{d}, really?"


def test_answers_are_folded():
    folded = lesson_pages._folded("## Answers\n\n1. Yes.", "answers")
    assert "<summary>Answers</summary>" in folded and "1. Yes." in folded
    assert folded.endswith("</details>")


LESSON = """# %% [markdown]
# # Twice
#
# What is twice as much?

# %% [markdown] tags=["your-turn"]
# ## Your turn: twice
#
# Write `double(x)`.
#
# *Hint:* Add.

# %% tags=["answer"]
def double(x):
    \"\"\"Return 2 x.\"\"\"
    return x + x


# %% tags=["check"]
check(double)

# %% tags=["plot"]
show(figure, "a line")

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# How many?

# %%
print(5)

# %% tags=["plot"]
show(figure, "five")

# %% [markdown]
# Five.
#
# ## More
#
# And more.

# %%
print(6)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "01_twice.py").write_text(LESSON)
    return lesson_pages.gallery_script(Lesson(tmp_path / "01_twice.py"))


def test_the_answer_is_filled_in_and_noted_to_be_folded(script):
    parts = [
        "Your turn: twice", ".. code-block:: python", "raise NotImplementedError",
        "<details class='hint'><summary>Hint</summary>", "# Add.", "</details>",
        "<!-- fold code: Answer -->", "%%\n\ndef double(x):\n", "    return x + x",
        "<!-- fold code: Check -->", "check(double)",
        "<!-- fold code: Code of the figure -->", "show(figure, \"a line\")",
    ]  # fmt: skip
    places = [script.index(part) for part in parts]
    assert places == sorted(places) and "*Hint" not in script


def test_what_is_to_be_predicted_is_folded_with_its_explanation(script):
    parts = [
        "How many?", "<!-- fold output: Run -->", "print(5)", "show(figure, \"five\")", "# Five.",
        "<!-- fold end:", "# More", "print(6)",
    ]  # fmt: skip
    places = [script.index(part) for part in parts]
    assert places == sorted(places) and script.count("<!-- fold output") == 1


def page(*body):
    """A page as sphinx-gallery makes it, folded: its elements as text."""
    nodes = pytest.importorskip("docutils.nodes")
    utils = pytest.importorskip("docutils.utils")

    class Image(nodes.General, nodes.Element):
        """Like the class of sphinx-gallery's pictures."""

    Image.__name__ = "imgsgnode"
    doctree = utils.new_document("page")
    section = nodes.section()
    doctree += section
    for kind, text in body:
        if kind == "image":
            section += Image()
        else:
            name = nodes.raw if kind == "raw" else nodes.literal_block
            section += name(text, text, **({"format": "html"} if kind == "raw" else {}))
            section[-1]["classes"] = ["sphx-glr-script-out"] if kind == "output" else []
    app = types.SimpleNamespace(env=types.SimpleNamespace(docname="lessons/01_twice"))
    lesson_folds.fold(app, doctree)
    return [node.astext() or type(node).__name__ for node in section]


def test_the_next_code_is_folded():
    note = "<!-- fold code: Answer -->"
    found = page(("code", "x"), ("raw", note), ("code", "y"), ("output", "1"))
    begin = "<details class='code'><summary>Answer</summary>"
    assert found == ["x", begin, "y", "</details>", "1"]


def test_the_output_is_folded_up_to_the_end():
    begin, end = "<!-- fold output: Run -->", "<!-- fold end:  -->"
    found = page(("raw", begin), ("code", "y"), ("output", "1"), ("raw", end), ("code", "z"))
    begin = "<details class='output'><summary>Run</summary>"
    assert found == ["y", begin, "1", "</details>", "z"]


def test_captions_are_below_their_figures():
    output = "before\nFigure 1.1: one\nFigure 1.2: two\nafter"
    found = page(("code", "x"), ("image", ""), ("image", ""), ("output", output))
    one, two = "Figure 1.1 one", "Figure 1.2 two"
    assert found == ["x", "imgsgnode", one, "imgsgnode", two, "before\nafter"]
    found = page(("code", "x"), ("image", ""), ("output", "Figure 1.1: one"))
    assert found == ["x", "imgsgnode", one]
    assert page(("code", "x"), ("output", "Figure 1.1: one")) == ["x", "Figure 1.1: one"]


def test_downloads_are_the_lesson_and_its_notebook(tmp_path):
    pytest.importorskip("nbformat")
    lesson_pages.replace_downloads(LESSONS[0].path.parent, tmp_path)
    for lesson in LESSONS:
        script = tmp_path / lesson.path.name
        assert script.read_bytes() == lesson.path.read_bytes()
        book = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
        assert len(book["cells"]) == len(notebook(lesson).cells)
        with zipfile.ZipFile(script.with_suffix(".zip")) as both:
            assert both.read(script.name) == lesson.path.read_bytes()
            assert json.loads(both.read(f"{script.stem}.ipynb")) == book


def test_pages_of_lessons_that_are_no_more_go(tmp_path):
    for name in ("77_gone.py", "77_gone.rst", "index.rst"):
        (tmp_path / name).write_text("", encoding="utf-8")
    lesson_pages.remove_old_pages(LESSONS[0].path.parent, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.rst"]
