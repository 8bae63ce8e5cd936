"""Sphinx configuration; the reference pages are generated from the code by _ext/greatseal_reference.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Greatseal"
copyright = "the Greatseal developers"
extensions = ["myst_parser", "greatseal_reference"]
html_theme = "furo"
html_title = "Greatseal"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
