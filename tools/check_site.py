"""Follow every link of the documentation's site to a page, and to a place on it.

usage: python tools/check_site.py build/site

Sphinx has looked at the links that are written in the pages; this looks at what became of them, and
that nothing is fetched from elsewhere: the site has to work without a network.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("script", "src"), ("img", "src"), ("link", "href")}


class Page(HTMLParser):
    """A page's places and links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.places: set[str] = {""}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what can be linked to, what is linked to, and what a browser would fetch."""
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                if (tag, name) in FETCHED and urlsplit(value).netloc:
                    self.fetched.append(value)


def problems(site: Path) -> list[str]:
    """Return what is wrong with the site's links."""
    pages = {path: Page(path) for path in sorted(site.resolve().rglob("*.html"))}
    found = [] if pages else [f"{site}: no pages"]
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        found += [f"{here}: fetches {link}" for link in page.fetched]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{here}: {link} leads nowhere")
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{here}: {link}: there is no such place on that page")
    return found


def main() -> int:
    """Check the site that is named on the command line."""
    found = problems(Path(sys.argv[1]))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
