"""Sphinx configuration; the reference pages are generated from the code by _ext/greatseal_reference.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Greatseal"
copyright = "the Greatseal developers"
extensions = ["sphinx.ext.autodoc", "myst_parser", "greatseal_reference"]
html_theme = "furo"
html_title = "Greatseal"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
# What is not of a module on these pages leads nowhere, and a type variable neither.
nitpick_ignore_regex = [
    ("py:.*", r"(?!greatseal\.(api|host|db\.tables|net|testing)\b).*"),
    ("py:.*", r".*\.([A-Z](_co|_contra)?|Argument)"),
]
autodoc_typehints_format = "short"
