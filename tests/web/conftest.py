"""One daemon, its workers and one real browser for all tests that look at the page."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from web_desk import CHROMIUM, Desk, MakePage

from patience import patience_ms, until


@pytest.fixture(scope="session")
def desk() -> Iterator[Desk]:
    """Two runs: one goes on, one has ended and was filmed."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    desk = Desk(directory)
    try:
        desk.train(desk.done, 6, 0.0, 3)
        with desk.client() as client:
            until(lambda: client.run(desk.done).ended_wall_time_ns, seconds=90)
        desk.train(desk.learning, 1_000_000, 0.05, 0)
        yield desk
    finally:
        desk.close()
        desk.daemon.end_children()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def new_page(browser: Browser, desk: Desk) -> Iterator[MakePage]:
    """Makes pages of browsers that know nothing yet; an error on any of them fails the test."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def make(path: str = "", *, logged_in: bool = True, **settings: Any) -> Page:
        context = browser.new_context(**settings)
        context.set_default_timeout(patience_ms(90))
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: problems.append(message.text)
            if "Content Security Policy" in message.text
            else None,
        )
        page.goto(desk.address + (f"#token={desk.token}" if logged_in else ""))
        if logged_in:
            page.wait_for_selector(".run-list li")
            if path:
                page.evaluate("path => { location.hash = path }", path)
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []
