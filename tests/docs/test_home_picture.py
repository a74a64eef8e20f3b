"""The picture of the home page is what its program draws, with today's formulas."""

import re

from sitebuilder import home_picture as home

TEXT = home.PICTURE.read_text(encoding="utf-8")
ANSWER = "2017-06-12"


def weights_of(text):
    """The weights of a picture in percent, row by row."""
    found = [[0] * len(home.SOURCE) for _ in ANSWER]
    pattern = r'class="cell" x="(\d+)" y="(\d+)".*?fill-opacity="([\d.]+)"'
    for x, y, share in re.findall(pattern, text):
        row, column = (int(y) - home.TOP) // home.CELL, (int(x) - home.LEFT) // home.CELL
        found[row][column] = round(100 * float(share))
    return found


def test_the_picture_is_drawn_by_the_program():
    assert TEXT == home.svg(home.SOURCE, ANSWER, weights_of(TEXT)), (
        "the formulas or the program have changed: sitebuilder/home_picture.py says what to do"
    )


def test_rows_are_weights():
    for row in weights_of(TEXT):
        assert 60 < sum(row) <= 102  # the rest is on the end token, or rounded to 0


def test_the_formulas_are_those_of_softmax():
    forward, backward = home.formulas()
    assert forward == "y = exp(x) / sum(exp(x))"
    assert backward == "grad_x = y * (grad_y - sum(grad_y * y))"
    assert backward in TEXT and home.verdict() == "ok"


def test_it_has_a_name_and_loads_nothing():
    assert 'role="img"' in TEXT and "aria-label" in TEXT
    assert set(re.findall(r"(?:href|url|src)\W", TEXT)) == set()
