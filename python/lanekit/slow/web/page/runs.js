// All runs as the daemon tells them, kept current over one websocket.

import { Connection } from "./connection.js";

const LIVE = new Set(["live", "submitted", "running", "paused"]);
const DEAD = new Set(["failed", "lost", "cancelled"]);

/** Which of three kinds a run is. */
export function kindOf(run) {
  if (LIVE.has(run.state)) return "live";
  return DEAD.has(run.state) ? "dead" : "finished";
}

/** A run that shows pictures on the daemon's machine, and that no daemon knows. */
function laneRun(id, created) {
  return { id, state: "live", created, steps: null, episodes: null, reason: "publishes pictures; no daemon knows it", command: [], archived: false, actions: [], workers: [] };
}

/** The book of runs; dispatches "change" when one changed, "state" with the connection. */
export class RunBook extends EventTarget {
  constructor() {
    super();
    this.runs = new Map();
    this.lanes = {};
    this.complete = false;
    this.connected = false;
    this._revision = 0;
    this._connection = new Connection("/api/runs", {
      query: () => ({ after: this._revision }),
      onMessage: (message) => this._take(message),
      onState: (state) => {
        this.connected = state === "open";
        this.dispatchEvent(new Event("state"));
      },
    });
  }

  /** The newest first. */
  get newestFirst() {
    return [...this.runs.values()].sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1));
  }

  /** The lanes of a run that shows pictures now; empty for others. */
  lanesOf(runId) {
    return this.lanes[runId]?.lanes ?? [];
  }

  /** Runs that only show pictures come and go with their lanes. */
  _addLanes() {
    for (const [id, run] of this.runs) if (run.state === "live" && !this.lanes[id]) this.runs.delete(id);
    for (const [id, { created }] of Object.entries(this.lanes)) if (!this.runs.has(id)) this.runs.set(id, laneRun(id, created));
  }

  _take(message) {
    for (const run of message.runs ?? []) this.runs.set(run.id, run);
    if (message.runs) this.complete = true;
    if (message.next !== undefined) this._revision = message.next;
    if (message.lanes) this.lanes = message.lanes;
    this._addLanes();
    this.dispatchEvent(new Event("change"));
  }
}

/** The runs that the reader put into the grid; kept by the browser. */
export class Pins extends EventTarget {
  constructor() {
    super();
    this.ids = new Set(JSON.parse(localStorage.getItem("lanekit-pins") ?? "[]"));
  }

  toggle(runId) {
    if (!this.ids.delete(runId)) this.ids.add(runId);
    localStorage.setItem("lanekit-pins", JSON.stringify([...this.ids]));
    this.dispatchEvent(new Event("change"));
  }
}
