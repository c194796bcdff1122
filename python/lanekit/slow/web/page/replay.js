// A recorded episode, looked at again: its frames at the pace of their recorded times.

import { RewardStrip } from "./reward-strip.js";
import { element, icon, iconButton, notice, setText } from "./elements.js";
import { numberText } from "./numbers.js";
import { shape } from "./picture.js";
import { ask } from "./session.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const AHEAD = 6; // frames that are fetched before they are due

export class ReplayView {
  constructor(runId, episode) {
    this._run = runId;
    this._wanted = episode;
    this._index = 0;
    this._playing = false;
    this._pictures = new Map();
    this._who = element("select", { change: () => this._choosePlayer(Number(this._who.value)) });
    this._whoLabel = element("label", { hidden: true }, "Agent", this._who);
    this._which = element("select", { id: "episode", change: () => this._load(Number(this._which.value)) });
    this._problem = element("p", { class: "quiet", role: "status" }, "Looking for recorded episodes");
    this._canvas = element("canvas", { role: "img", "aria-label": "Recorded frame", width: 16, height: 10 });
    this._says = element("p", { class: "says" });
    this._stage = element("div", { class: "stage" }, this._canvas, this._says);
    this._numbers = Object.fromEntries(["step", "reward", "return", "action", "time"].map((name) => [name, element("dd", { "data-number": name }, "–")]));
    this._strip = new RewardStrip((index) => this.seek(index));
    this._slider = element("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Step of the episode", input: () => this.seek(Number(this._slider.value)) });
    this._play = iconButton("play", "Play", () => (this._playing ? this.pause() : this.play()));
    this._speed = element("select", { "aria-label": "Speed", change: () => this._anchor() },
      ...SPEEDS.map((each) => element("option", { value: each, selected: each === 1 }, `${each}×`)));
    this._loop = element("input", { type: "checkbox" });
    this._body = element("div", { class: "card", hidden: true }, this._stage,
      element("dl", { class: "numbers" }, ...Object.entries(this._numbers).map(([name, value]) => element("div", {}, element("dt", {}, name), value))),
      this._strip.root,
      element("div", { class: "bar" },
        iconButton("first", "First step", () => this._stepTo(0)),
        iconButton("back", "One step back", () => this._stepTo(this._index - 1)),
        this._play,
        iconButton("forward", "One step on", () => this._stepTo(this._index + 1)),
        iconButton("last", "Last step", () => this._stepTo(Infinity)),
        this._slider, this._speed, element("label", {}, this._loop, "Loop")));
    this._choose = element("div", { class: "choose", hidden: true }, this._whoLabel, element("label", { for: "episode" }, "Episode", this._which),
      element("button", { type: "button", click: () => this._find() }, "Look again"));
    this.root = element("div", { class: "replay" }, this._choose, this._problem, this._body);
    this._find();
  }

  close() {
    this._closed = true;
    this.pause();
    this._forgetPictures();
    this._strip.close();
  }

  // --- what there is ---

  async _find() {
    try {
      const { players } = await ask(`/api/runs/${encodeURIComponent(this._run)}/recorded`);
      if (this._closed) return;
      this._players = players;
    } catch (error) {
      this._say(error.message);
      return;
    }
    if (!this._players.length) {
      this._say("This run has no recorded steps.");
      return;
    }
    this._choose.hidden = false;
    this._whoLabel.hidden = this._players.length < 2;
    this._who.replaceChildren(...this._players.map((each, i) => element("option", { value: i }, each.title)));
    // Whoever has frames goes first: people come here to see something.
    const filmed = this._players.findIndex((each) => each.frames.some(Boolean));
    this._choosePlayer(this._player ?? Math.max(0, filmed));
  }

  _choosePlayer(number) {
    this._player = number;
    this._who.value = number;
    const player = this._players[number];
    this._which.replaceChildren(...player.episode.map((each, i) => element("option", { value: each },
      `${numberText(each)}: return ${numberText(player.total[i])}, ${numberText(player.steps[i])} steps${player.frames[i] ? "" : ", no frames"}`)));
    const first = player.episode.find((_, i) => player.frames[i]) ?? player.episode[0];
    this._load(player.episode.includes(this._wanted) ? this._wanted : first);
  }

  async _load(episode) {
    const goOn = this._playing;
    this.pause();
    this._wanted = episode;
    this._which.value = episode;
    const { worker, agent } = this._players[this._player];
    let tape;
    try {
      tape = await ask(`/api/runs/${encodeURIComponent(this._run)}/tape`, { query: { worker, agent, episode } });
    } catch (error) {
      this._say(error.message);
      return;
    }
    if (this._closed || this._wanted !== episode) return;
    this._forgetPictures();
    this._tape = tape;
    this._say(tape.remarks.join("; "));
    this._body.hidden = false;
    this._slider.max = tape.step.length - 1;
    this._strip.show(tape);
    setText(this._says, tape.frames.some(Boolean) ? "" : "This episode was recorded without frames. Its numbers are below.");
    this._canvas.hidden = !tape.frames.some(Boolean);
    this._goTo(0);
    if (goOn) this.play();
  }

  _say(text) {
    setText(this._problem, text);
    this._problem.hidden = !text;
  }

  // --- where it is ---

  get _last() {
    return this._tape.step.length - 1;
  }

  /** Play, from the beginning if the end was reached. */
  play() {
    if (!this._tape) return;
    if (this._index === this._last) this._goTo(0);
    this._playing = true;
    this._labelPlay("pause", "Pause");
    this._anchor();
    this._tick();
  }

  pause() {
    this._playing = false;
    cancelAnimationFrame(this._timer);
    this._labelPlay("play", "Play");
  }

  /** Show a step, playing on from there if it plays. */
  seek(index) {
    if (!this._tape) return;
    this._goTo(Math.max(0, Math.min(this._last, index)));
    this._anchor();
  }

  _stepTo(index) {
    this.pause();
    this.seek(index);
  }

  _labelPlay(picture, label) {
    this._play.replaceChildren(icon(picture));
    this._play.setAttribute("aria-label", label);
    this._play.title = label;
  }

  _anchor() {
    if (this._tape) this._anchored = [this._tape.seconds[this._index], performance.now()];
  }

  _tick() {
    this._timer = requestAnimationFrame(() => {
      if (!this._playing) return;
      const [moment, then] = this._anchored;
      const now = moment + ((performance.now() - then) / 1000) * Number(this._speed.value);
      let index = this._index;
      while (index < this._last && this._tape.seconds[index + 1] <= now) index += 1;
      if (index !== this._index) this._goTo(index);
      else if (index === this._last) {
        // Only now: the last frame, too, is shown for a moment.
        if (!this._loop.checked || this._last === 0) return this.pause();
        this._goTo(0);
        this._anchor();
      }
      this._tick();
      return undefined;
    });
  }

  _goTo(index) {
    const tape = this._tape;
    this._index = index;
    this._slider.value = index;
    this._slider.setAttribute("aria-valuetext", `step ${tape.step[index]} of ${tape.step[this._last]}`);
    this._strip.mark(index);
    setText(this._numbers.step, `${numberText(tape.step[index])} of ${numberText(tape.step[this._last])}`);
    setText(this._numbers.reward, numberText(tape.reward[index]));
    setText(this._numbers.return, numberText(tape.total[index]));
    setText(this._numbers.action, tape.action[index] || "–");
    setText(this._numbers.time, `${tape.seconds[index].toFixed(2)} of ${tape.seconds[this._last].toFixed(2)} s`);
    this._showFrame(tape.frameOfStep[index]);
  }

  // --- frames ---

  async _showFrame(number) {
    if (this._tape.frames[number] === null) return;
    this._shown = number;
    for (let ahead = number + 1; this._playing && ahead <= number + AHEAD; ahead += 1) this._fetch(ahead);
    const picture = await this._fetch(number);
    // Of several wishes only the newest is granted: nobody waits for the others.
    if (!picture || this._shown !== number || this._closed) return;
    if (this._canvas.width !== picture.width || this._canvas.height !== picture.height) {
      this._canvas.width = picture.width;
      this._canvas.height = picture.height;
    }
    this._canvas.getContext("2d").drawImage(picture, 0, 0);
    this._canvas.dataset.frame = this._tape.frames[number];
    this._stage.style.setProperty("--shape", shape(picture.width / picture.height));
    this._stage.classList.toggle("crisp", picture.width * 2 <= this._stage.clientWidth);
  }

  _fetch(number) {
    const id = this._tape.frames[number];
    if (!id) return Promise.resolve(null);
    if (!this._pictures.has(number)) {
      if (this._pictures.size > 300) this._forgetPictures();
      this._pictures.set(number, fetch(`/api/runs/${encodeURIComponent(this._run)}/frames/${id}.png`)
        .then((answer) => { if (!answer.ok) throw new Error("A frame can not be read."); return answer.blob(); })
        .then(createImageBitmap)
        .catch((error) => { this._pictures.delete(number); this.pause(); notice(error.message, "bad"); return null; }));
    }
    return this._pictures.get(number);
  }

  _forgetPictures() {
    for (const picture of this._pictures.values()) picture.then((each) => each?.close());
    this._pictures.clear();
  }
}
