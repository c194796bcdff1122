// An episode's rewards and their sum over its steps, with a mark where the replay is.

import { colour, onAppearance } from "./appearance.js";
import { element } from "./elements.js";

const SIDE = 12;
const TOP = 28;
const BOTTOM = 8;

export class RewardStrip {
  constructor(onSeek) {
    this._tape = null;
    this._index = 0;
    this._span = element("span", { class: "span" });
    this._canvas = element("canvas", {
      "aria-hidden": "true", // the slider below says the same to those who do not see it
      pointerdown: (event) => { this._canvas.setPointerCapture(event.pointerId); this._seek(event, onSeek); },
      pointermove: (event) => { if (event.buttons & 1) this._seek(event, onSeek); },
    });
    this.root = element("div", { class: "strip" }, this._canvas,
      element("p", {}, element("span", { class: "of-return" }, "return so far"), element("span", { class: "of-reward" }, "reward"), this._span));
    this._resized = new ResizeObserver(() => this._draw());
    this._resized.observe(this._canvas);
    this._forget = onAppearance(() => this._draw());
  }

  show(tape) {
    this._tape = tape;
    const totals = tape.total.filter((each) => each !== null);
    const text = (value) => String(Number(value.toPrecision(5)));
    this._span.textContent = `return from ${text(Math.min(...extremes(totals)))} to ${text(Math.max(...extremes(totals)))}`;
    this._draw();
  }

  mark(index) {
    this._index = index;
    this._draw();
  }

  close() {
    this._resized.disconnect();
    this._forget();
  }

  _seek(event, onSeek) {
    const last = this._tape.step.length - 1;
    const share = (event.offsetX - SIDE) / Math.max(1, this._canvas.clientWidth - 2 * SIDE);
    onSeek(Math.max(0, Math.min(last, Math.round(share * last))));
  }

  _draw() {
    const { clientWidth: width, clientHeight: height } = this._canvas;
    if (!this._tape || !width) return;
    const ratio = devicePixelRatio || 1;
    this._canvas.width = Math.round(width * ratio);
    this._canvas.height = Math.round(height * ratio);
    const pen = this._canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const steps = Math.max(1, this._tape.step.length - 1);
    const x = (index) => SIDE + ((width - 2 * SIDE) * index) / steps;
    this._line(pen, this._tape.reward.map((each) => each ?? 0), x, height, colour("good"), 1, 0.65);
    this._line(pen, this._tape.total, x, height, colour("accent"), 2, 1);
    pen.strokeStyle = colour("waiting");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(Math.round(x(this._index)), TOP - 4);
    pen.lineTo(Math.round(x(this._index)), height - 4);
    pen.stroke();
  }

  _line(pen, values, x, height, strokeStyle, lineWidth, alpha) {
    let [low, high] = extremes(values);
    if (low === high) [low, high] = [low - 1, high + 1];
    Object.assign(pen, { strokeStyle, lineWidth, globalAlpha: alpha, lineJoin: "round" });
    pen.beginPath();
    values.forEach((value, index) => {
      if (value !== null) pen.lineTo(x(index), TOP + ((height - TOP - BOTTOM) * (high - value)) / (high - low));
    });
    pen.stroke();
    pen.globalAlpha = 1;
  }
}

/** The lowest and the highest; not by Math.min(...values), whose arguments run out. */
function extremes(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
