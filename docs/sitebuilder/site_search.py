"""Search: index the terms of the page "Where is it?", and show matching names first.

`_static/find_by_name.js` compares a query with headings, index entries and API names.
"""

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

OPS = "api/files/ops."  # pages with the entries of `op_sections.py`


class IndexedTerms(SphinxTransform):
    """Add an index entry for every term in the tables of "Where is it?"."""

    default_priority = 700  # before Sphinx collects the index entries

    def apply(self):
        """Put index entries and their link targets into the table rows of "Where is it?"."""
        if self.env.docname != "where_is_it":
            return
        for row in self.document.findall(nodes.row):
            term = next(iter(row[0].findall(nodes.strong)), None)
            if term is not None:
                _add_entries(term, self.env.new_serialno("term"))


def _add_entries(term, number):
    """Add an index entry for each comma-separated term, and a link target before the terms."""
    anchor = f"term-{number}"
    entries = [("single", word.strip(), anchor, "main", None) for word in term.astext().split(",")]
    place = term.parent.index(term)
    target = nodes.target("", "", ids=[anchor])
    term.parent.insert(place, [addnodes.index(entries=entries), target])


def pages_with_entries(app, env):
    """Return pages to write even if unchanged; Sphinx would otherwise drop their index entries."""
    return [page for page in env.found_docs if page == "where_is_it" or page.startswith(OPS)]


def add_script(app, pagename, templatename, context, doctree):
    """Load `find_by_name.js` on the search page, before Sphinx's own search scripts."""
    if pagename == "search":
        app.add_js_file("find_by_name.js")


def setup(app):
    """Register the index entries for "Where is it?" and the script of the search page."""
    app.add_transform(IndexedTerms)
    app.connect("env-updated", pages_with_entries)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
