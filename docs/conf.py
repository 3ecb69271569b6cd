"""How Sphinx makes HTML of the pages that tools/reference.py lays out."""

import tomllib
from pathlib import Path

project = "Flambeau"
author = "the authors of Flambeau"
version = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"][
    "version"
]
copyright = "2026 the authors of Flambeau"
extensions = ["myst_parser"]
myst_heading_anchors = 3
python_maximum_signature_line_length = 90
html_theme = "alabaster"
html_theme_options = {"description": "PyTorch's model in C++20", "page_width": "70rem"}
html_title = f"Flambeau {version}"
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
