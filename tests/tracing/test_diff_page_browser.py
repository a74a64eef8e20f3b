"""The comparison page in a real browser: the first difference, its entries, its keys."""

import re
from types import SimpleNamespace

import pytest

import minitorch_attn as mt
from minitorch_attn.tracing.page import diff_page


def attention(scale, steps_more=0):
    """Self-attention whose scores are divided by `scale`, once or several times."""
    mt.manual_seed(0)
    x = mt.randn(5, 4)
    w = mt.randn(4, 4, requires_grad=True)
    factor = mt.tensor([scale])
    with mt.trace(title=f"scale {scale}") as t:
        scores = (x @ w) @ x.transpose(0, 1) / factor
        for _ in range(steps_more):
            scores = scores.tanh()
        (scores.softmax(1) @ x).square().sum().backward()
    return t


@pytest.fixture(scope="module")
def differing():
    found = mt.trace_diff(attention(2.0), attention(2.5))
    document = found.document()
    return SimpleNamespace(document=document, html=diff_page(document))


def pair_of(page):
    """The number of the pair that is shown; the address and the header agree on it."""
    number = int(re.search(r"#pair=(\d+)$", page.evaluate("location.href"))[1])
    total = page.locator("#pairs button").count()
    assert page.locator("#position").inner_text() == f"pair {number} of {total}"
    return number


def test_it_opens_at_the_first_difference(visit, differing):
    page, document = visit(differing.html), differing.document
    current = page.locator("#pairs [aria-current]")
    numbers = f"{document['mine_step']} | {document['reference_step']}"
    assert numbers in current.inner_text()
    assert "first difference" in current.inner_text()
    assert page.locator("#pair-title").inner_text().startswith("First difference: ")
    assert document["report"].splitlines()[0] in page.locator("#verdict").inner_text()
    assert page.locator("#pairs button").count() == len(document["pairs"])


def test_the_marks_of_the_list_are_those_of_the_document(visit, differing):
    page = visit(differing.html)
    marks = [mark.inner_text() for mark in page.locator(".sign-mark").all()]
    assert marks == ["=" if state == "same" else "≠" for *_, state in differing.document["pairs"]]
    assert "≠" in marks and "=" in marks


def test_mine_reference_and_their_difference(visit, differing):
    page, document = visit(differing.html), differing.document
    row = page.get_by_role("region", name="output c")
    for _ in range(3):  # a button that was pressed is called "Hide table"
        row.locator("button", has_text="Show as table").first.click()
    tables = row.locator("table").evaluate_all(
        """(tables) => tables.map((table) => [...table.querySelectorAll("td")]
            .map((cell) => Number(cell.textContent.replaceAll("−", "-"))))"""
    )
    step = document["mine"]["steps"][document["mine_step"] - 1]
    other = document["reference"]["steps"][document["reference_step"] - 1]
    a = document["mine"]["tensors"][step["outputs"][0]]["values"]
    b = document["reference"]["tensors"][other["outputs"][0]]["values"]
    mine, reference, difference = (table[-25:] for table in tables)
    assert mine == pytest.approx(a, rel=1e-3)
    assert reference == pytest.approx(b, rel=1e-3)
    assert difference == pytest.approx([x - y for x, y in zip(a, b, strict=True)], rel=1e-3)
    worst = max(range(25), key=lambda i: abs(a[i] - b[i]))
    assert f"Worst entry [{worst // 5}, {worst % 5}]: " in row.inner_text()


@pytest.mark.parametrize("width", [400, 1280])
def test_a_legend_says_what_the_colours_mean(visit, differing, width):
    page, document = visit(differing.html, width=width), differing.document
    row = page.get_by_role("region", name="output c")
    legends = row.locator(".one-scale")
    words = [legend.locator(".soft").inner_text() for legend in legends.all()]
    assert words == ["mine and reference", "mine \u2212 reference"]
    bounds = [
        float(re.search(r"to ([\d.]+), on a square-root", legend.text_content())[1])
        for legend in legends.all()
    ]
    step = document["mine"]["steps"][document["mine_step"] - 1]
    other = document["reference"]["steps"][document["reference_step"] - 1]
    a = document["mine"]["tensors"][step["outputs"][0]]["values"]
    b = document["reference"]["tensors"][other["outputs"][0]]["values"]
    worst = max(abs(x - y) for x, y in zip(a, b, strict=True))
    assert bounds == pytest.approx([max(map(abs, [*a, *b])), worst], rel=1e-2)
    for legend in legends.all():
        colours = legend.locator("canvas").evaluate(
            """(canvas) => {
              const y = Math.round(canvas.height / 5);
              const row = canvas.getContext("2d").getImageData(0, y, canvas.width, 1).data;
              const at = (share) => 4 * Math.round(share * canvas.width);
              return [0.15, 0.5, 0.85].map((share) => [...row.slice(at(share), at(share) + 3)])
                .map(String);
            }"""
        )
        assert len(set(colours)) == 3  # below, at and above 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    single = page.get_by_role("region", name="input b")
    assert single.locator(".one-scale").count() == 0  # a number has no colour


def test_keys_go_through_pairs_and_differences(visit, differing):
    page = visit(differing.html)
    first, pairs = pair_of(page), differing.document["pairs"]
    page.keyboard.press("Home")
    assert pair_of(page) == 1
    page.keyboard.press("ArrowRight")
    assert pair_of(page) == 2
    page.keyboard.press("n")
    assert pair_of(page) == first
    page.keyboard.press("End")
    assert pair_of(page) == len(pairs)
    page.keyboard.press("d")
    assert pair_of(page) == first
    agreeing = next(i for i in range(first, len(pairs)) if pairs[i][2] == "same") + 1
    page.locator("#pairs button").nth(agreeing - 1).click()
    assert page.locator("#pair-title").inner_text() == "These steps agree"
    assert "No entry differs." in page.locator("#pair").inner_text()
    page.keyboard.press("ArrowDown")
    assert pair_of(page) == agreeing + 1


def test_steps_of_one_recording_only_stand_where_they_ran(visit):
    document = mt.trace_diff(attention(2.0, steps_more=1), attention(2.0)).document()
    page = visit(diff_page(document))
    assert page.locator("#pair-title").inner_text() == "First difference: only in mine"
    rows = [row.inner_text().split() for row in page.locator("#pairs button").all()]
    mine = [int(row[1]) for row in rows if row[1] != "–"]
    assert mine == list(range(1, len(document["mine"]["steps"]) + 1))
    totals = [len(document[name]["steps"]) for name in ("mine", "reference")]
    counts = page.locator("#counts").inner_text()
    assert counts == "mine ({} steps) | reference ({} steps)".format(*totals)
    assert "This recording has no such step." in page.locator("#pair").inner_text()


def test_equal_recordings(visit):
    document = mt.trace_diff(attention(2.0), attention(2.0)).document()
    page = visit(diff_page(document))
    assert page.locator(".pair.differs").count() == 0
    assert page.locator("#verdict .agree").is_visible()
    assert pair_of(page) == 1


def test_nothing_is_wider_than_a_narrow_screen(visit, differing):
    page = visit(differing.html, width=400)
    for _ in differing.document["pairs"]:
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
