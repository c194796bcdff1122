// What the daemon can be asked to do with a run.

import { element, notice } from "./elements.js";
import { ask } from "./session.js";

const ACTIONS = [
  ["pause", "Pause"], ["resume", "Resume"], ["stop", "Stop"], ["cancel", "Cancel"],
  ["archive", "Archive"], ["unarchive", "Unarchive"],
];
const QUESTIONS = {
  stop: ["Stop", "It is asked to finish by itself. It can not be resumed after that."],
  cancel: ["Cancel", "Its workers are ended now: SIGTERM, and SIGKILL ten seconds later."],
};

/** A row of buttons; `update(run)` shows those that make sense. */
export class ActionBar {
  constructor() {
    this._buttons = new Map(ACTIONS.map(([action, name]) => [action, element("button", { type: "button", "data-action": action, click: () => this._do(action, name) }, name)]));
    this.root = element("div", { class: "actions", role: "group", "aria-label": "Control" }, ...this._buttons.values());
  }

  update(run) {
    this._run = run;
    const focused = document.activeElement;
    for (const [action, button] of this._buttons) {
      const hidden = !run.actions.includes(action);
      if (hidden && button === focused) this._next(action)?.focus();
      button.hidden = hidden;
    }
  }

  /** Where the keyboard goes when pause turns into resume under it. */
  _next(action) {
    const other = { pause: "resume", resume: "pause", archive: "unarchive", unarchive: "archive" }[action];
    const button = this._buttons.get(other);
    if (!button || !this._run.actions.includes(other)) return document.getElementById("main");
    button.hidden = false;
    return button;
  }

  async _do(action, name) {
    const { id } = this._run;
    if (QUESTIONS[action] && !(await confirmed(id, ...QUESTIONS[action]))) return;
    try {
      const answer = await ask(`/api/runs/${encodeURIComponent(id)}/${action}`, { method: "POST", body: {} });
      if (answer.workers === 0) notice(`${name}: no worker of ${id} is connected now. It hears of it when it is back.`);
      else notice(`${name}: ${id} was told.`);
    } catch (error) {
      notice(error.message, "bad");
    }
  }
}

function confirmed(id, name, text) {
  const dialog = document.getElementById("question");
  document.getElementById("question-title").textContent = `${name} ${id}?`;
  document.getElementById("question-text").textContent = text;
  document.getElementById("question-yes").textContent = name;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
