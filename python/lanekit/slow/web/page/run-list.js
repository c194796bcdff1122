// The list of runs: searched, filtered, each line changed in place.

import { element, icon, setText } from "./elements.js";
import { ageText, numberText } from "./numbers.js";
import { kindOf } from "./runs.js";

const KINDS = [["all", "All"], ["live", "Live"], ["finished", "Finished"], ["dead", "Dead"]];

export class RunList {
  constructor(place, book, pins) {
    this._book = book;
    this._pins = pins;
    this._lines = new Map();
    this._current = null;
    this._kind = "all";
    this._search = element("input", {
      type: "search", id: "search", placeholder: "Search by id or state", "aria-label": "Search runs",
      input: () => this._show(),
    });
    this._archived = element("input", { type: "checkbox", change: () => this._show() });
    const filters = element("fieldset", { class: "filters" },
      element("legend", { class: "visually-hidden" }, "Which runs"),
      ...KINDS.map(([kind, name]) => element("label", {},
        element("input", {
          type: "radio", name: "kind", value: kind, checked: kind === "all",
          change: () => { this._kind = kind; this._show(); },
        }), name)));
    this._list = element("ul", { class: "run-list", "aria-label": "Runs, the newest first" });
    this._count = element("span", { role: "status" });
    place.append(
      element("div", { class: "search" }, this._search, filters),
      this._list,
      element("p", { class: "list-foot" }, this._count, element("label", {}, this._archived, " Archived")),
    );
    book.addEventListener("change", () => this._show());
    pins.addEventListener("change", () => this._show());
    setInterval(() => this._show(), 5000); // ages
    this._show();
  }

  /** Mark the run that is open beside the list. */
  setCurrent(runId) {
    this._current = runId;
    this._show();
  }

  _wanted() {
    const words = this._search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this._book.newestFirst.filter((run) => {
      const text = `${run.id} ${run.state}`.toLowerCase();
      return (this._archived.checked || !run.archived)
        && (this._kind === "all" || kindOf(run) === this._kind)
        && words.every((word) => text.includes(word));
    });
  }

  _show() {
    const runs = this._wanted();
    const shown = new Set(runs.map((run) => run.id));
    for (const [id, line] of this._lines) {
      if (!shown.has(id)) {
        line.item.remove();
        this._lines.delete(id);
      }
    }
    let before = this._list.firstElementChild;
    for (const run of runs) {
      const line = this._lines.get(run.id) ?? this._newLine(run);
      this._update(line, run);
      if (line.item === before) before = before.nextElementSibling;
      else this._list.insertBefore(line.item, before);
    }
    const total = this._book.runs.size;
    const counted = `${numberText(total)} ${total === 1 ? "run" : "runs"}`;
    const text = runs.length === total ? counted : `${numberText(runs.length)} of ${counted}`;
    setText(this._count, this._book.complete ? text : "Waiting for the daemon");
  }

  _newLine(run) {
    const line = {
      state: element("span"), steps: element("span"), age: element("span", { class: "age" }),
      pin: element("button", { type: "button", class: "icon", click: () => this._pins.toggle(run.id) }, icon("pin")),
    };
    line.facts = element("span", { class: "facts" }, element("i", { class: "dot" }), line.state, line.steps, line.age);
    line.link = element("a", { href: `#/run/${encodeURIComponent(run.id)}` }, element("span", { class: "name", title: run.id }, run.id), line.facts);
    line.item = element("li", {}, line.link, line.pin);
    line.pin.setAttribute("aria-label", `Show ${run.id} in the grid`);
    line.pin.title = "Show in the grid";
    this._lines.set(run.id, line);
    return line;
  }

  _update(line, run) {
    line.facts.dataset.state = run.state;
    setText(line.state, run.archived ? `${run.state} (archived)` : run.state);
    setText(line.steps, run.steps === null ? "· pictures only" : `· ${numberText(run.steps)} steps`);
    setText(line.age, ageText(Date.now() - run.created));
    line.pin.setAttribute("aria-pressed", this._pins.ids.has(run.id));
    if (run.id === this._current) line.link.setAttribute("aria-current", "page");
    else line.link.removeAttribute("aria-current");
  }
}
