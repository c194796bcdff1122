"""Take the pictures of the browser's page in the documentation: ``web_screenshots.py DIRECTORY``.

A real daemon, real workers, a real browser: what `make test-web` uses.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "web"))

from playwright.sync_api import Browser, Page, sync_playwright
from web_desk import CHROMIUM, PATIENCE_MS, Desk, eventually

RUNS = {"cartpole-seed-1": 60, "cartpole-seed-2": 60, "cartpole-seed-3": 60}
EPISODES_TO_SEE = 60


def open_page(browser: Browser, desk: Desk, path: str, scheme: str, **settings: Any) -> Page:
    """Open the page at a place, logged in."""
    context = browser.new_context(color_scheme=scheme, **settings)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{desk.address}#token={desk.token}")
    page.wait_for_selector(".run-list li")
    page.evaluate("path => { location.hash = path }", path)
    page.wait_for_selector(".stage canvas[data-seq], .stage canvas[data-frame]")
    return page


def take(browser: Browser, desk: Desk, directory: Path) -> None:
    """Take all pictures."""
    live = "#/run/cartpole-seed-2"
    large = {"viewport": {"width": 1440, "height": 900}}
    small = {"viewport": {"width": 375, "height": 760}, "device_scale_factor": 2}
    for name, path, scheme, settings in (
        ("web-live-dark", live, "dark", large),
        ("web-live-light", live, "light", large),
        ("web-replay-light", "#/run/cartpole-done/replay/9", "light", large),
        ("web-grid-dark", "#/grid", "dark", {"viewport": {"width": 1440, "height": 560}}),
        ("web-phone-dark", live, "dark", small),
    ):
        page = open_page(browser, desk, path, scheme, **settings)
        if "replay" in path:
            page.get_by_role("slider", name="Step of the episode").fill("24")
            page.wait_for_function("document.querySelector('[data-number=step]').textContent > '2'")
        page.wait_for_timeout(1500)  # curves and pictures have come; nothing tells when all have
        page.screenshot(path=str(directory / f"{name}.png"))
        print(directory / f"{name}.png")
        page.context.close()


def main() -> None:
    """Train, and take the pictures while that goes on."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    home = Path(tempfile.mkdtemp(prefix="lk-"))
    desk = Desk(home)
    try:
        desk.train("cartpole-done", 30, 0.0, 12)
        with desk.client() as client:
            client.submit_run([sys.executable, "-c", "raise SystemExit(3)"], run_id="cartpole-typo")
        for run_id, rate in RUNS.items():
            desk.train(run_id, 1_000_000, 1 / rate, 0)
        with desk.client() as client:
            eventually(lambda: client.run("cartpole-seed-2").episodes > EPISODES_TO_SEE)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            take(browser, desk, directory)
            browser.close()
    finally:
        desk.close()
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
