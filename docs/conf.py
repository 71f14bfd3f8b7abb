"""How Sphinx builds the site; `make docs` does it.

The pages that it reads are put together by `docs.building`, from docs/, tutorials/ and the code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import metasched
from docs.building.docstrings import as_restructured
from docs.building.drawings import inline_drawings

_BUILT = Path(__file__).parents[1] / "build" / "site"

project = "metasched"
author = "the metasched authors"
version = release = metasched.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb", "sphinx_copybutton"]
exclude_patterns: list[str] = []
suppress_warnings = ["config.cache"]
default_role = "code"

# Text: the links of a page are checked when it is read, and anchors are those that repositories show.
# Pictures of a size that Markdown cannot say are `<img>`, which Sphinx has to know to take the files along.
myst_enable_extensions = ["deflist", "colon_fence", "html_image"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Tutorials run when the site is built, each once until its code changes.
nb_execution_mode = os.environ.get("METASCHED_DOCS_EXECUTE", "cache")
nb_execution_cache_path = str(_BUILT / "executed")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

# The reference.
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Requires", "Rewrite"]

# How it looks.
html_theme = "pydata_sphinx_theme"
html_title = "metasched"
html_static_path = ["theme"]
html_css_files = ["metasched.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars: dict[str, list[str]] = {"index": [], "first_kernel": []}
copyright = "the metasched authors. Apache License 2.0. This site sends nothing anywhere"  # noqa: A001 -- Sphinx's name
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

linkcheck_timeout = 20
linkcheck_anchors = False


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_restructured, priority=400)  # before napoleon, which makes markup
    app.connect("doctree-resolved", inline_drawings)
