"""The page of `mta attn` in a browser: where it opens, how it counts, light and dark."""

import re

import numpy as np
import pytest
from browsing import visits

from minitorch_attn.cli.attn_page import attention_page
from minitorch_attn.cli.attn_weights import Look, Part

TOKENS = list("abcdefghijklmnopqrstuvw")


def weights(seed, heads=3):
    """Causal attention weights (head, query, key): nearly uniform; the first row has one key."""
    rows = np.tril(np.random.default_rng(seed).gamma(30.0, size=(heads, 23, 23)))
    return rows / rows.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def look():
    """Layers 2 and 3 of a model. Row 11 of head 1 in layer 3 has half its weight on each of two."""
    found = [Part(f"blocks.{n}.attention", weights(n), TOKENS, TOKENS) for n in (2, 3)]
    found[1].weights[1, 11, :12] = 1e-4
    found[1].weights[1, 11, [4, 7]] = 0.459, 0.54
    return Look("A model reads", found, first=2)


@pytest.fixture
def visit(browser, look, tmp_path):
    """visit("#layer=2", width=400): the page of `look`, which may not complain."""
    path = tmp_path / "attention.html"
    path.write_text(attention_page(look)[0], encoding="utf-8")
    with visits(browser) as visit_page:
        yield lambda address="", height=900, **settings: visit_page(
            path.as_uri() + address, height=height, **settings
        )


def place(page):
    """Layer, head, query and key of the selected weight; address, title and text agree on it."""
    pattern = r"#layer=(\d+)&head=(\d+)&query=(\d+)&key=(\d+)$"
    layer, head, query, key = map(int, re.search(pattern, page.evaluate("location.href")).groups())
    title = page.locator("#which").inner_text()
    assert title == f"layer {layer}, head {head}: blocks.{layer}.attention"
    text = page.locator("#side p").first.inner_text()
    assert text.startswith(f"{TOKENS[query]} ({query}) attends to {TOKENS[key]} ({key}): ")
    pressed = page.locator("[aria-pressed=true]")
    label = f"attention layer {layer}, head {head}, entropy "
    assert pressed.count() == 1 and pressed.get_attribute("aria-label").startswith(label)
    assert pressed.inner_text().startswith(f"head {head}")
    return layer, head, query, key


def wait(page, condition):
    """Wait until a condition holds. The page's policy forbids Playwright's own way of polling."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def brightness(page, row, column):
    """Red + green + blue of a cell of the large map, and of the first tile's first cell."""
    return page.evaluate(
        """([row, column]) => {
            const { cell, left, top } = layout(data.parts[state.part]);
            const sum = (canvas, x, y) => {
                const copy = new OffscreenCanvas(canvas.width, canvas.height);
                const context = copy.getContext("2d", { willReadFrequently: true });
                context.drawImage(canvas, 0, 0);
                const [red, green, blue] = context.getImageData(x, y, 1, 1).data;
                return red + green + blue;
            };
            const scale = window.devicePixelRatio;
            const place = [left + (column + 0.25) * cell, top + (row + 0.25) * cell];
            return [
                sum(big, ...place.map((one) => one * scale)),
                sum(document.querySelector(".heads canvas"), 0, 0),
            ];
        }""",
        [row, column],
    )


def test_it_opens_at_a_row_with_something_to_see(visit):
    page = visit()
    assert place(page) == (3, 1, 11, 7)
    rows = page.locator("#side tr").all_inner_texts()
    assert [row.split()[:2] for row in rows[:2]] == [["h", "(7)"], ["e", "(4)"]]
    assert [float(row.split()[2]) for row in rows[:2]] == pytest.approx([0.54, 0.459], abs=0.002)


def test_an_address_leads_to_its_weight_and_a_wrong_one_stays_inside(visit):
    page = visit("#layer=2&head=2&query=5&key=3")
    assert place(page) == (2, 2, 5, 3)
    page.locator("#big").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert place(page) == (2, 2, 6, 5)
    page.locator(".heads button").first.click()
    assert place(page) == (2, 0, 6, 5)
    page.evaluate("location.hash = '#layer=3&head=99&query=-4&key=x'")
    wait(page, "location.hash.includes('head=2')")
    assert place(page) == (3, 2, 0, 0)
    assert place(visit("#layer=9")) == (3, 1, 11, 7)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_whole_map_fits_into_a_narrow_screen(visit, width):
    page = visit(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("#big").bounding_box()
    assert box["x"] + box["width"] <= width
    page.locator("#big").click(position={"x": box["width"] - 10, "y": box["height"] - 10})
    assert place(page)[2:] == (22, 22)


def test_dark_and_light(visit):
    page, seen = visit(color_scheme="dark"), {}
    for scheme, zero in (("dark", "#1b1f26"), ("light", "#ffffff")):
        page.emulate_media(color_scheme=scheme)
        wait(page, f"shades[0].join() === rgb('{zero}').join()")
        body = page.evaluate("getComputedStyle(document.body).backgroundColor")
        nothing, _ = brightness(page, 11, 20)  # masked
        full, tile = brightness(page, 0, 0)  # a weight of 1
        seen[scheme] = sum(map(int, re.findall(r"\d+", body))), nothing, full, tile
    page_color, nothing, full, tile = seen["dark"]
    assert page_color < 150 and nothing < 150 and full == tile > nothing + 300
    page_color, nothing, full, tile = seen["light"]
    assert page_color > 600 and nothing > 700 and full == tile < nothing - 300
