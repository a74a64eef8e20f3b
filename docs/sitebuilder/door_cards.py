"""The directive {doors}: show each door (entry point) of the home page as a card."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from .doors import README, doors


class Doors(SphinxDirective):
    """The directive {doors}: a card for each entry under "Where to start" in README.md."""

    def run(self):
        """Return a bullet list with one card for each entry."""
        self.env.note_dependency(str(README))
        cards = nodes.bullet_list(classes=["doors"])
        for title, page, sentence in doors(README.read_text(encoding="utf-8")):
            card = nodes.list_item()
            lines = StringList([f"[{title}]({page})", "", sentence], source=str(README))
            self.state.nested_parse(lines, 0, card)
            cards += card
        return [cards]


def setup(app):
    """Register the directive."""
    app.add_directive("doors", Doors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
