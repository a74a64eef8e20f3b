"""Docstrings have the same meaning on the site as in the file."""

import doctest

import pytest
from sitebuilder import docstrings, names
from sitebuilder.docstrings import prepared


@pytest.mark.parametrize("module", [docstrings, names])
def test_examples(module):
    failed, tried = doctest.testmod(module)
    assert tried and not failed


def test_a_formula_below_text_is_shown_as_it_stands():
    lines = ["With g,", "    a = |b| * c", "    d = e", "and so on."]
    assert prepared(lines) == [
        "With g,", "", "::", "", "    a = |b| * c", "    d = e", "", "and so on.",
    ]  # fmt: skip


def test_stars_and_bars_are_characters():
    assert prepared(["(*, n) and |x|"]) == [r"(\*, n) and \|x\|"]


def test_a_heading_at_the_start_of_a_paragraph_is_emphasized():
    assert prepared(["*Two words.* a * b * c."]) == [r"*Two words.* a \* b \* c."]
    assert prepared(["*a.* b"]) == [r"\*a.\* b"]


def test_code_stays():
    assert prepared(["`f(*args)` and ``|``"]) == ["`f(*args)` and ``|``"]


def test_names_of_parameters_stay_and_their_descriptions_do_not():
    lines = ["Parameters", "----------", "*args : (*, n)", "    Shape (*, n)."]
    assert prepared(lines)[2:] == [r"*args : (\*, n)", r"    Shape (\*, n)."]


def test_examples_stay():
    lines = ["Examples", "--------", ">>> f(*x)", "    |"]
    assert prepared(lines) == lines


def test_continued_lines_of_a_list_are_no_formula():
    lines = ["* one", "    two"]
    assert prepared(lines) == lines
