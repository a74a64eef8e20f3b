"""Markdown in the terminal: headings to the left and without boxes."""

from rich.markdown import Heading, Markdown
from rich.text import Text

__all__ = ["LessonMarkdown"]


class _Heading(Heading):
    def __rich_console__(self, console, options):
        text = Text(self.text.plain, style="bold underline" if self.tag == "h1" else "bold")
        yield text


class LessonMarkdown(Markdown):
    """rich's Markdown with plain headings."""

    elements = {**Markdown.elements, "heading_open": _Heading}
