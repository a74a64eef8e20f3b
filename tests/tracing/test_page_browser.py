"""The stepper in a real browser: stepping, folding, jumping, searching, accessibility."""

import json
import re
import runpy

import pytest
from browsing import new_tab

import minitorch_attn as mt
from minitorch_attn.tracing.page import page as page_of

WIDTHS = (1280, 400)
NAMED = {
    "application", "button", "checkbox", "complementary", "dialog", "link", "main", "searchbox",
    "slider", "tree", "treeitem", "region", "textbox",
}  # fmt: skip


def step_of(page):
    """The number of the step that is shown; address, heading, scrubber and header agree on it."""
    number = int(re.search(r"#step=(\d+)$", page.evaluate("location.href"))[1])
    heading = page.locator("#step-title").inner_text()
    assert heading.startswith(f"{number} ")
    assert page.locator("#slider").input_value() == str(number)
    last = page.locator("#slider").get_attribute("max")
    assert page.locator("#position").inner_text().startswith(f"step {number} of {last}, ")
    return number


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    return step_of(page)


def steps(recorded, kind="forward", **wanted):
    found = [s for s in recorded.document["steps"] if s["kind"] == kind]
    return [s for s in found if all(s.get(key) == value for key, value in wanted.items())]


def tensor(recorded, number):
    return recorded.document["tensors"][number]


def added_tensors(recorded, added):
    return [tensor(recorded, added[name]) for name in ("before", "contribution", "after")]


def biggest(one):
    return max(map(abs, one["values"]))


def shown(value):
    """A number as the page writes it, back as a number."""
    special = {"∞": float("inf"), "−∞": float("-inf"), "NaN": float("nan")}
    return special[value] if value in special else float(value.replace("−", "-"))


def table_of(card):
    """The rows of the table behind the button of the first heat map in `card`."""
    button = card.locator("button", has_text="Show as table").first
    if button.count():
        button.click()
    return card.locator("table").first.evaluate(
        """(table) => [...table.tBodies[0].rows].map((row) =>
            [...row.querySelectorAll("td")].map((cell) => cell.textContent))"""
    )


def test_it_opens_at_the_first_step(visit, head):
    page = visit(head.html)
    assert page.title() == "One head"
    assert page.locator("#step-title").inner_text() == "1 MatMul"
    last = len(head.document["steps"])
    assert page.locator("#position").inner_text() == f"step 1 of {last}, forward"
    assert page.locator("[role=treeitem]").count() > last


def test_keys_step_both_ways(visit, head):
    page, last = visit(head.html), len(head.document["steps"])
    assert press(page, "ArrowRight", "ArrowRight", "ArrowRight") == 4
    assert press(page, "ArrowLeft") == 3
    assert press(page, "End") == last
    assert press(page, "ArrowRight") == last
    assert press(page, "Home") == 1
    assert press(page, "ArrowLeft") == 1


def test_the_numbers_of_steps_agree(visit, transformer):
    """N steps: End leads to step N of N, and the list has N, forward and backward together."""
    total = len(transformer.document["steps"])
    page = visit(transformer.html)
    assert press(page, "End") == total
    assert page.locator("#position").inner_text() == f"step {total} of {total}, backward"
    tallies = page.locator(".group.pass .tally").all_inner_texts()
    assert sum(int(text.removesuffix(" steps")) for text in tallies) == total
    assert page.locator(".leaf").count() == total


def test_buttons_and_the_range_step_too(visit, head):
    page, last = visit(head.html), len(head.document["steps"])
    page.get_by_role("button", name="Next step").click()
    assert step_of(page) == 2
    page.get_by_role("button", name="Last step").click()
    assert step_of(page) == last
    assert page.get_by_role("button", name="Next step").is_disabled()
    page.get_by_role("button", name="Previous step").click()
    assert step_of(page) == last - 1
    page.locator("#slider").focus()
    assert press(page, "ArrowRight") == last
    page.locator("#slider").fill("4")
    assert step_of(page) == 4


SHOWN = """() => [
    ...[".formula.current", ".source", "#step-title"]
        .map((one) => document.querySelector(one)?.innerText ?? null),
    [...document.querySelectorAll(".source figure mark")].map((mark) => mark.innerText),
]"""


def in_span(place):
    """The parts of the lines of a place that belong to its expression."""
    first, column, last, end = place["span"]
    lines = place["text"][first - place["first"] : last - place["first"] + 1]
    lines[-1] = lines[-1][:end]
    return [lines[0][column:], *(line.strip() for line in lines[1:])]


def test_every_step_shows_its_operation_formula_and_expression(visit, transformer):
    page = visit(transformer.html)
    for step in transformer.document["steps"]:
        formula, source, title, marked = page.evaluate(SHOWN)
        assert title.split()[:2] == [str(step["id"]), step["op"]]
        written = re.sub(r"\W", "", step["formula"])  # superscripts have lost their ^
        assert re.sub(r"\W", "", formula).endswith(written)
        place = step["source"]
        if place is not None:
            assert f"{place['file']}:{place['line']}" in source
            assert marked == in_span(place)
        page.keyboard.press("ArrowRight")


NESTED = """
import minitorch_attn as mt
x, ids = mt.ones(2, 5, 3, requires_grad=True), mt.tensor([0, 2])
w = mt.ones(3, 3)
# Ünïcode in the line before a call: 𝛼 takes four bytes and two UTF-16 units
"𝛼 é"; y = (x[:, 1:] @ w).relu() - (x[:, :-1] @ w).relu()
rows = [y[:, i] * 2.0 for i in range(2)]
z = (
    x[..., None, :2]
    .exp()
    .sum(-1)
)
u = mt.cat(
    [rows[0], x[0, ids]],
    dim=0,
)
"""
WRITTEN = [  # operation, formula, expression, number of its lines
    ("Slice", "y = x[:, 1:]", "x[:, 1:]", 1), ("MatMul", "c = a @ b", "x[:, 1:] @ w", 1),
    ("Relu", "y = max(x, 0)", "(x[:, 1:] @ w).relu()", 1),
    ("Slice", "y = x[:, :-1]", "x[:, :-1]", 1), ("MatMul", "c = a @ b", "x[:, :-1] @ w", 1),
    ("Relu", "y = max(x, 0)", "(x[:, :-1] @ w).relu()", 1),
    ("Sub", "c = a - b", "(x[:, 1:] @ w).relu() - (x[:, :-1] @ w).relu()", 1),
    ("Slice", "y = x[:, 0]", "y[:, i]", 1), ("Mul", "c = a * b", "y[:, i] * 2.0", 1),
    ("Slice", "y = x[:, 1]", "y[:, i]", 1), ("Mul", "c = a * b", "y[:, i] * 2.0", 1),
    ("Slice", "y = x[..., None, :2]", "x[..., None, :2]", 1),
    ("Exp", "y = exp(x)", "x[..., None, :2] .exp()", 2),
    ("Sum", "y = sum(x)", "x[..., None, :2] .exp() .sum(-1)", 3),
    ("Slice", "y = x[0, :]", "x[0, ids]", 1), ("LookUp", "y = x[index_0]", "x[0, ids]", 1),
    ("Cat", "y = the inputs one after the other", "mt.cat( [rows[0], x[0, ids]], dim=0, )", 4),
]  # fmt: skip


def nested(path):
    """The document of a recording of NESTED, which is run from a file."""
    path.write_text(NESTED, encoding="utf-8")
    with mt.trace() as t:
        runpy.run_path(str(path))
    return t.document()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_expression_in_its_line_is_marked_and_slices_are_as_written(visit, tmp_path, width):
    page = visit(page_of(nested(tmp_path / "nested.py")), width=width)
    for number, (op, formula, expression, lines) in enumerate(WRITTEN, 1):
        shown_formula, _, title, marks = page.evaluate(SHOWN)
        assert title.split() == [str(number), op]
        assert shown_formula.strip().endswith(formula)
        assert (" ".join(marks), len(marks)) == (expression, lines)
        assert "slice(" not in page.locator("main").inner_text().lower()
        box = page.locator(".source pre").bounding_box()
        mark = page.locator(".source pre mark").first.bounding_box()
        assert box["x"] < mark["x"] < box["x"] + box["width"]  # scrolled into view
        row = page.locator("[role=treeitem][aria-selected=true]")
        assert expression in row.text_content()
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_document_of_version_1_is_still_shown(visit, head):
    """Its steps count from 0, its places have no span, and their text has three lines."""
    old = json.loads(json.dumps(head.document))
    for step in old["steps"]:
        step["id"] -= 1
        for name in ("of", "inside"):
            step[name] = step[name] - 1 if step.get(name) else None
        for added in step.get("added", ()):
            added["from_step"] = added["from_step"] and added["from_step"] - 1
        for place in filter(None, (step["source"], step["called_at"])):
            at = place["line"] - place["first"]
            place["text"] = place["text"][at - 1 : at + 2]
            del place["span"], place["first"]
    for entry in old["attention"]:
        entry["step"], entry["softmax"] = entry["step"] - 1, entry["softmax"] - 1
    page = visit(page_of({**old, "version": 1}))
    for step in old["steps"]:
        assert step_of(page) == step["id"]
        place, marks = step["source"], page.locator(".source mark")
        if place is not None:  # the whole line is marked
            (text,) = marks.all_inner_texts()
            assert text.split(maxsplit=1) == [str(place["line"]), place["text"][1].strip()]
        page.keyboard.press("ArrowRight")
    assert press(page, "End") == len(old["steps"]) - 1


def test_page_keys_go_by_module(visit, transformer):
    page, recorded = visit(transformer.html), transformer.document["steps"]
    run = [(step["kind"] == "forward", step["module"]) for step in recorded]
    starts = [i + 1 for i in range(1, len(run)) if run[i] != run[i - 1]]
    assert [press(page, "PageDown") for _ in starts[:6]] == starts[:6]
    assert press(page, "PageUp") == starts[4]


def test_f_folds_the_module_and_unfolds_it(visit, transformer):
    page = visit(transformer.html, "#step=7")
    rows = page.locator("[role=treeitem]")
    selected = page.locator("[role=treeitem][aria-selected=true]")
    before = rows.count()
    assert selected.inner_text().split()[0] == "7"
    press(page, "f")
    assert rows.count() < before
    assert selected.get_attribute("aria-expanded") == "false"
    press(page, "f")
    assert rows.count() == before


def test_in_the_tree_arrows_fold_and_move(visit, transformer):
    page = visit(transformer.html, "#step=7")
    page.keyboard.press("t")
    focused = page.locator("[role=treeitem]:focus")
    assert focused.inner_text().split()[0] == "7"
    assert press(page, "ArrowDown") == 8
    assert press(page, "ArrowUp", "ArrowUp") == 6
    for _ in range(20):
        if focused.get_attribute("aria-expanded") is not None:
            break
        page.keyboard.press("ArrowUp")
    before = page.locator("[role=treeitem]").count()
    page.keyboard.press("ArrowLeft")
    assert focused.get_attribute("aria-expanded") == "false"
    assert page.locator("[role=treeitem]").count() < before
    page.keyboard.press("ArrowRight")
    assert page.locator("[role=treeitem]").count() == before
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1


def test_long_recordings_start_folded(visit, swin, transformer):
    assert len(swin.document["steps"]) > 300 > len(transformer.document["steps"])
    page = visit(swin.html)
    assert page.locator("[role=treeitem]").count() < 100
    assert visit(transformer.html).locator("[role=treeitem]").count() > 150
    attention = swin.document["attention"][1]["softmax"]
    page.locator("#slider").fill(str(attention))
    row = page.locator("[role=treeitem][aria-selected=true]")
    assert row.inner_text().split()[0] == str(attention)  # what leads to a step unfolds
    page.locator("#slider").fill("1")
    assert page.locator("[role=treeitem]").count() < 100


def test_g_jumps_to_what_produced_the_gradient(visit, transformer):
    backward = steps(transformer, "backward")
    page = visit(transformer.html)
    seen = 0
    for step in steps(transformer)[::4]:
        makers = [
            one["id"] for one in backward
            if any(added["tensor"] in step["outputs"] for added in one["added"])
        ]  # fmt: skip
        page.locator("#slider").fill(str(step["id"]))
        visited = {press(page, "g") for _ in makers[:1]}
        assert visited == set(makers[:1])
        seen += bool(makers)
    assert seen > 5


def test_g_visits_every_summand_in_turn(visit, transformer):
    summands = {}
    for step in steps(transformer, "backward"):
        for added in step["added"]:
            summands.setdefault(added["tensor"], []).append(step["id"])
    step, made = next(
        (step, summands[step["outputs"][0]]) for step in steps(transformer)
        if len(summands.get(step["outputs"][0], [])) == 3
    )  # fmt: skip
    page = visit(transformer.html, f"#step={step['id']}")
    links = page.locator(".jumps p", has_text="computed by").locator("a")
    assert [link.get_attribute("href") for link in links.all()] == [f"#step={i}" for i in made]
    links.nth(1).click()
    page.wait_for_function(f"location.hash === '#step={made[1]}'")
    assert step_of(page) == made[1]
    page.evaluate("history.back()")
    page.wait_for_function(f"location.hash === '#step={step['id']}'")
    assert step_of(page) == step["id"]


def test_b_goes_to_the_backward_and_returns(visit, transformer):
    page = visit(transformer.html)
    for backward in steps(transformer, "backward")[::9]:
        page.locator("#slider").fill(str(backward["of"]))
        assert press(page, "b") == backward["id"]
        assert press(page, "b") == backward["of"]


def test_search_finds_operations_modules_and_tensors(visit, transformer):
    page = visit(transformer.html)
    page.keyboard.press("/")
    page.keyboard.type("softmax")
    wanted = [s["id"] for s in transformer.document["steps"] if "Softmax" in s["op"]]
    leaves = page.locator("[role=treeitem].leaf")
    numbers = {int(row.inner_text().split()[0]) for row in leaves.all()}
    assert set(wanted) <= numbers
    assert page.locator("#matches").inner_text().startswith(f"{len(numbers)} matches")
    assert press(page, "Enter") == min(numbers)
    assert press(page, "Enter") == sorted(numbers)[1]
    assert press(page, "Shift+Enter") == min(numbers)
    page.keyboard.press("Escape")
    assert leaves.count() > 100
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    assert page.locator("#matches").inner_text() == "No step matches."


def test_numbers_in_cells_and_table_are_the_recorded_ones(visit, head):
    page = visit(head.html)
    card = page.locator(".card.made")
    rows = table_of(card)
    values = tensor(head, steps(head)[0]["outputs"][0])["values"]
    assert [shown(cell) for row in rows for cell in row] == pytest.approx(values, rel=1e-3)
    assert card.locator("caption").inner_text().startswith("output")
    assert card.locator("thead th[scope=col]").count() == 8
    assert card.locator("tbody th[scope=row]").count() == 5
    button = card.get_by_role("button", name=re.compile("^Show as table"))
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    assert not card.locator("table").is_visible()


def test_arrow_keys_read_a_heat_map(visit, transformer):
    step = next(
        s for s in steps(transformer) if len(tensor(transformer, s["outputs"][0])["shape"]) == 3
    )
    output = tensor(transformer, step["outputs"][0])
    page = visit(transformer.html, f"#step={step['id']}")
    card = page.locator(".card.made")
    card.locator(".plot").focus()
    assert press(page, "ArrowDown", "ArrowRight", "ArrowRight") == step["id"]
    width = output["shape"][-1]
    index, value = card.locator(".readout").inner_text().split(" = ")
    assert index == "[0, 1, 2]"
    assert shown(value) == pytest.approx(output["values"][width + 2], rel=1e-4)
    assert page.locator("#live").inner_text() == f"{index} = {value}"
    card.locator("input[type=range]").fill("1")
    card.locator(".plot").focus()
    page.keyboard.press("Home")
    index, value = card.locator(".readout").inner_text().split(" = ")
    row = int(index.split(", ")[1])
    start = (output["shape"][1] + row) * width
    assert shown(value) == pytest.approx(output["values"][start], rel=1e-4)


def pixel(card, row, col):
    """The colour near the corner of a cell, where no number is."""
    place = card.locator(".plot").evaluate(
        """(plot, [row, col]) => {
            const map = [...redrawn].find((drawn) => drawn.plot === plot);
            return [map.left + col * map.width + 2, map.top + row * map.height + 2];
        }""",
        [row, col],
    )
    return card.locator("canvas").evaluate(
        """(canvas, [x, y]) => {
            const copy = new OffscreenCanvas(canvas.width, canvas.height);
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(canvas, 0, 0);
            return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
        }""",
        place,
    )


def test_colours_say_the_sign_and_the_size(visit, head):
    page = visit(head.html)
    card = page.locator(".card.made")
    output = tensor(head, steps(head)[0]["outputs"][0])
    order = sorted(range(40), key=lambda i: output["values"][i])
    low, middle, high = (
        pixel(card, *divmod(i, 8))
        for i in (order[0], min(order, key=lambda i: abs(output["values"][i])), order[-1])
    )
    assert low[2] > low[0] + 60  # blue below 0
    assert high[0] > high[2] + 60  # orange above
    assert max(middle) - min(middle) < 40 < max(low) - min(low)


def test_one_scale_for_a_step_or_one_for_each(visit, transformer):
    linear = steps(transformer, op="Linear")[0]
    page = visit(transformer.html, f"#step={linear['id']}")
    weight = page.locator(".card", has_text="weight").first
    values = tensor(transformer, linear["inputs"][1])["values"]
    largest = divmod(max(range(len(values)), key=lambda i: abs(values[i])), 24)
    pale = pixel(weight, *largest)
    page.get_by_label("own scale for each").check()
    strong = pixel(page.locator(".card", has_text="weight").first, *largest)
    assert max(strong) - min(strong) > max(pale) - min(pale) + 60
    press(page, "ArrowRight")
    assert page.get_by_label("own scale for each").is_checked()


def test_a_gradient_is_shown_as_a_sum(visit, transformer):
    step, added = next(
        (step, added) for step in steps(transformer, "backward")
        for added in step["added"] if added["before"] is not None
    )  # fmt: skip
    page = visit(transformer.html, f"#step={step['id']}")
    cards = page.locator(".equation").first.locator(".card")
    before, contribution, after = (table_of(cards.nth(i)) for i in range(3))
    scale = max(abs(x) for x in tensor(transformer, added["after"])["values"])
    for rows in zip(before, contribution, after, strict=True):
        for a, b, c in zip(*rows, strict=True):
            assert shown(a) + shown(b) == pytest.approx(shown(c), abs=2e-3 * scale)
    signs = page.locator(".equation").first.locator("[role=img]")
    assert [sign.get_attribute("aria-label") for sign in signs.all()] == ["plus", "is"]
    scales = """[...redrawn].filter((map) => map.plot && map.root.closest(".equation"))
        .map((map) => map.bound)"""
    shared = page.evaluate(scales)
    page.get_by_label("own scale for each").check()
    own = page.evaluate(scales)[-len(shared) :]
    assert len(shared) == len(own) == 3
    assert len(set(shared)) == len(set(own)) == 1  # one scale in either case
    largest = max(map(biggest, added_tensors(transformer, added)))
    assert own[0] == pytest.approx(largest, rel=1e-3)


def test_shared_memory_is_said_in_words(visit, head):
    step = next(s for s in steps(head) if s["aliases"])
    page = visit(head.html, f"#step={step['id']}")
    name = step["input_names"][step["aliases"][0][1]]
    assert f"shares memory with input {name}" in page.locator(".card.made").inner_text()
    other = next(s for s in steps(head) if not s["aliases"])
    page.locator("#slider").fill(str(other["id"]))
    assert "shares memory" not in page.locator(".card.made").inner_text()


def test_attention_shows_heads_row_sums_and_the_mask(visit, transformer):
    entry = transformer.document["attention"][0]
    weights = tensor(transformer, entry["weights"])
    batch, heads, queries, keys = weights["shape"]
    page = visit(transformer.html, f"#step={entry['softmax']}")
    view = page.locator(".attention")
    assert f"All {batch * heads * queries} rows sum to 1" in view.inner_text()
    assert view.locator(".tile").count() == batch * heads
    tile = view.get_by_role("button", name=re.compile("^sequence 1, head 2"))
    tile.click()
    pressed = view.locator(".tile[aria-pressed=true]")
    assert pressed.get_attribute("aria-label") == tile.get_attribute("aria-label")
    rows = table_of(view.locator(".detail"))
    start = (heads + 2) * queries * keys
    for row, cells in enumerate(rows):
        own = weights["values"][start + row * keys : start + (row + 1) * keys]
        assert [shown(cell.split()[0]) for cell in cells[:keys]] == pytest.approx(own, rel=1e-3)
        assert [cell.endswith("masked") for cell in cells[:keys]] == [
            col > row for col in range(keys)
        ]
        assert shown(cells[keys]) == pytest.approx(1, abs=1e-3)
    labels = view.locator(".detail tbody th").all()
    assert [label.inner_text() for label in labels] == [f"{i} {c}" for i, c in enumerate("atten␣")]


def test_a_sample_of_the_attention_maps_says_so(visit):
    mt.manual_seed(0)
    attention = mt.nn.Attention(embed_dim=12, num_heads=6)
    with mt.trace() as t:
        attention(mt.randn(8, 40, 12), mask=mt.masks.causal(40))
    document = t.document()
    entry = document["attention"][0]
    steps = document["tensors"][entry["weights"]]["sample"]["steps"]
    page = visit(page_of(document), f"#step={entry['softmax']}")
    view = page.locator(".attention")
    text = view.inner_text()
    assert "8 sequences, 6 heads, 40 queries, 40 keys." in text
    assert f"every {steps[0]}th sequence" in text
    assert "rows shown sum to 1" in text
    cells = table_of(view.locator(".detail"))
    masked = [[cell.endswith("masked") for cell in row[:40]] for row in cells]
    assert masked == [[key > query for key in range(40)] for query in range(40)]


def test_swin_shows_windows_regions_and_who_may_attend(visit, swin):
    entry = next(e for e in swin.document["attention"] if any(e["windows"]["shift"]))
    page = visit(swin.html, f"#step={entry['softmax']}")
    view = page.locator(".windows")
    regions = view.locator("figure", has_text="Regions:")
    regions.locator("summary").click()
    regions.locator("td").first.wait_for()
    cells = [int(cell.inner_text()) for cell in regions.locator("td").all()]
    assert cells == tensor(swin, entry["windows"]["regions"])["values"]
    for window in (0, 3):
        page.get_by_role("button", name=re.compile(f"^window {window}, head 0")).click()
        rows = table_of(view.locator("figure", has_text=f"Mask of window {window}"))
        top, left = divmod(window, 2)
        own = [cells[(4 * top + i) * 8 + 4 * left + j] for i in range(4) for j in range(4)]
        apart = [[a != b for b in own] for a in own]
        assert [[cell.endswith("masked") for cell in row] for row in rows] == apart
        weights = table_of(page.locator(".attention .detail"))
        assert [[cell.endswith("masked") for cell in row[:16]] for row in weights] == apart
    index = table_of(view.locator("figure", has_text="Relative position index"))
    assert [int(row[0]) for row in index[:5]] == [24, 25, 26, 27, 31]


@pytest.mark.parametrize("name", ["head", "transformer", "swin"])
def test_nothing_is_wider_than_a_narrow_screen(visit, request, name):
    recorded = request.getfixturevalue(name)
    page = visit(recorded.html, width=400)
    special = [entry["softmax"] for entry in recorded.document["attention"]]
    for number in [*special, *range(1, len(recorded.document["steps"]) + 1, 7)]:
        page.locator("#slider").fill(str(number))
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, number


def test_on_a_narrow_screen_the_list_of_steps_opens_on_demand(visit, head):
    page = visit(head.html, width=400)
    button = page.get_by_role("button", name="Steps")
    assert not page.locator("#steps").is_visible()
    button.click()
    assert page.locator("#steps").is_visible()
    assert button.get_attribute("aria-expanded") == "true"


@pytest.mark.parametrize("width", WIDTHS)
def test_tab_reaches_everything_and_is_trapped_nowhere(visit, transformer, width):
    entry = transformer.document["attention"][0]
    page = visit(transformer.html, f"#step={entry['softmax']}", width=width)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, summary, [tabindex='0']")]
            .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility()).length"""
    )
    seen = set()
    for _ in range(wanted + 12):
        page.keyboard.press("Tab")
        place = page.evaluate(
            """() => {
                const at = document.activeElement, style = getComputedStyle(at);
                if (at === document.body) return null;
                const outline = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
                return [[...document.querySelectorAll("*")].indexOf(at), outline];
            }"""
        )
        if place is not None:
            assert place[1] >= 2
            seen.add(place[0])
    assert len(seen) >= wanted


@pytest.mark.parametrize("which", ["attention", "sum"])
def test_every_control_has_a_name_for_screen_readers(visit, transformer, which):
    places = {
        "attention": transformer.document["attention"][0]["softmax"],
        "sum": steps(transformer, "backward", op="Embedding")[0]["id"],
    }
    page = visit(transformer.html, f"#step={places[which]}")
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    controls = [node for node in nodes if node.get("role", {}).get("value") in NAMED]
    roles = {node["role"]["value"] for node in controls}
    assert NAMED - {"checkbox", "complementary", "dialog", "region", "textbox"} <= roles
    assert [n for n in controls if not n.get("name", {}).get("value", "").strip()] == []


def test_a_step_is_announced_in_words(visit, transformer):
    page = visit(transformer.html, "#step=4")
    press(page, "ArrowRight")
    step = transformer.document["steps"][4]
    shape = " by ".join(map(str, tensor(transformer, step["outputs"][0])["shape"]))
    said = page.locator("[aria-live=polite]").inner_text()
    assert said.startswith(f"Step 5 of {len(transformer.document['steps'])}, forward: {step['op']}")
    assert said.endswith(f"Output of shape {shape}.")


def test_help_opens_and_closes_by_key(visit, head):
    page = visit(head.html)
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("ArrowRight")  # not while it is open
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    assert page.locator("#slider").input_value() == "1"


def test_dark_and_light(visit, head):
    page = visit(head.html, color_scheme="dark")
    card = page.locator(".card.made")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor"), pixel(card, 0, 0)
    page.emulate_media(color_scheme="light")
    for _ in range(100):  # the heat map follows when the browser tells the page
        if pixel(card, 0, 0) != dark[1]:
            break
        page.wait_for_timeout(50)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor"), pixel(card, 0, 0)
    assert sum(map(int, re.findall(r"\d+", dark[0]))) < 150
    assert sum(map(int, re.findall(r"\d+", light[0]))) > 600
    assert dark[1] != light[1]


def test_an_address_leads_to_its_step_and_a_wrong_one_to_the_first(visit, head):
    assert step_of(visit(head.html, "#step=7")) == 7
    page = visit(head.html, "#step=99999")
    assert page.locator("#step-title").inner_text().startswith("1 ")


def test_texts_of_a_recording_are_never_markup(visit, head):
    attack = "</script><img src=x onerror=alert(1)>"
    tensors = [{**one, "name": attack} for one in head.document["tensors"]]
    page = visit(page_of({**head.document, "title": attack, "tensors": tensors}))
    assert page.locator("h1").inner_text() == attack
    assert page.locator(".tensor-name").first.inner_text() == attack
    assert page.locator("img").count() == 0


def test_the_policy_stops_scripts_and_connections(browser, head, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(head.html.replace("<h1>", "<h1><script>window.hurt = 1</script>"))
    page = new_tab(browser)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert page.evaluate("window.hurt") is None
    blocked = page.evaluate(
        "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.constructor.name)"
    )
    page.close()
    assert blocked == "TypeError"
    assert [url for url in asked if not url.startswith("file://")] == []
