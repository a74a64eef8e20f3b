"""Site builder: this project's Sphinx extensions, and the functions that the extensions use."""
