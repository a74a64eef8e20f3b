"""numpydoc's template: compile it once, not again for each of 6,000 docstrings."""

import functools

from jinja2 import BytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx


class CompiledOnce(BytecodeCache):
    """Compiled templates, kept in memory."""

    def __init__(self):
        self.code = {}

    def load_bytecode(self, bucket):
        """Give a template its code if it has been compiled before."""
        if bucket.key in self.code:
            bucket.bytecode_from_string(self.code[bucket.key])

    def dump_bytecode(self, bucket):
        """Keep the code of a template."""
        self.code[bucket.key] = bucket.bytecode_to_string()


def setup(app):
    """Give the cache to every environment that numpydoc makes."""
    docscrape_sphinx.SandboxedEnvironment = functools.partial(
        SandboxedEnvironment, bytecode_cache=CompiledOnce()
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
