"""Show Markdown and code in the terminal, in colors readable on dark and light backgrounds."""

from pygments import token
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text
from rich.theme import Theme

__all__ = ["STYLES", "LessonMarkdown", "code_block"]

STYLES = Theme({"markdown.code": "bold", "markdown.block_quote": "italic"})
_CODE = ANSISyntaxTheme(
    {
        token.Token: Style(),
        token.Comment: Style(color="cyan", italic=True),
        token.Keyword: Style(color="magenta", bold=True),
        token.Operator.Word: Style(color="magenta", bold=True),
        token.Name.Builtin: Style(color="blue"),
        token.Name.Class: Style(bold=True),
        token.Name.Function: Style(bold=True),
        token.Literal.Number: Style(color="red"),
        token.Literal.String: Style(color="green"),
    }
)


def code_block(code, line=1):
    """Format Python code with line numbers.

    Parameters
    ----------
    code : str
    line : int, default 1
        Number of the first line.

    Returns
    -------
    rich.syntax.Syntax
    """
    return Syntax(
        code, "python", theme=_CODE, background_color="default",
        line_numbers=True, start_line=line, word_wrap=True,
    )  # fmt: skip


class _Heading(Heading):
    """A left-aligned heading without a box."""

    def __rich_console__(self, console, options):
        yield Text(self.text.plain, style="bold underline" if self.tag == "h1" else "bold")


class _Block(CodeBlock):
    """A block of code or a displayed formula, indented."""

    def __rich_console__(self, console, options):
        text = str(self.text).rstrip()
        if self.lexer_name in ("text", ""):
            yield Padding(Text(text), (0, 0, 0, 4))
        else:
            block = Syntax(text, self.lexer_name, theme=_CODE, background_color="default")
            yield Padding(block, (0, 0, 0, 4))


class LessonMarkdown(Markdown):
    """`rich.markdown.Markdown` with plain headings and blocks."""

    elements = {
        **Markdown.elements, "heading_open": _Heading, "fence": _Block, "code_block": _Block,
    }  # fmt: skip
