"""The built site: its pages in a browser from file://, every link and anchor, and the search."""

import functools
import re
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urlsplit

import pytest
from browsing import new_tab

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}

PARTS = 12  # hundreds of pages: no test is to take minutes
CODE = 6  # of the pages that show a source file, one in six is opened in the browser


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
def pages(site):
    files = sorted(site.rglob("*.html"))
    return [path for path in files if "_static" not in path.relative_to(site).parts]


@pytest.fixture(scope="module")
def opened(site, pages):
    """The pages to open in a browser. Pages of code are all made by one template.

    Those with the longest file and the longest line are among them.
    """
    code = [path for path in pages if path.relative_to(site).parts[0] == "source"]
    texts = {path: path.read_text(encoding="utf-8") for path in code}
    longest = max(code, key=lambda path: len(texts[path]))
    widest = max(code, key=lambda path: max(map(len, texts[path].splitlines())))
    kept = {*code[::CODE], longest, widest}
    return [path for path in pages if path not in texts or path in kept]


@pytest.fixture(scope="module")
def parsed(pages):
    return {path: Page(path.read_text(encoding="utf-8")) for path in pages}


def test_the_pages_are_there(site, parsed):
    names = {path.relative_to(site).as_posix() for path in parsed}
    assert {
        "index.html", "where_is_it.html", "walk.html", "architecture.html", "add_an_op.html",
        "stepper.html", "stepper_gpt.html", "results.html", "benchmarks.html", "search.html",
        "exercises.html", "contributing.html", "lessons/index.html", "lessons/01_tensors.html",
        "api/mt.html", "api/files/ops.softmax.html", "source/minitorch_attn/ops/softmax.html",
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


def test_only_the_search_page_loads_the_search_index(parsed):
    loading = {
        path.name
        for path, page in parsed.items()
        if any(urlsplit(url).path.endswith("searchindex.js") for url in page.loads)
    }
    assert loading == {"search.html"}


def test_links_and_anchors_lead_somewhere(site, parsed):
    @functools.cache
    def target_of(folder, link):
        """The file that a link leads to from a page in a folder; None if it is not on the site."""
        target = (folder / unquote(link)).resolve()
        return target if target.is_file() and target.is_relative_to(site) else None

    broken = set()
    for path, page in parsed.items():
        if path.name == "stepper_gpt.html":
            continue  # its anchors are made by its script; tests/tracing follows them
        for url in page.links + page.loads:
            parts = urlsplit(url)
            if parts.scheme or url.startswith("//"):
                continue
            target = target_of(path.parent, parts.path) if parts.path else path
            if target is None:
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
def test_pages_in_a_browser(site, opened, browser, part):
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
    for path in opened[part::PARTS]:
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


# What people type into the search -> the page, or the place, that must come first.
SEARCHES = {
    "softmax backward": "api/files/ops.softmax.html#backward-of-softmax",
    "gradient of softmax": "api/files/ops.softmax.html#backward-of-softmax",
    "softmax forward": "api/files/ops.softmax.html#",
    "softmax": "api/files/ops.softmax.html#minitorch_attn.softmax",
    "attention backward": "api/files/ops.attention.fused.html#backward-of-attention",
    "layer norm backward": "api/files/ops.layer_norm.html#backward-of-layernorm",
    "LayerNorm derivative": "api/files/ops.layer_norm.html#backward-of-layernorm",
    "cross entropy gradient": "api/files/ops.cross_entropy.html#backward-of-crossentropy",
    "causal mask": "api/files/nn.masks.html#minitorch_attn.nn.masks.causal",
    "where is the causal mask?": "api/files/nn.masks.html#minitorch_attn.nn.masks.causal",
    "W_q": "where_is_it.html#term-",
    "where is x @ y": "where_is_it.html#term-",
    "gradcheck": "api/files/gradcheck.gradcheck.html#minitorch_attn.gradcheck.gradcheck",
    "KV cache": "api/files/nn.kv_cache.html#minitorch_attn.nn.KVCache",
    "multi head attention": "api/files/nn.multihead_attention.html#minitorch_attn.nn.Multihead",
    "multi-head attention": "api/files/nn.multihead_attention.html#minitorch_attn.nn.Multihead",
    "no_grad": "api/files/autograd.modes.html#minitorch_attn.no_grad",
    "padding mask": "api/files/nn.masks.html#minitorch_attn.nn.masks.padding",
    "beam search": "where_is_it.html#term-",
    "DataLoader": "api/files/utils.data.dataloader.html#minitorch_attn.utils.data.DataLoader",
    "write the backward of softmax": "exercises.html#",
    "coming from pytorch": "coming_from_pytorch.html",
    "hyperbolic": "api/",  # a word of the text, not of a name: Sphinx's own search
}


@pytest.fixture(scope="module")
def searched(site, browser):
    """A function from a query to the addresses of its results, the best first."""
    tab = new_tab(browser)
    tab.goto((site / "search.html").as_uri() + "?q=" + quote("x @ y"))
    tab.wait_for_function("Search.hasIndex()")

    def found(query):
        tab.locator("#search-results").evaluate("element => element.replaceChildren()")
        tab.evaluate("query => Search.performSearch(query)", query)
        tab.wait_for_function("/finished|not match/.test(Search.status?.innerText)")
        return [link.get_attribute("href") for link in tab.locator("#search-results li a").all()]

    yield found
    tab.close()


@pytest.mark.parametrize(("query", "place"), SEARCHES.items(), ids=SEARCHES)
def test_the_search_finds_first(searched, query, place):
    assert searched(query)[0].startswith(place)


def test_the_search_of_every_page_leads_there(site, browser):
    tab = new_tab(browser, viewport={"width": 1280, "height": 800})
    tab.goto((site / "index.html").as_uri())
    tab.keyboard.press("Control+k")
    tab.keyboard.type("softmax backward")
    tab.keyboard.press("Enter")
    first = tab.locator("#search-results li a").first
    assert first.get_attribute("href") == SEARCHES["softmax backward"]
    first.click()
    assert tab.locator("section:target h2").inner_text().startswith("Backward of Softmax")
    assert tab.locator("section:target a", has_text="backward").first.is_visible()
    tab.close()


def test_no_result_is_shown_twice(searched):
    for query in ("softmax", "mask", "gradient"):
        found = searched(query)
        assert len(found) == len(set(found)) > 5, query


def test_nonsense_is_not_found(searched):
    assert searched("qwertzuiop") == searched("()") == []


def test_a_term_leads_to_its_row(site, browser, searched):
    place = searched("where is x @ y")[0]
    tab = new_tab(browser)
    tab.goto((site / place.split("#")[0]).as_uri() + "#" + place.split("#")[1])
    row = tab.locator("tr:has(:target)")
    assert "x @ y" in row.inner_text() and "ops/matmul.py:" in row.inner_text()
    tab.close()


@pytest.mark.parametrize("width", [400, 1280])
def test_the_home_page_shows_the_picture_and_six_doors(site, browser, width):
    inks = set()
    for scheme in ("light", "dark"):
        tab = new_tab(browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.goto((site / "index.html").as_uri())
        box = tab.locator("svg.attention").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert box["y"] + box["height"] < 900  # seen without scrolling
        inks.add(tab.evaluate("getComputedStyle(document.querySelector('.attention text')).fill"))
        doors = tab.locator("ul.doors > li")
        assert doors.count() == 6
        for door in doors.all():
            box = door.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
            assert door.locator("a").count() == 1
        doors.first.click(position={"x": 5, "y": 5})  # not on the words
        assert tab.url.endswith("lessons/index.html")
        tab.close()
    assert len(inks) == 2


def test_lessons_and_exercises_lead_to_each_other(site, parsed):
    exercises = parsed[site / "exercises.html"]
    lessons = {url for url in exercises.links if re.match(r"lessons/\d\d_", url)}
    assert len(lessons) > 8
    for lesson in lessons:
        assert any("exercises.html#" in url for url in parsed[site / lesson].links), lesson
    assert any("exercises.html" in url for url in parsed[site / "lessons" / "index.html"].links)


def test_answers_open_on_a_click(site, browser):
    tab = new_tab(browser)
    tab.goto((site / "lessons" / "01_tensors.html").as_uri())
    answers = tab.locator("details.answers")
    assert answers.count() == 1 and not answers.locator("li").first.is_visible()
    answers.locator("summary").click()
    assert answers.locator("li").first.is_visible()
    tab.close()
