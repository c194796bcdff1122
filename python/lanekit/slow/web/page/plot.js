// A plot of one number: faint as it is, strong smoothed; as quick with a million as with a few.

import { agentColour, colour, onAppearance } from "./appearance.js";
import { element, setText } from "./elements.js";
import { numberText, padded, ticks, tickTexts } from "./numbers.js";

const LEFT = 52;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 26;
const MOST_LINES = 8;

export class Plot {
  constructor(title, axis, { wide = false } = {}) {
    this._axis = axis;
    this._curves = [];
    this._window = 1;
    this._named = false;
    this._place = null;
    this._summary = element("span", { class: "legend quiet" });
    this._canvas = element("canvas", {
      tabindex: "0", role: "img", "aria-label": title,
      pointermove: (event) => this._point(event), pointerleave: () => this._read(null),
      keydown: (event) => this._step(event), blur: () => this._read(null),
    });
    this._readOut = element("div", { class: "read-out", hidden: true });
    this._spoken = element("span", { class: "visually-hidden", role: "status" });
    this.root = element("figure", { class: wide ? "card plot wide" : "card plot" },
      element("figcaption", {}, element("span", {}, title), this._summary),
      element("div", { class: "drawing" }, this._canvas, this._readOut), this._spoken);
    this._title = title;
    this._resized = new ResizeObserver(() => this._draw());
    this._resized.observe(this._canvas);
    this._forget = onAppearance(() => { this._summarise(); this._draw(); });
  }

  /** Show curves: `{ name, number, series, start }`, and their means over `window`; with a legend if they are `named`. */
  show(curves, window, named = false) {
    this._named = named;
    this._curves = curves.filter((curve) => curve.series.length);
    this._window = window;
    this._summarise();
    if (!this._waiting) {
      this._waiting = requestAnimationFrame(() => { this._waiting = 0; this._draw(); });
    }
  }

  close() {
    cancelAnimationFrame(this._waiting);
    this._resized.disconnect();
    this._forget();
  }

  _summarise() {
    const mean = ({ series }) => numberText(series.mean(series.length - 1, this._window));
    const texts = this._curves.slice(0, MOST_LINES).map((curve) => {
      const last = `last ${numberText(curve.series.last)}`;
      return this._window > 1 ? `${last} · mean of ${this._window}: ${mean(curve)}` : last;
    });
    const more = this._curves.length - texts.length;
    const legend = this._named && texts.length > 0;
    if (legend) {
      const value = (curve) => (this._window > 1 ? mean(curve) : numberText(curve.series.last));
      this._summary.replaceChildren(...this._curves.slice(0, MOST_LINES).map((curve) =>
        element("span", {}, coloured(curve.number), `${curve.name} `, element("b", {}, value(curve)))), more > 0 ? `and ${more} more` : "");
    } else setText(this._summary, texts[0] ?? "nothing yet");
    const said = legend ? this._curves.slice(0, MOST_LINES).map(({ name }, i) => `${name}: ${texts[i]}`).join("; ") : texts[0] ?? "nothing yet";
    this._canvas.setAttribute("aria-label", `${this._title}: ${said}. Left and right arrow keys read values.`);
  }

  // --- drawing ---

  _scale(width, height) {
    let [first, last, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { series, start } of this._curves) {
      first = Math.min(first, start);
      last = Math.max(last, start + series.length - 1);
      for (let i = 0; i < series.length; i += 1) {
        const value = series.values[i];
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    [low, high] = padded(low, high);
    if (!Number.isFinite(first)) [first, last] = [0, 1];
    return {
      first, last, low, high,
      x: (place) => LEFT + ((place - first) / Math.max(last - first, 1e-9)) * (width - LEFT - RIGHT),
      y: (value) => TOP + ((high - value) / (high - low)) * (height - TOP - BOTTOM),
    };
  }

  _draw() {
    const { clientWidth: width, clientHeight: height } = this._canvas;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    this._canvas.width = Math.round(width * ratio);
    this._canvas.height = Math.round(height * ratio);
    const pen = this._canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const scale = this._scale(width, height);
    this._drawnScale = scale;
    this._drawAxes(pen, scale, width, height);
    const columns = Math.max(2, Math.floor(width - LEFT - RIGHT));
    const smooth = this._window > 1;
    for (const curve of this._curves) {
      pen.strokeStyle = agentColour(curve.number);
      pen.lineJoin = "round";
      pen.globalAlpha = smooth ? 0.4 : 1;
      pen.lineWidth = smooth ? 1 : 1.6;
      drawRaw(pen, curve, scale, columns);
      pen.globalAlpha = 1;
      if (smooth) {
        pen.lineWidth = 2;
        drawMeans(pen, curve, scale, columns, this._window);
      }
    }
    if (this._place !== null) this._drawMark(pen, scale, height);
  }

  _drawAxes(pen, scale, width, height) {
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.fillStyle = colour("quiet");
    pen.strokeStyle = colour("outline");
    pen.lineWidth = 1;
    const levels = ticks(scale.low, scale.high, Math.max(2, Math.floor((height - TOP - BOTTOM) / 44)));
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    tickTexts(levels).forEach((text, i) => {
      const y = Math.round(scale.y(levels[i])) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, y);
      pen.lineTo(width - RIGHT, y);
      pen.stroke();
      pen.fillText(text, LEFT - 8, y);
    });
    pen.textAlign = "right";
    pen.textBaseline = "alphabetic";
    pen.fillText(this._axis, width - RIGHT, height - 8);
    const free = width - RIGHT - pen.measureText(this._axis).width - 12;
    const places = ticks(scale.first, scale.last, Math.max(2, Math.floor((width - LEFT - RIGHT) / 90)), true);
    pen.textAlign = "center";
    tickTexts(places).forEach((text, i) => {
      const x = scale.x(places[i]);
      if (x + pen.measureText(text).width / 2 < free) pen.fillText(text, x, height - 8);
    });
  }

  _drawMark(pen, scale, height) {
    const x = Math.round(scale.x(this._place)) + 0.5;
    pen.strokeStyle = colour("quiet");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, TOP);
    pen.lineTo(x, height - BOTTOM);
    pen.stroke();
  }

  // --- reading values ---

  _point(event) {
    const scale = this._drawnScale;
    const width = this._canvas.clientWidth - LEFT - RIGHT;
    const share = (event.offsetX - LEFT) / Math.max(1, width);
    this._read(Math.round(scale.first + share * (scale.last - scale.first)));
  }

  _step(event) {
    const jump = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    if (jump === undefined || !this._drawnScale) return;
    event.preventDefault();
    this._read((this._place ?? this._drawnScale.last) + jump, true);
  }

  _read(place, speak = false) {
    const scale = this._drawnScale;
    this._place = place === null || !scale ? null : Math.max(scale.first, Math.min(scale.last, place));
    const lines = this._place === null ? [] : this._linesAt(this._place);
    this._readOut.hidden = !lines.length;
    if (lines.length) {
      this._readOut.replaceChildren(element("div", { class: "quiet" }, `${this._axis} ${numberText(this._place)}`),
        ...lines.map(([number, text]) => element("div", {}, coloured(number), text)));
      const x = scale.x(this._place);
      const left = x + 12 + this._readOut.offsetWidth > this._canvas.clientWidth ? x - 12 - this._readOut.offsetWidth : x + 12;
      this._readOut.style.left = `${Math.max(2, left)}px`;
      if (speak) this._spoken.textContent = `${this._axis} ${this._place}: ${lines.map(([, text]) => text).join(", ")}`;
    }
    this._draw();
  }

  _linesAt(place) {
    const lines = [];
    for (const { name, number, series, start } of this._curves) {
      const index = place - start;
      if (index < 0 || index >= series.length) continue;
      let text = `${name ? `${name}  ` : ""}${numberText(series.values[index])}`;
      if (this._window > 1) text += ` · mean ${numberText(series.mean(index, this._window))}`;
      lines.push([number, text]);
    }
    return lines.slice(0, MOST_LINES);
  }
}

/** An agent's mark, in its colour. */
function coloured(number) {
  const mark = element("i", { class: "dot" });
  mark.style.background = agentColour(number);
  return mark;
}

/** Draw a line as it is: at most a low and a high in each column of pixels. */
function drawRaw(pen, { series, start }, scale, columns) {
  const { values, length } = series;
  pen.beginPath();
  if (length <= 2 * columns) {
    for (let i = 0; i < length; i += 1) point(pen, scale, start + i, values[i]);
    if (length === 1) dot(pen, scale, start, values[0]);
  } else {
    for (let column = 0; column < columns; column += 1) {
      const begin = Math.floor((column * length) / columns);
      const end = Math.floor(((column + 1) * length) / columns);
      let [low, high] = [Infinity, -Infinity];
      for (let i = begin; i < end; i += 1) {
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
      }
      if (low > high) continue;
      const place = start + (begin + end - 1) / 2;
      point(pen, scale, place, low);
      point(pen, scale, place, high);
    }
  }
  pen.stroke();
}

function drawMeans(pen, { series, start }, scale, columns, window) {
  pen.beginPath();
  const points = Math.min(series.length, columns);
  // Narrower than a pixel would be chance, not a mean.
  const width = Math.max(window, Math.floor(series.length / points));
  for (let i = 1; i <= points; i += 1) {
    const index = Math.floor((i * series.length) / points) - 1;
    point(pen, scale, start + index, series.mean(index, width));
  }
  pen.stroke();
}

function point(pen, scale, place, value) {
  if (!Number.isNaN(value)) pen.lineTo(scale.x(place), scale.y(value));
}

function dot(pen, scale, place, value) {
  pen.moveTo(scale.x(place) + 2, scale.y(value));
  pen.arc(scale.x(place), scale.y(value), 2, 0, 2 * Math.PI);
}
