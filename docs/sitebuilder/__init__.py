"""Site builder: Sphinx extensions of this project, and the functions that they use."""
