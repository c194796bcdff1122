// A run's log: what its workers and the daemon said, the newest at the end.

import { element } from "./elements.js";

const GOOD = new Set(["run_started", "run_completed"]);
const BAD = /failed|error|lost|killed/;
const NEAR_END = 40;

export class LogView {
  constructor(history) {
    this._history = history;
    this._list = element("ol", { class: "log card", tabindex: "0", "aria-label": "Log, the newest last" });
    this.root = element("div", {}, this._list);
    this._listen = new AbortController();
    history.addEventListener("events", () => this._show(), { signal: this._listen.signal });
    this._show();
  }

  close() {
    this._listen.abort();
  }

  _show() {
    const list = this._list;
    const follows = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END;
    const entries = this._history.log.map((each) => element("li", { class: GOOD.has(each.name) ? "good" : BAD.test(each.name) ? "bad" : "" },
      element("time", { datetime: new Date(each.time).toISOString() }, new Date(each.time).toLocaleTimeString("en-GB")),
      element("b", {}, each.name), payloadText(each.payload)));
    list.replaceChildren(...(entries.length ? entries : [element("li", { class: "quiet" }, "Nothing was said yet.")]));
    if (follows) list.scrollTop = list.scrollHeight;
  }
}

/** An object as `key=value`, as the desktop's log shows it; anything else as it is. */
function payloadText(payload) {
  try {
    const value = JSON.parse(payload || "{}");
    if (value === null || typeof value !== "object" || Array.isArray(value)) return payload;
    return Object.entries(value).map(([key, each]) => `${key}=${typeof each === "string" ? each : JSON.stringify(each)}`).join("  ");
  } catch {
    return payload;
  }
}
