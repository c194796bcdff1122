// One run: its name, state and control, and what of it is looked at: live, replay, log.

import { ActionBar } from "./actions.js";
import { element, setText } from "./elements.js";
import { RunHistory } from "./history.js";
import { LiveView } from "./live.js";
import { LogView } from "./log.js";
import { ReplayView } from "./replay.js";

const TABS = [["live", "Live"], ["replay", "Replay"], ["log", "Log"]];

export class RunView {
  constructor(runId, book) {
    this.runId = runId;
    this._book = book;
    this._history = new RunHistory(runId);
    this._state = element("span");
    this._badge = element("span", { class: "badge", role: "status" }, element("i", { class: "dot" }), this._state);
    this._reason = element("p", { class: "run-reason" });
    this._about = element("p", { class: "run-about" });
    this._actions = new ActionBar();
    this._tabs = new Map(TABS.map(([tab, name]) => [tab, element("button", {
      type: "button", role: "tab", id: `tab-${tab}`, "aria-controls": "panel", click: () => this._go(tab),
    }, name)]));
    this._panel = element("div", { id: "panel", role: "tabpanel" });
    this.root = element("article", {},
      element("div", { class: "run-head" },
        element("a", { class: "button back", href: "#/" }, "‹ Runs"),
        element("h1", {}, runId), this._badge, this._actions.root),
      this._reason, this._about,
      element("div", { class: "tabs", role: "tablist", "aria-label": "What to look at", keydown: (event) => this._arrow(event) }, ...this._tabs.values()),
      this._panel);
    this._onChange = () => this._update();
    book.addEventListener("change", this._onChange);
    this._history.addEventListener("state", this._onChange);
    this._update();
  }

  /** Show a tab; `episode` is for replay. */
  show(tab, episode) {
    if (this._tab === tab && episode === undefined) return;
    this._tab = tab;
    this._view?.close();
    for (const [name, button] of this._tabs) {
      button.setAttribute("aria-selected", name === tab);
      button.tabIndex = name === tab ? 0 : -1;
    }
    this._panel.setAttribute("aria-labelledby", `tab-${tab}`);
    if (tab === "replay") this._view = new ReplayView(this.runId, episode);
    else if (tab === "log") this._view = new LogView(this._history);
    else this._view = new LiveView(this.runId, this._book, this._history);
    this._panel.replaceChildren(this._view.root);
  }

  close() {
    this._view?.close();
    this._history.close();
    this._book.removeEventListener("change", this._onChange);
  }

  _go(tab) {
    location.hash = `#/run/${encodeURIComponent(this.runId)}/${tab}`;
  }

  _arrow(event) {
    const names = [...this._tabs.keys()];
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    // From the one that has the focus: what is shown follows the address, which may be a moment later.
    const focused = names.findIndex((name) => this._tabs.get(name) === document.activeElement);
    const next = names[(focused + by + names.length) % names.length];
    this._go(next);
    this._tabs.get(next).focus();
  }

  _update() {
    const run = this._book.runs.get(this.runId);
    this._actions.root.hidden = !run;
    if (!run) {
      setText(this._state, this._book.complete ? "unknown" : "loading");
      setText(this._reason, this._book.complete ? this._history.problem || "The daemon knows no run of this name." : "");
      return;
    }
    this._badge.dataset.state = run.state;
    setText(this._state, run.archived ? `${run.state} (archived)` : run.state);
    this._actions.update(run);
    const workers = run.workers.map(({ id, host }) => [id, host && `on ${host}`].filter(Boolean).join(" "));
    setText(this._reason, run.reason);
    setText(this._about, [...workers, commandText(run.command)].filter(Boolean).join(" · "));
    this._about.title = run.command.join(" ");
  }
}

/** A command as people read it: programs and files without the way to them. The title has it whole. */
function commandText(command) {
  return command.map((word) => (word.startsWith("/") ? word.replace(/\/+$/, "").split("/").at(-1) : word)).join(" ");
}
