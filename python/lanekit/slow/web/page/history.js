// What the page knows of a run: every finished episode, the rewards of the newest steps, the log.

import { Connection } from "./connection.js";

export const RECENT_REWARDS = 2000;
const NEWEST_STEPS = 32;
const LOG_ENTRIES = 2000;
const RECENT_EPISODES = 100;

/** Numbers in their order, NaN for one that is not known, and their sums so far. */
export class Series {
  constructor() {
    this.length = 0;
    this.values = new Float64Array(256);
    this._sums = new Float64Array(257);
    this._known = new Float64Array(257);
  }

  push(value) {
    if (this.length === this.values.length) this._grow();
    const number = value === null ? NaN : Math.max(-1e200, Math.min(1e200, value));
    this.values[this.length] = number;
    this.length += 1;
    this._sums[this.length] = this._sums[this.length - 1] + (Number.isNaN(number) ? 0 : number);
    this._known[this.length] = this._known[this.length - 1] + (Number.isNaN(number) ? 0 : 1);
  }

  /** The mean of the last `window` numbers up to and with the one at `index`. */
  mean(index, window) {
    const first = Math.max(0, index + 1 - window);
    const known = this._known[index + 1] - this._known[first];
    return known ? (this._sums[index + 1] - this._sums[first]) / known : NaN;
  }

  get last() {
    return this.length ? this.values[this.length - 1] : NaN;
  }

  _grow() {
    for (const name of ["values", "_sums", "_known"]) {
      const larger = new Float64Array(this[name].length * 2);
      larger.set(this[name]);
      this[name] = larger;
    }
  }
}

function seriesOf(numbers) {
  const series = new Series();
  for (const number of numbers) series.push(number);
  return series;
}

/** One run, followed. Dispatches "episodes", "steps", "events" when they came, "state" else. */
export class RunHistory extends EventTarget {
  constructor(runId) {
    super();
    this.agents = [];
    this.returns = new Map();
    this.lengths = new Map();
    this.rewards = new Map();
    this.episodes = [];
    this.newest = [];
    this.log = [];
    this.problem = "";
    this.connected = false;
    this._cursors = { episodes: "", steps: "", events: "" };
    this._connection = new Connection(`/api/runs/${encodeURIComponent(runId)}`, {
      query: () => this._cursors,
      onMessage: (message) => this._take(message),
      onState: (state, reason) => {
        this.connected = state === "open";
        this.problem = reason;
        this.dispatchEvent(new Event("state"));
      },
    });
  }

  /** The mean of the last 100 returns, as the desktop tells it; NaN for none. */
  get meanReturn() {
    const known = this.episodes.slice(-RECENT_EPISODES).map((each) => each.total).filter((total) => total !== null);
    return known.length ? known.reduce((sum, total) => sum + total, 0) / known.length : NaN;
  }

  close() {
    this._connection.close();
  }

  _take(message) {
    this._cursors[message.kind] = message.next;
    this[`_take_${message.kind}`](message);
    this.dispatchEvent(new Event(message.kind));
  }

  _agent(name) {
    if (!this.agents.includes(name)) {
      this.agents.push(name);
      this.returns.set(name, new Series());
      this.lengths.set(name, new Series());
      this.rewards.set(name, new Series());
    }
    return name;
  }

  _take_episodes(message) {
    message.agent.forEach((place, row) => {
      const agent = this._agent(message.agents[place]);
      this.returns.get(agent).push(message.returns[row]);
      this.lengths.get(agent).push(message.length[row]);
      this.episodes.push({
        agent, number: message.episode[row], total: message.returns[row],
        length: message.length[row], ending: message.ending[row],
      });
    });
  }

  _take_steps(message) {
    for (const [agent, rewards] of Object.entries(message.rewards)) {
      const before = this.rewards.get(this._agent(agent));
      const all = [...before.values.subarray(0, before.length), ...rewards].slice(-RECENT_REWARDS);
      this.rewards.set(agent, seriesOf(all.map((each) => (Number.isNaN(each) ? null : each))));
    }
    this.newest = [...this.newest, ...message.newest].slice(-NEWEST_STEPS);
  }

  _take_events(message) {
    this.log = [...this.log, ...message.events].slice(-LOG_ENTRIES);
  }
}

/** How an episode or a step ended, in a word. */
export function endingText(ending) {
  return ["", "terminated", "truncated", "terminated, truncated"][ending];
}
