"""The built site: every page in a browser from file://, every link and anchor, and the search."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from browsing import new_tab

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}

PARTS = 12  # hundreds of pages: no test is to take minutes


class Page(HTMLParser):
    """What a page loads, where it leads, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes.get("id"), attributes.get("name")} - {None}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "link" and attributes.get("rel") not in ("search", "index", "next", "prev"):
            self.loads.append(attributes.get("href", ""))
        if attributes.get(LOADS.get(tag)):
            self.loads.append(attributes[LOADS[tag]])


@pytest.fixture(scope="module")
def parsed(site):
    files = sorted(site.rglob("*.html"))
    files = [path for path in files if "_static" not in path.relative_to(site).parts]
    return {path: Page(path.read_text(encoding="utf-8")) for path in files}


def test_the_pages_are_there(site, parsed):
    names = {path.relative_to(site).as_posix() for path in parsed}
    assert {
        "index.html", "where_is_it.html", "walk.html", "architecture.html", "add_an_op.html",
        "stepper.html", "stepper_gpt.html", "results.html", "benchmarks.html", "search.html",
        "lessons/index.html", "lessons/01_tensors.html", "api/mt.html",
        "api/files/ops.softmax.html", "source/minitorch_attn/ops/softmax.html",
    } <= names  # fmt: skip


def test_nothing_is_loaded_from_elsewhere(parsed):
    outside = {
        (path.name, url)
        for path, page in parsed.items()
        for url in page.loads
        if urlsplit(url).scheme not in ("", "data") or url.startswith("//")
    }
    assert outside == set()


def test_styles_load_nothing_from_elsewhere(site):
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), path


def test_links_and_anchors_lead_somewhere(site, parsed):
    broken = set()
    for path, page in parsed.items():
        if path.name == "stepper_gpt.html":
            continue  # its anchors are made by its script; tests/tracing follows them
        for url in page.links + page.loads:
            parts = urlsplit(url)
            if parts.scheme or url.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or not target.is_relative_to(site):
                broken.add((path.relative_to(site).as_posix(), url))
            elif parts.fragment and target in parsed:
                if unquote(parts.fragment) not in parsed[target].anchors:
                    broken.add((path.relative_to(site).as_posix(), url))
    assert broken == set()


def test_places_lead_to_the_line_they_name(site, parsed):
    text = (site / "where_is_it.html").read_text(encoding="utf-8")
    places = re.findall(r'href="(source/[^"#]+)#L-(\d+)"[^>]*><code[^>]*>(.*?)</code>', text)
    assert len(places) > 40
    for page, line, shown in places:
        words = re.sub("<[^>]+>", "", shown)
        assert (
            words
            == f"{page.removeprefix('source/minitorch_attn/').removesuffix('.html')}.py:{line}"
        )
        assert f"L-{line}" in parsed[site / page].anchors


def test_places_that_a_lesson_prints_are_links(site):
    text = (site / "lessons" / "01_tensors.html").read_text(encoding="utf-8")
    pattern = (
        r'href="\.\./source/minitorch_attn/([\w/]+)\.html#L-(\d+)">minitorch_attn/\1\.py:\2</a>'
    )
    assert len(re.findall(pattern, text)) >= 2


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_in_a_browser(site, parsed, browser, part):
    """It loads, complains about nothing, asks for nothing but files, and fits 400 pixels."""
    tab = new_tab(browser, viewport={"width": 400, "height": 800})
    problems, requests, name = [], [], None
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: problems.append((name, str(error))))
    tab.on(
        "console",
        lambda message: (
            message.type in ("error", "warning") and problems.append((name, message.text))
        ),
    )
    for path in list(parsed)[part::PARTS]:
        name = path.relative_to(site).as_posix()
        tab.goto(path.as_uri(), wait_until="load")
        width = tab.evaluate("document.documentElement.scrollWidth")
        if width > 400:
            problems.append((name, f"{width} pixels wide"))
        if not tab.title():
            problems.append((name, "no title"))
    tab.close()
    assert problems == []
    assert [url for url in requests if not url.startswith(("file://", "data:", "blob:"))] == []


def test_pages_of_every_kind_fit_1280_pixels_in_both_colours(site, browser):
    names = ["index", "where_is_it", "walk", "stepper", "lessons/index", "lessons/01_tensors"]
    names += ["api/mt", "api/files/ops.softmax", "benchmarks", "source/minitorch_attn/tensor"]
    for scheme in ("light", "dark"):
        tab = new_tab(browser, viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        for name in names:
            tab.goto((site / f"{name}.html").as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= 1280, name
            assert tab.evaluate("document.documentElement.dataset.theme") == scheme, name
        tab.close()


def test_formulas_are_set_in_the_font_beside_the_pages(site, browser):
    tab = new_tab(browser)
    tab.goto((site / "add_an_op.html").as_uri())
    assert tab.locator("math").count() > 3
    assert tab.evaluate("document.fonts.ready.then(f => f.check('16px \"STIX Two Math\"'))")
    tab.close()


def test_the_search_finds(site, browser):
    tab = new_tab(browser)
    tab.goto((site / "search.html").as_uri() + "?q=softmax")
    tab.wait_for_function("document.querySelectorAll('#search-results li').length > 3")
    found = " ".join(tab.locator("#search-results li a").all_inner_texts()).lower()
    assert "softmax" in found
    tab.close()


def test_answers_open_on_a_click(site, browser):
    tab = new_tab(browser)
    tab.goto((site / "lessons" / "01_tensors.html").as_uri())
    answers = tab.locator("details.answers")
    assert answers.count() == 1 and not answers.locator("li").first.is_visible()
    answers.locator("summary").click()
    assert answers.locator("li").first.is_visible()
    tab.close()
