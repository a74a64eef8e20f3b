"""Source pages: a page for every file of the package, with an anchor on every line.

`` {where}`ops.softmax.Softmax.backward` `` shows the current file and line of this name, with a
link. A name that no longer exists causes a warning, which ends the build.
"""

import re

import pygments
from docutils import nodes
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from .names import PACKAGE, ROOT, UnknownNameError, locate

PRINTED = re.compile(rf"\b{PACKAGE}/([\w/]+)\.py:(\d+)")

logger = logging.getLogger(__name__)


def link(builder, docname, place, text=None):
    """Return a link from the page `docname` to a line of the source."""
    uri = f"{builder.get_relative_uri(docname, place.page)}#L-{place.line}"
    label = nodes.literal("", text or place.short, classes=["place"])
    return nodes.reference("", "", label, refuri=uri, internal=True)


class Where(SphinxRole):
    """Role {where}, which links a name to its source line.

    Syntax: `` {where}`name` `` or `` {where}`shown text <name>` ``.
    """

    def run(self):
        """Return a link to the name's source line, or warn if the name does not exist."""
        shown, _, name = self.text.rpartition("<")
        shown, name = shown.strip(), name.rstrip(">").strip()
        try:
            place = locate(name)
        except UnknownNameError as error:
            logger.warning("where: %s", error, location=self.get_location())
            return [nodes.literal("", name)], []
        self.env.note_dependency(str(ROOT / place.file))  # if the file changes, the line may change
        return [link(self.env.app.builder, self.env.docname, place, shown or None)], []


def add_source_links(app, doctree):
    """Add a link [source] at the end of every signature on the API pages."""
    for description in doctree.findall(addnodes.desc):
        if description.get("domain") != "py":
            continue
        for signature in description.findall(addnodes.desc_signature):
            if signature.parent is description and signature.get("module"):
                _add_source_link(app, signature)


def _add_source_link(app, signature):
    name = f"{signature['module']}.{signature['fullname']}".removeprefix(f"{PACKAGE}.")
    try:
        place = locate(name)
    except UnknownNameError:
        return  # a value that is defined in a table does not have a line of its own
    reference = link(app.builder, app.env.docname, place, "source")
    signature += nodes.inline("", "", reference, classes=["viewcode-link"])


def link_printed_places(app, pagename, templatename, context, doctree):
    """Turn `minitorch_attn/FILE.py:LINE` in code blocks and output into links to the source."""
    if doctree is not None:
        source = app.builder.get_relative_uri(pagename, f"source/{PACKAGE}/")

        def linked(match):
            uri = source.removesuffix(".html") + f"{match[1]}.html#L-{match[2]}"
            return f'<a class="place" href="{uri}">{match[0]}</a>'

        context["body"] = re.sub(
            r"<pre>.*?</pre>",
            lambda block: PRINTED.sub(linked, block[0]),
            context["body"],
            flags=re.S,
        )


def collect_pages(app):
    """Yield (name, context, template) for every page of source code."""
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True)
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    for path in files:
        file = path.relative_to(ROOT)
        code = pygments.highlight(path.read_text(encoding="utf-8"), PythonLexer(), formatter)
        name = f"source/{file.with_suffix('').as_posix()}"
        yield name, {"title": file.as_posix(), "body": code}, "source.html"
    names = [path.relative_to(ROOT).as_posix() for path in files]
    yield "source/index", {"title": "Source code", "files": names, "body": ""}, "source_index.html"


def setup(app):
    """Register the role {where}, the links to the source, and the source pages."""
    app.add_role("where", Where())
    app.connect("doctree-read", add_source_links)
    app.connect("html-page-context", link_printed_places)
    app.connect("html-collect-pages", collect_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
