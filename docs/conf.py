"""Sphinx configuration of the site, which `make -C docs html` builds."""

import re
import sys
from pathlib import Path

import matplotlib

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]
matplotlib.use("Agg")

from sitebuilder import mathml, source_links  # noqa: E402

import minitorch_attn  # noqa: E402

project = "minitorch-attn"
author = "the authors of minitorch-attn"
copyright = "the authors of minitorch-attn, Apache-2.0"
version = release = minitorch_attn.__version__
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sitebuilder.api_pages",
    "sitebuilder.docstrings",
    "sitebuilder.door_cards",
    "sitebuilder.executed",
    "sitebuilder.exercise_page",
    "sitebuilder.lesson_pages",
    "sitebuilder.mathml",
    "sitebuilder.numpydoc_template",
    "sitebuilder.site_search",
    "sitebuilder.source_pages",
    "sitebuilder.stepper",
]
exclude_patterns = ["_build", "images", "lessons/*.ipynb", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # Sphinx cannot cache the classes in the gallery's settings
default_role = "literal"  # show `x` in a docstring as code

# Lessons. MTA_FAST=1 runs them with small sizes.
sphinx_gallery_conf = {
    "examples_dirs": ["_build/lessons"],
    "gallery_dirs": ["lessons"],
    "filename_pattern": r"\d\d_\w+\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "parallel": 2,  # run two lessons at a time; this needs joblib, which scikit-learn installs
    "capture_repr": (),
    "download_all_examples": False,
    "remove_config_comments": False,
    "reset_argv": lambda gallery_conf, script_vars: [],
    "write_computation_times": False,  # the page of computation times loads remote scripts
    "show_signature": False,
    "thumbnail_size": (400, 280),
}

# API
autodoc_default_options = {"members": True}
autodoc_typehints = "none"
autosummary_generate = False  # sitebuilder.api_pages writes the pages
autosummary_context = {}
numpydoc_show_class_members = False
numpydoc_use_plots = False
toc_object_entries = False

# Markdown pages
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Pages without subpages do not need a navigation bar at the side.
WIDE = (
    "index", "where_is_it", "walk", "architecture", "add_an_op", "build", "exercises", "stepper",
    "search", "genindex", "py-modindex",
)  # fmt: skip

# HTML: pages do not load anything from the network, and open with a double click.
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "minitorch-attn"
html_static_path = ["_static", str(mathml.FONT)]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # browsers do not let a local page read other files
html_context = {"default_mode": "auto"}  # light or dark, as set in the system
html_sidebars = {page: [] for page in WIDE}
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "navigation_depth": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Pattern of a link to a file outside this folder -> link to the page of the site that shows it.
ELSEWHERE = {
    r"\]\(\.\./README\.md[^)]*\)": "](index.md)",
    r"\]\(\.\./benchmarks/README\.md": "](benchmarks.md",
    r"\]\(\.\./lessons/README\.md#the-path[^)]*\)": "](path.rst)",
    r"\]\(\.\./lessons/README\.md[^)]*\)": "](lessons/index.rst)",
}


def _links_to_pages(app, docname, source):
    for file, page in ELSEWHERE.items():
        source[0] = re.sub(file, page, source[0])
    source[0] = source_links.as_roles(source[0])


def setup(app):
    """Rewrite the links of every page, so that links for the repository also work on the site."""
    app.connect("source-read", _links_to_pages)
