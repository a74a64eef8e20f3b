"""Build assignments from the library: remove function bodies, write releases, verify them."""
