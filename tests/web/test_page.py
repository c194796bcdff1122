"""The page in a real browser, over a real daemon and a worker that really learns."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from web_desk import Desk, MakePage, eventually

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.slow.store.run_store import RunStore

PIXELS = "canvas => canvas.toDataURL()"
STAGE = ".stage canvas[data-seq]"


def frames_come(page: Page) -> None:
    """Wait until the picture has changed."""
    canvas = page.locator(STAGE).first
    canvas.wait_for()
    before = canvas.evaluate(PIXELS)
    eventually(lambda: canvas.evaluate(PIXELS) != before)


def link_to(page: Page, run_id: str) -> Locator:
    return page.locator(f".run-list a[href='#/run/{run_id}']")


def hud(page: Page) -> dict[str, float]:
    return {
        name: float(page.locator(f".hud [data-metric={name}]").inner_text())
        for name in ("reward", "return", "rate")
    }


def stored(page: Page, name: str) -> str:
    return page.locator(f"[data-number='{name}']").inner_text()


def test_two_viewers_see_the_run_move_and_the_curves_grow(desk: Desk, new_page: MakePage) -> None:
    pages = [
        new_page(f"#/run/{desk.learning}"),
        new_page(f"#/run/{desk.learning}", color_scheme="dark"),
    ]
    for page in pages:
        expect(page.get_by_role("heading", name=desk.learning)).to_be_visible()
        expect(page.locator(".badge")).to_have_text("running")
        frames_come(page)
        plot = page.get_by_role("img", name="Return:")
        drawn = plot.evaluate(PIXELS)
        eventually(lambda plot=plot, drawn=drawn: plot.evaluate(PIXELS) != drawn)
        assert "last" in (plot.get_attribute("aria-label") or "")
    themes = [page.evaluate("document.documentElement.dataset.theme") for page in pages]
    assert themes == ["light", "dark"]


def test_an_address_with_token_and_run_opens_on_the_run_and_hides_the_token(
    desk: Desk, new_page: MakePage
) -> None:
    page = new_page(logged_in=False)
    page.goto("about:blank")
    page.goto(f"{desk.address}#token={desk.token}&run={desk.learning}")
    expect(page.get_by_role("heading", name=desk.learning)).to_be_visible()
    frames_come(page)
    assert desk.token not in page.url
    page.go_back()
    assert desk.token not in page.url


def test_a_paused_runs_numbers_are_those_in_the_store(desk: Desk, new_page: MakePage) -> None:
    page = new_page(f"#/run/{desk.learning}")
    frames_come(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".badge")).to_have_text("paused")
    with RunStore.open(desk.daemon.store) as store:

        def newest() -> tuple[int, int, int]:
            run = store.run(desk.learning)
            (step,) = store.steps(desk.learning, last=1)
            return run.steps, step.episode, step.step

        # Paused, it says nothing more; what it said before is committed within a moment.
        eventually(lambda: newest() == newest() and stored(page, "steps") == f"{newest()[0]:,}")
        steps, episode, _ = newest()
        so_far = store.steps(desk.learning, episode=episode)
        total = float(so_far.reward.sum())
        eventually(lambda: hud(page)["return"] == total)
        assert hud(page) == {"reward": float(so_far.reward[-1]), "return": total, "rate": 20.0}
        episodes = store.episodes(desk.learning)
        assert stored(page, "steps") == f"{steps:,}"
        assert stored(page, "episodes") == f"{len(episodes):,}"
        if len(episodes):
            mean = float(episodes.episode_return[-100:].mean())
            assert float(stored(page, "mean return").replace(",", "")) == pytest.approx(
                mean, rel=1e-3
            )
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".badge")).to_have_text("running")
    frames_come(page)


def test_the_page_goes_on_after_the_daemon_was_killed_and_started_again(
    desk: Desk, new_page: MakePage
) -> None:
    page = new_page(f"#/run/{desk.learning}")
    frames_come(page)
    steps = int(stored(page, "steps").replace(",", ""))
    desk.daemon.kill()
    expect(page.locator("#daemon")).to_have_attribute("data-state", "reconnecting")
    desk.daemon.start()
    expect(page.locator("#daemon")).to_have_attribute("data-state", "connected")
    frames_come(page)
    eventually(lambda: int(stored(page, "steps").replace(",", "")) > steps)
    with RunStore.open(desk.daemon.store) as store:
        known = page.locator("[data-number=episodes]")
        eventually(lambda: known.inner_text() == f"{store.run(desk.learning).episodes:,}")


def test_without_the_token_there_is_only_a_login(desk: Desk, new_page: MakePage) -> None:
    page = new_page(logged_in=False)
    login = page.get_by_role("dialog", name="Log in to this daemon")
    expect(login).to_be_visible()
    page.keyboard.press("Escape")
    expect(login).to_be_visible()
    assert link_to(page, desk.learning).count() == 0
    page.get_by_label("Token").fill("not the token, at all")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This is not the daemon’s token.")
    page.get_by_label("Token").fill(desk.token)
    page.keyboard.press("Enter")
    expect(link_to(page, desk.learning)).to_be_visible()
    assert desk.token not in page.url
    assert desk.token not in json.dumps(page.context.cookies())
    assert "lanekit" not in page.evaluate("document.cookie")
    page.get_by_role("button", name="Log out").click()
    expect(login).to_be_visible()


def test_a_recorded_episode_is_looked_at_step_by_step(desk: Desk, new_page: MakePage) -> None:
    page = new_page(f"#/run/{desk.done}/replay/1")
    frame = page.locator(".stage canvas[data-frame]")
    frame.wait_for()
    with RunStore.open(desk.daemon.store) as store:
        steps = store.steps(desk.done, episode=1)
        frames = [each.pixels for each in store.frames(desk.done, episode=1)]
    assert len(frames) == len(steps)
    assert page.locator("#episode").input_value() == "1"
    slider = page.get_by_role("slider", name="Step of the episode")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("[data-number=step]")).to_have_text(f"3 of {len(steps) - 1}")
    expect(page.locator("[data-number=action]")).to_have_text(str(steps.action[3]))
    expect(page.locator("[data-number=return]")).to_have_text(f"{steps.reward[:4].sum():g}")
    read = """canvas => {
      const pen = canvas.getContext("2d");
      const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
      return [...data].filter((_, i) => i % 4 < 3);
    }"""
    wanted = frames[3].reshape(-1).tolist()
    eventually(lambda: frame.evaluate(read) == wanted)
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-number=step]")).to_have_text(f"{len(steps) - 1} of {len(steps) - 1}")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_numbers_that_json_has_none_for_are_dashes(new_page: MakePage) -> None:
    run_id = f"unknown-reward-{os.getpid()}"
    image = np.full((40, 60, 3), 90, np.uint8)
    with FastLaneWriter.create(run_id, FastLaneConfig(60, 40)) as writer:
        writer.publish(image, metrics=FastLaneMetrics(math.nan, -math.inf, 2.5))
        page = new_page(f"#/run/{run_id}")
        page.wait_for_selector(STAGE)
        shown = page.locator(".hud dd").all_inner_texts()
        assert shown == ["–", "–", "2.5"]


def test_an_address_that_names_nothing_says_so(new_page: MakePage) -> None:
    for name in ("no-such-run", "%"):
        page = new_page(f"#/run/{name}")
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        expect(page.locator(".badge")).to_have_text("unknown")


def test_everything_is_reached_by_keyboard_alone(desk: Desk, new_page: MakePage) -> None:
    page = new_page()

    def tab_to(role: str, name: str, most: int = 40) -> None:
        wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
        for _ in range(most):
            page.keyboard.press("Tab")
            if wanted.count() and wanted.evaluate("node => node === document.activeElement"):
                outline = wanted.evaluate("node => getComputedStyle(node).outlineStyle")
                assert outline != "none", f"nothing shows that {name} has the focus"
                return
        raise AssertionError(f"{role} {name} is not reached by Tab")

    tab_to("searchbox", "Search runs")
    page.keyboard.type(f"{desk.done} COMPLETED")
    expect(link_to(page, desk.learning)).to_have_count(0)
    expect(link_to(page, desk.done)).to_be_visible()
    page.keyboard.press("Control+A")
    page.keyboard.type(desk.learning)
    expect(link_to(page, desk.done)).to_have_count(0)
    tab_to("button", f"Show {desk.learning} in the grid")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=desk.learning)).to_be_visible()
    tab_to("button", "Stop")
    page.keyboard.press("Enter")
    question = page.get_by_role("dialog", name=f"Stop {desk.learning}?")
    expect(question).to_be_visible()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    expect(page.locator(".badge")).to_have_text("running")
    tab_to("tab", "Live")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Log")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".log")).to_contain_text("run_started")
    page.keyboard.press("Shift+Tab")
    page.goto(page.url.partition("#")[0] + "#/grid")
    expect(page.get_by_role("link", name=f"Open {desk.learning}")).to_be_visible()
    frames_come(page)


@pytest.mark.parametrize("path", ["#/", "#/run/{learning}", "#/run/{done}/replay", "#/grid"])
def test_a_narrow_screen_shows_everything_without_scrolling_sideways(
    path: str, desk: Desk, new_page: MakePage
) -> None:
    path = path.format(learning=desk.learning, done=desk.done)
    page = new_page(path, viewport={"width": 375, "height": 740}, has_touch=True)
    if path == "#/":
        expect(page.locator(".run-list li").first).to_be_visible()
        expect(page.locator("main")).to_be_hidden()
    else:
        page.wait_for_selector(".stage canvas[data-frame], .stage canvas[data-seq]")
        expect(page.locator("aside")).to_be_hidden()
    wide = """() => [...document.querySelectorAll("body *")]
      .filter((node) => node.getBoundingClientRect().right > 376)
      .filter((node) => !node.closest(".scroller, .visually-hidden"))
      .map((node) => node.outerHTML.slice(0, 80))"""
    assert page.evaluate(wide) == []
    small = """() => [...document.querySelectorAll("button, select, nav a, .filters label")]
      .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 44)
      .map((node) => node.outerHTML.slice(0, 80))"""
    assert page.evaluate(small) == [], "too small for a finger"


def test_little_motion_is_a_slow_picture_and_no_transitions(desk: Desk, new_page: MakePage) -> None:
    page = new_page(f"#/run/{desk.learning}", reduced_motion="reduce")
    expect(page.get_by_label("Frames")).to_have_value("2")
    moving = """() => [...document.querySelectorAll("*")].filter((node) => {
      const style = getComputedStyle(node);
      return parseFloat(style.transitionDuration) > 0 || style.animationName !== "none";
    }).length"""
    assert page.evaluate(moving) == 0


CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const light = ({ r, g, b }) => {
    const part = (value) => {
      const c = value / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.a > 0.8) return colour;
    }
    return parse("rgb(255, 255, 255)");
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest(".visually-hidden")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${node.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""

UNNAMED = """() => {
  const named = (node) => node.getAttribute("aria-label") || node.labels?.length
    || node.textContent.trim();
  return [...document.querySelectorAll("button, a, input, select, canvas:not([aria-hidden])")]
    .filter((node) => node.checkVisibility() && !named(node))
    .map((node) => node.outerHTML.slice(0, 100));
}"""


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_words_can_be_read_and_every_control_has_a_name(
    scheme: str, desk: Desk, new_page: MakePage
) -> None:
    learning, done = f"#/run/{desk.learning}", f"#/run/{desk.done}"
    page = new_page(f"{done}/replay", color_scheme=scheme)
    for path, shown in (
        (f"{done}/replay", ".stage canvas[data-frame]"),
        (f"{learning}/log", ".log"),
        (learning, STAGE),
        ("#/grid", STAGE),
    ):
        page.evaluate("path => { location.hash = path }", path)
        page.wait_for_selector(shown)
        assert page.evaluate(CONTRAST) == [], path
        assert page.evaluate(UNNAMED) == [], path
