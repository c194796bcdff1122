// One run as it happens: picture, numbers, curves, newest episodes and steps.

import { reducedMotion } from "./appearance.js";
import { element, icon, setText } from "./elements.js";
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
    this._plots.returns.root.append(element("div", { class: "bar smoothing" },
      element("label", { for: "smoothing" }, "Smoothing"), this._smoothing, this._smoothed));
    this._episodes = new Table("Newest episodes", [["Agent", "agent"], ["Episode", "number"], ["Return", "number"], ["Length", "number"], ["End", ""]]);
    this._steps = new Table("Newest steps", [["Agent", "agent"], ["Episode", "number"], ["Step", "number"], ["Reward", "number"], ["Action", "long"], ["Observation", "long"]]);
    this.root = element("div", { class: "live" },
      element("div", { class: "live" }, this._picturePlace, numbers),
      element("div", { class: "curves beside" }, this._plots.returns.root, this._plots.lengths.root, this._plots.rewards.root),
      element("div", { class: "tables below" },
        this._episodes.root, this._steps.root));
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
    const freeze = element("button", { type: "button", "aria-pressed": "false", title: "Keep this picture; the run goes on", click: () => {
      const frozen = freeze.getAttribute("aria-pressed") !== "true";
      freeze.setAttribute("aria-pressed", frozen);
      this._picture.freeze(frozen);
    } }, icon("freeze"), "Freeze");
    const rate = element("select", { change: () => this._picture.setRate(Number(rate.value)) },
      ...RATES.map((each) => element("option", { value: each, selected: each === usualRate() }, `${each} fps`)));
    const hud = element("input", { type: "checkbox", checked: true, change: () => { this._picture.hud.style.visibility = hud.checked ? "" : "hidden"; } });
    this._lanes = element("select", { "aria-label": "Environment", change: () => this._showPicture(this._lanes.value) });
    this._offered = null;
    this._picturePlace.replaceChildren(this._picture.root,
      element("div", { class: "bar" }, freeze, element("label", {}, element("span", { class: "visually-hidden" }, "Frames per second"), rate),
        element("label", {}, hud, "Numbers"), this._lanes,
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
    // By name, so that each has the same colour on every page and at every visit.
    const agents = this._history.agents.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
    for (const [kind, plot] of Object.entries(this._plots)) {
      plot.show(agents.map((agent, number) => {
        const series = this._history[kind].get(agent);
        // Steps are counted backwards from the newest, episodes forwards from the first.
        return { name: agent, number, series, start: kind === "rewards" ? 1 - series.length : 1 };
      }), window, agents.length > 1);
    }
  }

  _tabulate() {
    const replay = `#/run/${encodeURIComponent(this._run)}/replay`;
    const several = this._history.agents.length > 1;
    this._episodes.fill(several, this._history.episodes.slice(-TABLE_ROWS).reverse().map((each) => [each.agent,
      element("a", { href: `${replay}/${each.number}`, "aria-label": `Replay episode ${each.number}` }, numberText(each.number)),
      numberText(each.total), numberText(each.length), endingText(each.ending)]));
    this._steps.fill(several, this._history.newest.toReversed().map((each) => [each.agent,
      numberText(each.episode), numberText(each.step), numberText(each.reward), each.action, each.observation]));
  }
}

/** Rows under headings; whose they are is told where there are several agents. */
class Table {
  constructor(caption, columns) {
    this._columns = columns;
    this._body = element("tbody");
    this._table = element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...columns.map(([name, kind]) => element("th", { scope: "col", class: kind }, name)))), this._body);
    this.root = element("div", { class: "card" }, element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": caption }, this._table));
  }

  fill(several, rows) {
    this._table.classList.toggle("several", several);
    this._body.replaceChildren(...rows.map((cells) => element("tr", {}, ...cells.map((cell, i) => {
      const [, kind] = this._columns[i];
      return element("td", { class: kind, title: kind === "long" ? cell : null }, cell);
    }))));
  }
}
