"""Function bodies are removed by position; everything else stays unchanged."""

import ast

import pytest

from minitorch_attn.errors import ArgumentError
from minitorch_attn.grader.build.blank import (
    Target,
    bare,
    blank,
    code_lines,
    functions,
    replace_body,
)

SOURCE = '''"""A module."""

from ..errors import ShapeError


class Square:
    """y = x^2."""

    @staticmethod
    def forward(ctx, x, *, axis=(-1, 0)):  # noqa
        # x: (..., n)
        y = x * x  # (..., n) squared
        hint = "keeps # this"  # not a shape

        def inner():
            return y

        return inner()

    def documented(
        self, x
    ):
        """Text.

        More text.
        """
        if x:
            return "x # y"  # (a, b)
        return None


def after(x):
    return x + 1
'''


def test_the_signature_the_docstring_and_the_shapes_stay():
    text = blank(SOURCE, "minitorch_attn.ops.m", {"Square.forward": None})
    start = text.index("    @staticmethod")
    assert text[start : text.index("    def documented")] == (
        "    @staticmethod\n"
        "    def forward(ctx, x, *, axis=(-1, 0)):  # noqa\n"
        "        # x: (..., n)\n"
        "        # (..., n) squared\n"
        '        raise NotYetWritten("Square.forward")\n'
        "\n"
    )
    assert "from ..errors import NotYetWritten\n" in text
    untouched = text[text.index("    def documented") :]
    assert untouched == SOURCE[SOURCE.index("    def documented") :]


def test_a_docstring_stays():
    text = blank(SOURCE, "minitorch_attn.m", {"Square.documented": None, "after": "return None"})
    assert '        """Text.\n\n        More text.\n        """\n        # (a, b)\n' in text
    assert 'raise NotYetWritten("Square.documented")' in text
    assert text.endswith("def after(x):\n    return None\n")
    assert "from .errors import NotYetWritten\n" in text


def test_no_import_is_added_where_nothing_raises():
    text = blank(SOURCE, "minitorch_attn.m", {"after": "return x"})
    assert "NotYetWritten" not in text


def test_what_is_left_can_be_compiled():
    bodies = dict.fromkeys(functions(SOURCE))
    tree = ast.parse(blank(SOURCE, "minitorch_attn.ops.m", bodies))
    raises = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    assert len(raises) == 3  # the inner function is gone with its body


def test_the_lines_of_a_body():
    assert code_lines(SOURCE, "Square.documented") == ["if x:", 'return "x # y"', "return None"]
    assert code_lines(SOURCE, "Square.forward")[:2] == ["y = x * x", 'hint = "keeps # this"']


def test_a_bare_line():
    assert bare('    x  =  "a # b"   # c') == 'x = "a # b"'
    assert bare("# only a comment") == ""


def test_a_body_takes_the_place_of_another():
    text = replace_body(SOURCE, "after", "\ny = 2\nreturn y\n")
    assert text.endswith("def after(x):\n    y = 2\n    return y\n")


def test_functions_without_a_body_are_refused():
    with pytest.raises(ArgumentError, match="does not exist"):
        replace_body(SOURCE, "Square.backward", "pass")
    with pytest.raises(ArgumentError, match="must have a body"):
        replace_body('def f():\n    """Text."""\n', "f", "pass")
    with pytest.raises(ArgumentError, match="start on a new line"):
        replace_body("def f(): return 1\n", "f", "pass")


@pytest.mark.parametrize(
    "text",
    ["numpy.linalg:solve", "minitorch_attn.ops", "minitorch_attn.ops:a b", "minitorch_attn/ops:f"],
)
def test_targets_are_functions_of_the_package(text):
    with pytest.raises(ArgumentError, match="function name is malformed"):
        Target.parse(text)


def test_a_target_knows_its_file():
    target = Target.parse("minitorch_attn.ops.softmax:Softmax.backward")
    assert target.path == "minitorch_attn/ops/softmax.py"
    assert str(target) == "minitorch_attn.ops.softmax:Softmax.backward"
