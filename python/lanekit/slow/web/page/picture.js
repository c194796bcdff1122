// A run's live picture, and the numbers over it. Frames come while the picture is on a screen.

import { reducedMotion } from "./appearance.js";
import { Connection } from "./connection.js";
import { element, setText } from "./elements.js";

const SMALL = 50_000; // pixels: such a frame is sent without loss
const SIZE_STEP = 64; // viewers of nearly the same size share one picture
const WORDS = {
  connected: "connected",
  reconnecting: "reconnecting",
  "fastlane-unavailable": "no picture",
};

/** Frames per second that a picture begins with. */
export function usualRate() {
  return reducedMotion.matches ? 2 : 30;
}

/** The stage takes on its picture's shape, unless that is an extreme one. */
export function shape(ratio) {
  return String(Math.max(1, Math.min(2.4, ratio)));
}

/** One run's newest frame on a canvas, with a HUD. */
export class LivePicture {
  constructor(runId, { lane = "", rate = usualRate(), compact = false } = {}) {
    this._path = `/api/runs/${encodeURIComponent(runId)}/pictures`;
    this._runId = runId;
    this._lane = lane;
    this._rate = rate;
    this._encoding = "jpeg";
    this._frozen = false;
    this._closed = false;
    this.frames = 0;
    this.canvas = element("canvas", { role: "img", "aria-label": `Live picture of ${runId}`, width: 16, height: 10 });
    this._says = element("p", { class: "says" }, "Waiting for the first picture");
    this._status = element("span");
    this._statusLine = element("div", { class: "status", "data-state": "waiting" }, element("i", { class: "dot" }), this._status);
    this._numbers = {};
    const rows = [["reward", "reward"], ["return", "return"], ["rate", "step/sec"]].flatMap(([key, name]) => {
      this._numbers[key] = element("dd", { "data-metric": key }, "–");
      return [element("dt", {}, name), this._numbers[key]];
    });
    this.hud = element("div", { class: "hud", role: "group", "aria-label": "Newest numbers" }, this._statusLine, element("dl", {}, ...rows));
    if (compact) this._statusLine.hidden = true;
    this.root = element("div", { class: "stage" }, this.canvas, this._says, this.hud);
    this._resized = new ResizeObserver(() => this._wish());
    this._resized.observe(this.root);
    this._seen = new IntersectionObserver(([entry]) => { this._onScreen = entry.isIntersecting; this._attend(); });
    this._seen.observe(this.root);
    this._onVisibility = () => this._attend();
    document.addEventListener("visibilitychange", this._onVisibility);
    this._tellStatus("fastlane-unavailable");
  }

  setRate(rate) {
    this._rate = rate;
    this._wish();
  }

  /** Keep the picture as it is, or go on. The run is not touched. */
  freeze(frozen) {
    this._frozen = frozen;
    this._attend();
  }

  close() {
    this._closed = true;
    this._attend();
    this._resized.disconnect();
    this._seen.disconnect();
    document.removeEventListener("visibilitychange", this._onVisibility);
  }

  /** Hold a connection while somebody can see the picture, and no longer: watching costs a run something. */
  _attend() {
    const wanted = !this._closed && !this._frozen && this._onScreen && !document.hidden;
    if (wanted && !this._connection) {
      this._connection = new Connection(this._path, {
        query: () => ({ lane: this._lane }),
        onMessage: (message) => this._take(message),
        onState: (state, reason) => {
          if (state === "open") this._wish();
          else this._tellStatus("reconnecting", reason || "The daemon does not answer. The picture goes on when it does.");
        },
      });
    } else if (!wanted && this._connection) {
      this._connection.close();
      this._connection = null;
    }
  }

  _wish() {
    const ratio = devicePixelRatio || 1;
    const rounded = (size) => Math.max(SIZE_STEP, Math.ceil((size * ratio) / SIZE_STEP) * SIZE_STEP);
    this._connection?.send({
      rate: this._rate, width: rounded(this.root.clientWidth), height: rounded(this.root.clientHeight), encoding: this._encoding,
    });
  }

  async _take(message) {
    if (!(message instanceof ArrayBuffer)) {
      this._tell(message);
      return;
    }
    const length = new DataView(message).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 4, length)));
    const picture = await createImageBitmap(new Blob([new Uint8Array(message, 4 + length)]));
    await new Promise(requestAnimationFrame);
    if (this._closed) return;
    if (this.canvas.width !== picture.width || this.canvas.height !== picture.height) {
      this.canvas.width = picture.width;
      this.canvas.height = picture.height;
    }
    this.canvas.getContext("2d").drawImage(picture, 0, 0);
    picture.close();
    this.frames += 1;
    this.canvas.dataset.seq = head.seq;
    this.root.style.setProperty("--shape", shape(head.sourceWidth / head.sourceHeight));
    this.root.classList.toggle("crisp", head.sourceWidth * 2 <= this.root.clientWidth);
    this._tell(head);
    const encoding = head.sourceWidth * head.sourceHeight <= SMALL ? "png" : "jpeg";
    if (encoding !== this._encoding) {
      this._encoding = encoding;
      this._wish();
    }
  }

  _tell(head) {
    this._tellStatus(head.status, this.frames ? "" : head.problem && "Nobody publishes pictures of this run now. One appears as soon as a worker does.");
    if (!head.metrics) return;
    setText(this._numbers.reward, fixed(head.metrics.reward, 2));
    setText(this._numbers.return, fixed(head.metrics.return, 2));
    setText(this._numbers.rate, fixed(head.metrics.rate, 1));
  }

  _tellStatus(status, words = "") {
    this._statusLine.dataset.state = status;
    setText(this._status, WORDS[status]);
    setText(this._says, this.frames ? "" : words || "Waiting for the first picture");
    this.hud.hidden = status === "fastlane-unavailable" && !this.frames;
  }
}

/** A number with so many decimals; a dash for what JSON has no number for: a NaN, an infinity. */
function fixed(value, decimals) {
  return value === null ? "–" : value.toFixed(decimals);
}
