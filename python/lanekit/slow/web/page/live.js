// One run as it happens: picture, numbers, curves, newest episodes and steps.

import { reducedMotion } from "./appearance.js";
import { element, iconButton, icon, setText } from "./elements.js";
import { endingText } from "./history.js";
import { numberText } from "./numbers.js";
import { LivePicture, usualRate } from "./picture.js";
import { Plot } from "./plot.js";

const RATES = [2, 5, 15, 30, 60];
const WINDOWS = [1, 5, 10, 20, 50, 100, 200, 500];
const TABLE_ROWS = 50;

export class LiveView {
  constructor(run, book, history) {
    this._run = run;
    this._book = book;
    this._history = history;
    this._picturePlace = element("div", { class: "card" });
    this._counts = Object.fromEntries(["steps", "episodes", "mean return", "last return", "length"].map((name) => [name, element("dd", { "data-number": name }, "–")]));
    const numbers = element("dl", { class: "numbers card", "aria-label": "Stored numbers" },
      ...Object.entries(this._counts).map(([name, value]) => element("div", {}, element("dt", {}, name), value)));
    this._plots = {
      returns: new Plot("Return", "episode", { wide: true }),
      lengths: new Plot("Length", "episode"),
      rewards: new Plot("Reward of the last steps", "step"),
    };
    this._smoothing = element("input", {
      type: "range", min: 0, max: WINDOWS.length - 1, step: 1, id: "smoothing", value: localStorage.getItem("lanekit-smoothing") ?? 3,
      input: () => { localStorage.setItem("lanekit-smoothing", this._smoothing.value); this._drawCurves(); },
    });
    this._smoothed = element("output", { for: "smoothing" });
    this._episodes = element("tbody");
    this._steps = element("tbody");
    this.root = element("div", { class: "live" },
      element("div", { class: "live" }, this._picturePlace, numbers),
      element("div", { class: "live beside" },
        element("div", { class: "smoothing" }, element("label", { for: "smoothing" }, "Smoothing"), this._smoothing, this._smoothed),
        element("div", { class: "curves" }, this._plots.returns.root, this._plots.lengths.root, this._plots.rewards.root)),
      element("div", { class: "tables below" },
        table("Newest episodes", [["Episode", "number"], ["Return", "number"], ["Length", "number"], ["End", ""]], this._episodes),
        table("Newest steps", [["Episode", "number"], ["Step", "number"], ["Reward", "number"], ["Action", ""], ["Observation", ""]], this._steps)));
    this._listen = new AbortController();
    const { signal } = this._listen;
    history.addEventListener("episodes", () => { this._drawCurves(); this._tabulate(); this._count(); }, { signal });
    history.addEventListener("steps", () => { this._drawCurves(); this._tabulate(); }, { signal });
    book.addEventListener("change", () => { this._count(); this._offerLanes(); }, { signal });
    this._showPicture("");
    this._drawCurves();
    this._tabulate();
    this._count();
  }

  close() {
    this._listen.abort();
    this._picture.close();
    for (const plot of Object.values(this._plots)) plot.close();
  }

  // --- the picture ---

  _showPicture(lane) {
    this._picture?.close();
    this._lane = lane;
    this._picture = new LivePicture(this._run, { lane });
    const freeze = iconButton("pause", "Freeze the picture", () => {
      const frozen = freeze.getAttribute("aria-pressed") !== "true";
      freeze.setAttribute("aria-pressed", frozen);
      freeze.replaceChildren(icon(frozen ? "play" : "pause"));
      this._picture.freeze(frozen);
    });
    freeze.setAttribute("aria-pressed", "false");
    const rate = element("select", { change: () => this._picture.setRate(Number(rate.value)) },
      ...RATES.map((each) => element("option", { value: each, selected: each === usualRate() }, `${each} per second`)));
    const hud = element("input", { type: "checkbox", checked: true, change: () => { this._picture.hud.style.visibility = hud.checked ? "" : "hidden"; } });
    this._lanes = element("select", { "aria-label": "Environment", change: () => this._showPicture(this._lanes.value) });
    this._offered = null;
    this._picturePlace.replaceChildren(this._picture.root,
      element("div", { class: "bar" }, freeze, element("label", {}, "Frames", rate), element("label", {}, hud, "Numbers"), this._lanes,
        reducedMotion.matches ? element("span", { class: "quiet" }, "Slow, as your system asks for little motion.") : null));
    this._offerLanes();
  }

  _offerLanes() {
    const lanes = this._book.lanesOf(this._run);
    const key = lanes.join();
    if (key === this._offered) return;
    this._offered = key;
    this._lanes.hidden = lanes.length < 2;
    this._lanes.replaceChildren(...[...new Set([this._lane, ...lanes])].sort().map((lane) =>
      element("option", { value: lane, selected: lane === this._lane }, lane || "all together")));
  }

  // --- numbers ---

  _count() {
    const run = this._book.runs.get(this._run);
    const newest = this._history.episodes.at(-1);
    setText(this._counts.steps, numberText(run?.steps));
    setText(this._counts.episodes, numberText(run?.episodes));
    setText(this._counts["mean return"], numberText(this._history.meanReturn));
    setText(this._counts["last return"], numberText(newest?.total));
    setText(this._counts.length, numberText(newest?.length));
  }

  _drawCurves() {
    const window = WINDOWS[this._smoothing.value];
    setText(this._smoothed, window === 1 ? "none" : `mean of ${window}`);
    this._smoothing.setAttribute("aria-valuetext", this._smoothed.textContent);
    const { agents } = this._history;
    for (const [kind, plot] of Object.entries(this._plots)) {
      plot.show(agents.map((agent, number) => {
        const series = this._history[kind].get(agent);
        // Steps are counted backwards from the newest, episodes forwards from the first.
        return { name: agent, number, series, start: kind === "rewards" ? 1 - series.length : 1 };
      }), window);
    }
  }

  _tabulate() {
    const replay = `#/run/${encodeURIComponent(this._run)}/replay`;
    this._episodes.replaceChildren(...this._history.episodes.slice(-TABLE_ROWS).reverse().map((each) => element("tr", {},
      element("td", { class: "number" }, element("a", { href: `${replay}/${each.number}`, "aria-label": `Replay episode ${each.number}` }, numberText(each.number))),
      element("td", { class: "number" }, numberText(each.total)),
      element("td", { class: "number" }, numberText(each.length)),
      element("td", {}, endingText(each.ending)))));
    this._steps.replaceChildren(...this._history.newest.toReversed().map((each) => element("tr", {},
      element("td", { class: "number" }, numberText(each.episode)),
      element("td", { class: "number" }, numberText(each.step)),
      element("td", { class: "number" }, numberText(each.reward)),
      element("td", { class: "long" }, each.action),
      element("td", { class: "long", title: each.observation }, each.observation))));
  }
}

function table(caption, columns, body) {
  return element("div", { class: "card" }, element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...columns.map(([name, kind]) => element("th", { scope: "col", class: kind }, name)))), body)));
}
