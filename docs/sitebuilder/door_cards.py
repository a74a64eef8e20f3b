"""The directive {doors}: show a card for each door, an entry point on the home page."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from .doors import README, doors


class Doors(SphinxDirective):
    """The directive {doors}, which shows the cards."""

    def run(self):
        """Return a node with a list of cards."""
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
