"""The student's feedback page: complete, safe, without hidden details, readable on a phone."""

from html.parser import HTMLParser

import pytest
from browsing import new_tab
from grader.report.conftest import NASTY, SECRET, bad, failed, good, unread

from minitorch_attn.grader.report.feedback import feedback

VOID = {"meta", "wbr"}


class Page(HTMLParser):
    """Checks that tags are closed, and collects them, their attributes and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("make", [good, bad, unread, failed])
def test_nothing_on_the_page_runs_or_loads(make):
    page = Page(feedback(make()))
    assert not set(page.tags) & {"script", "img", "link", "iframe", "object", "form", "base", "svg"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    assert any("default-src 'none'" in (value or "") for _, value in page.attributes)


def test_what_came_from_a_submission_is_text():
    page = Page(feedback(bad()))
    text = "".join(page.words)
    assert text.count("<script>alert(1)</script>") == 4  # title, name, message, entry
    assert "<b>2.0 times</b> too large" in text and NASTY[:20] in text


def test_the_page_says_what_was_wrong_and_at_which_level():
    text = "".join(Page(feedback(bad())).words)
    for words in ("2", "of 7 points", "sandbox level 3 of 3", "grad[0, 3]", "wrong result"):
        assert words in text
    assert "too slow" in text  # of the hidden entry, how it ended
    assert "This check is hidden" in text and SECRET not in text
    level_1 = {**bad(), "grader": {**bad()["grader"], "sandbox": 1}}
    assert "protects only against accidents" in feedback(level_1)


def test_unread_and_failed_submissions_are_told_so():
    assert "work.py is missing" in feedback(unread())
    assert "This is not a grade" in feedback(failed())


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits(browser, tmp_path, width):
    made = bad("x" * 300)
    made["checks"][1]["message"] = "y" * 900
    (tmp_path / "feedback.html").write_text(feedback(made), encoding="utf-8")
    page = new_tab(browser, viewport={"width": width, "height": 800})
    page.goto((tmp_path / "feedback.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.querySelector('.score')).fontSize") == "32px"
    page.close()
