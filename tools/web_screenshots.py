"""Take the pictures of the browser's page in the documentation: ``web_screenshots.py DIRECTORY``.

A real daemon, real workers, a real browser: what `make test-web` uses.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "web"))

from playwright.sync_api import Browser, Page, sync_playwright
from web_desk import CHROMIUM, Desk, eventually

from lanekit.worker import find_worker
from patience import patience_ms

RECORDED = "cartpole-recorded"
SEEDS = {"cartpole-seed-1": 1, "cartpole-seed-2": 2, "cartpole-seed-3": 3}
LIVE = "cartpole-seed-2"
UPDATE_SECONDS = 0.6
EPISODES_TO_SEE = 150


def train(desk: Desk, run_id: str, **options: object) -> None:
    """Have the daemon start the demo's worker."""
    worker = find_worker("demo")
    config = worker.config_class().from_dict({"run_id": run_id, **options})
    with desk.client() as client:
        client.submit_run(
            worker.command(), run_id=run_id, config_json=json.dumps(config.to_dict()).encode()
        )


def open_page(browser: Browser, desk: Desk, path: str, scheme: str, **settings: Any) -> Page:
    """Open the page at a place, logged in."""
    context = browser.new_context(color_scheme=scheme, **settings)  # type: ignore[arg-type]
    context.set_default_timeout(patience_ms())
    page = context.new_page()
    page.goto(f"{desk.address}#token={desk.token}")
    page.wait_for_selector(".run-list li")
    page.evaluate("path => { location.hash = path }", path)
    if path != "#/":
        page.wait_for_selector(".stage canvas[data-seq], .stage canvas[data-frame]")
    return page


def take(browser: Browser, desk: Desk, directory: Path) -> None:
    """Take all pictures."""
    live = f"#/run/{LIVE}"
    large = {"viewport": {"width": 1440, "height": 900}}
    small = {"viewport": {"width": 375, "height": 760}, "device_scale_factor": 2}
    for name, path, scheme, settings in (
        ("web-live-dark", live, "dark", large),
        ("web-live-light", live, "light", large),
        ("web-replay-light", f"#/run/{RECORDED}/replay/2", "light", large),
        ("web-grid-dark", "#/grid", "dark", {"viewport": {"width": 1440, "height": 470}}),
        ("web-phone-dark", live, "dark", small),
        ("web-phone-light", "#/", "light", small),
    ):
        page = open_page(browser, desk, path, scheme, **settings)
        if "replay" in path:
            page.get_by_role("slider", name="Step of the episode").fill("20")
            page.wait_for_function("document.querySelector('[data-number=step]').textContent > '2'")
            page.evaluate("document.activeElement.blur()")
        # Curves and pictures have come, and some steps of the run that is watched.
        page.wait_for_timeout(9000 if path == live else 1500)
        page.screenshot(path=str(directory / f"{name}.png"))
        print(directory / f"{name}.png")
        page.context.close()


def main() -> None:
    """Train, and take the pictures while that goes on."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    home = Path(tempfile.mkdtemp(prefix="lk-"))
    desk = Desk(home)
    try:
        train(desk, RECORDED, total_steps=40_000, seed=4, record_megabytes=40)
        with desk.client() as client:
            eventually(lambda: client.run(RECORDED).ended_wall_time_ns)
            client.submit_run([sys.executable, "-c", "raise SystemExit(3)"], run_id="cartpole-typo")
        for run_id, seed in SEEDS.items():
            train(desk, run_id, total_steps=0, seed=seed, update_seconds=UPDATE_SECONDS)
        with desk.client() as client:
            eventually(lambda: client.run(LIVE).episodes > EPISODES_TO_SEE)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            take(browser, desk, directory)
            browser.close()
    finally:
        desk.close()
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
