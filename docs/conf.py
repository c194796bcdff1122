"""The documentation's site: `make docs` builds it into build/site.

The source directory is the checkout itself, so that a link from one page to another, to a picture
or to a source file is the same on the site as in the repository. Only pages named here are shown.
"""

from __future__ import annotations

import argparse
import os
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from lanekit.cli import COMMANDS, load

project = "lanekit"
author = "The lanekit authors"
copyright = author
version = release = version_of("lanekit")

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "bench/README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "build", "dist", "csrc", "examples", "python", "tests", "tools"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]

# Pages. Anchors for three levels of headings, as repositories show them.
myst_heading_anchors = 3
highlight_language = "none"
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"
# The benchmarks' tables are small print: their headings skip a level.
suppress_warnings = ["myst.header"]
# Entries of the navigation for pages that may not have been written yet.
PLANNED = ("remote", "web", "postgresql", "scale", "cluster", "benchmarks", "releasing")

# The reference is made of the docstrings. Qt would look for a screen.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
default_role = "code"  # of `frame` in a docstring
autodoc_mock_imports = ["torch", "stable_baselines3"]
python_use_unqualified_type_names = True
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = f"lanekit {release}"
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["_root"]  # the address without a page leads to docs/index
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8a4b00", "color-brand-content": "#8a4b00"},
    "dark_css_variables": {"color-brand-primary": "#ffb454", "color-brand-content": "#ffb454"},
    "footer_icons": [],
}


def command_pages() -> str:
    """Return what each command says of itself, as Markdown."""
    sections = []
    for command in map(load, COMMANDS):
        parser = argparse.ArgumentParser(prog=f"lanekit {command.NAME}", add_help=False)
        command.configure(parser)
        sentence = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        text = f"```text\n{parser.format_help()}```"
        sections.append(f"## lanekit {command.NAME}\n\n{sentence}\n\n{text}\n")
    return "\n".join(sections)


def complete(app: Any, name: str, source: list[str]) -> None:
    """Put the commands where their page wants them, and leave out what is still to be written."""
    if name == "docs/reference/cli":
        source[0] = source[0].replace("@COMMANDS@", command_pages())
    elif name == root_doc:
        for page in PLANNED:
            if not (Path(app.srcdir) / "docs" / f"{page}.md").exists():
                source[0] = source[0].replace(f"\n{page}\n", "\n")


def hide_constructor(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str, returns: str
) -> tuple[str, None] | None:
    """Show no constructor where `create` or `attach` is the way to make one."""
    made_otherwise = hasattr(thing, "create") or hasattr(thing, "attach")
    return ("", None) if what == "class" and made_otherwise else None


def setup(app: Any) -> None:
    """Tell Sphinx about it."""
    os.environ["COLUMNS"] = "96"  # for argparse
    app.connect("source-read", complete)
    app.connect("autodoc-process-signature", hide_constructor)
