"""Sphinx: how the site is built. It reads sources and data files, and runs neither torch nor the suite."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from astroid.manager import AstroidManager  # noqa: E402
from clause_pages.inventory import write_inventories  # noqa: E402


class _Foreign(set[str]):
    """Every module that is none of ours, but for builtins and typing: astroid reads nothing without them."""

    def __contains__(self, name: object) -> bool:
        return str(name).partition(".")[0] not in {"builtins", "typing", "conformance", "spec_impl"}


with (ROOT / "pyproject.toml").open("rb") as file:
    _project = tomllib.load(file)["project"]

project = "autograd-conformance"
release = version = _project["version"]
author = "the autograd-conformance authors"
project_copyright = author
language = "en"
smartquotes_action = "qe"  # no dashes: options begin with two hyphens

extensions = [
    "autoapi.extension",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "myst_parser",
    "sphinx_copybutton",
    "clause_pages",
]
exclude_patterns = ["_build", "_static", "data", "failures"]
nitpicky = True
add_module_names = False
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True

# The API pages, made from our sources alone: astroid would spend seconds on others', and no page shows what is there.
AstroidManager.brain["module_denylist"] = _Foreign()  # which every manager is made with
#: What the site shows as pages of their own, and what signatures and tables link to.
source_pages = [
    "spec_impl/**/*.py",
    "conformance/*.py",
    "conformance/core/*.py",
    "conformance/kit/*.py",
    "conformance/run/*.py",
    "conformance/suite/*.py",
    "tests/planted/*.py",
    "tests/correct/*.py",
    "docs/failures/*.py",
]
autoapi_dirs = [str(ROOT / "spec_impl"), str(ROOT / "conformance")]
autoapi_root = "api"
autoapi_template_dir = str(HERE / "templates")
autoapi_options = ["members", "undoc-members", "special-members", "imported-members", "show-module-summary"]
autoapi_member_order = "bysource"
autoapi_python_class_content = "class"
autoapi_add_toctree_entry = False
autoapi_keep_files = True  # or every build would be a first one; `make clean` removes them
# Of the suite's own modules the public ones: what a user calls, and what the writer of a test uses.
_PUBLIC = set(re.findall(r"^- `conformance\.(\S+)`", (ROOT / "docs" / "policies.md").read_text("utf-8"), re.MULTILINE))
_PACKAGES = {"", *(name.partition(".")[0] for name in _PUBLIC)}
autoapi_ignore = [
    f"*/conformance/{path.relative_to(ROOT / 'conformance')}"
    for path in (ROOT / "conformance").rglob("*.py")
    if ".".join(path.relative_to(ROOT / "conformance").with_suffix("").parts).removesuffix("__init__").removesuffix(".")
    not in _PUBLIC | _PACKAGES
]
autoapi_ignore += [
    f"*/{path.relative_to(ROOT)}" for path in ROOT.glob("spec_impl/*/*.py") if path.name != "__init__.py"
]  # all but the reference
suppress_warnings = ["autoapi.python_import_resolution"]  # the modules left out above
napoleon_use_ivar = True
napoleon_numpy_docstring = False

# Inventories in the repo stand in for the network. DOCS_ONLINE=1 asks the real sites first.
_sites = {
    "python": "https://docs.python.org/3",
    "torch": "https://docs.pytorch.org/docs/stable",
    "pytest": "https://docs.pytest.org/en/stable",
}
_inventories = write_inventories(HERE / "inventories", ROOT / "docs" / "_build" / "inventories")
_first = (None,) if os.environ.get("DOCS_ONLINE") else ()
intersphinx_mapping = {name: (url, (*_first, str(_inventories[name]))) for name, url in _sites.items()}
intersphinx_disabled_reftypes = ["std:doc"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "autograd-conformance"
html_baseurl = _project.get("urls", {}).get("Documentation", "")
html_static_path = [str(ROOT / "docs" / "_static")]
html_favicon = str(ROOT / "docs" / "_static" / "favicon.svg")
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5cad",
        "color-brand-content": "#0b5cad",
        "color-brand-visited": "#6b3fa0",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db7f5",
        "color-brand-content": "#7db7f5",
        "color-brand-visited": "#c3a6f0",
    },
}
