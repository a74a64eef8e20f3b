"""The directive {executed}: run code when the site is built, and show what it prints.

    ```{executed}
    x = mt.randn(2, 3)
    print(x.shape)
    ```

All blocks of a page share one namespace. An exception becomes a warning, which ends the build.
"""

import traceback

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from .pages import run

logger = logging.getLogger(__name__)


class Executed(SphinxDirective):
    """The directive {executed}, which shows code and its output."""

    has_content = True

    def run(self):
        """Run the code, and return document nodes for the code and its output."""
        self.env.note_reread()  # reread at every build, because the package may have changed
        code = "\n".join(self.content) + "\n"
        shown = [nodes.literal_block(code, code, language="python")]
        try:
            namespace = self.env.temp_data.setdefault("executed", {})
            printed = run(code, namespace, f"{self.env.docname}.md", self.lineno + 1)
        except Exception:
            logger.warning("%s", traceback.format_exc(), location=self.get_location())
            return shown
        if printed.strip():
            text = printed.rstrip()
            block = nodes.literal_block(text, text, language="none")
            block["classes"].append("output")
            shown.append(block)
        return shown


def setup(app):
    """Register the directive."""
    app.add_directive("executed", Executed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
