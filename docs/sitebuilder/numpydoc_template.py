"""Compile numpydoc's template only once, instead of again for each of about 6,000 docstrings."""

import functools

from jinja2 import BytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx


class CompiledOnce(BytecodeCache):
    """Cache of compiled templates in memory."""

    def __init__(self):
        self.code = {}

    def load_bytecode(self, bucket):
        """Load the code of a template if it has been compiled before."""
        if bucket.key in self.code:
            bucket.bytecode_from_string(self.code[bucket.key])

    def dump_bytecode(self, bucket):
        """Store the compiled code of a template."""
        self.code[bucket.key] = bucket.bytecode_to_string()


def setup(app):
    """Make numpydoc create its template environments with a `CompiledOnce` cache."""
    docscrape_sphinx.SandboxedEnvironment = functools.partial(
        SandboxedEnvironment, bytecode_cache=CompiledOnce()
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
