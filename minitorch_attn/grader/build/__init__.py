"""Build assignments from the library: blank function bodies, write releases, verify them."""
