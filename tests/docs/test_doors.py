"""The home page shows the entries of README.md as cards."""

from sitebuilder import doors
from sitebuilder.names import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_there_are_six_and_each_leads_to_a_page_of_its_own():
    found = doors.doors(README)
    assert len(found) == 6 == len({page for _, page, _ in found})
    for title, page, sentence in found:
        assert 5 < len(title) < 40
        assert sentence[0].isupper() and sentence.endswith(".")
        # These two pages are written when the site is built.
        if page not in ("exercises.rst", "lessons/index.rst"):
            assert (ROOT / "docs" / page).is_file(), page


def test_every_paragraph_below_the_heading_is_a_door():
    section = README.split("## Where to start")[1].split("\n## ")[0]
    assert len(section.split("\n\n")) - 1 == len(doors.doors(README))


def test_the_sentence_ends_at_its_period():
    text = "**[Read](docs/a.md).** In 3.5 minutes, `x.y` too. More.\n\n**Learn.** Nothing."
    found = doors.doors(f"## Where to start\n\n{text}\n\n## Next")
    assert found == [("Read", "a.md", "In 3.5 minutes, `x.y` too.")]
