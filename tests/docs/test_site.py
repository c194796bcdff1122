"""The documentation's site: no warning, no dead link, and a reference that has every public name."""

from __future__ import annotations

import html.parser
import importlib
import subprocess
import sys
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from page_blocks import ROOT
from public_names import PUBLIC

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    place = tmp_path_factory.mktemp("site")
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if "-m sphinx" in line]
    command = line.split("-m sphinx")[1].replace("build/site", str(place)).split()
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *command, "-d", str(tmp_path_factory.mktemp("doctrees"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return place


class Page(html.parser.HTMLParser):
    """A page's places and links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.places: set[str] = {""}
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what can be linked to, and what is linked to."""
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def test_every_link_within_the_site_leads_to_a_page_and_a_place_on_it(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 25
    followed = 0
    for page in pages.values():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in ("https", "data"), f"{page.path.name}: {link}"
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            assert target.exists(), f"{page.path.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, f"{page.path.name}: {link}"
            followed += 1
    assert followed > 1000


def test_nothing_on_the_site_is_fetched_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for piece in text.split("<")[1:]:
            if piece.startswith(("script", "link", "img")):
                assert 'src="http' not in piece, f"{path.name}: {piece[:80]}"
                assert not (piece.startswith("link") and 'href="http' in piece), path.name


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_has_every_public_name(site: Path, package: str) -> None:
    # Four lines of header, then "name domain:role priority uri title" on each line.
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = [line.split() for line in zlib.decompress(packed).decode().splitlines()]
    last = {name.rpartition(".")[2] for name, role, *_ in entries if role.startswith("py:")}
    for name in importlib.import_module(package).__all__:
        if name != "__version__":
            assert name in last, f"{package}.{name} is in none of docs/reference/*.md"
