"""What makes the site: Sphinx extensions of this project and the plain functions under them."""
