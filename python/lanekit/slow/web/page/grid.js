// Several runs side by side: those that were put here, else all that are live.

import { element, setText } from "./elements.js";
import { numberText } from "./numbers.js";
import { LivePicture, usualRate } from "./picture.js";
import { kindOf } from "./runs.js";

const MOST = 16;
const TILE_RATE = 15;

export class GridView {
  constructor(book, pins) {
    this._book = book;
    this._pins = pins;
    this._tiles = new Map();
    this._grid = element("div", { class: "grid" });
    this._about = element("p", { class: "quiet", role: "status" });
    this.root = element("section", { "aria-label": "Grid of runs" }, element("h1", { class: "visually-hidden" }, "Grid"), this._about, this._grid);
    this._listen = new AbortController();
    for (const each of [book, pins]) each.addEventListener("change", () => this._show(), { signal: this._listen.signal });
    this._show();
  }

  close() {
    this._listen.abort();
    for (const tile of this._tiles.values()) tile.picture.close();
  }

  _show() {
    const pinned = [...this._pins.ids].map((id) => this._book.runs.get(id)).filter(Boolean);
    const runs = (pinned.length ? pinned : this._book.newestFirst.filter((run) => kindOf(run) === "live")).slice(0, MOST);
    const shown = new Set(runs.map((run) => run.id));
    for (const [id, tile] of this._tiles) {
      if (!shown.has(id)) {
        tile.picture.close();
        tile.root.remove();
        this._tiles.delete(id);
      }
    }
    runs.forEach((run, i) => {
      const tile = this._tiles.get(run.id) ?? this._newTile(run);
      this._update(tile, run);
      const there = this._grid.children[i];
      if (there !== tile.root) this._grid.insertBefore(tile.root, there ?? null);
    });
    setText(this._about, this._words(runs.length, pinned.length));
  }

  _words(shown, pinned) {
    if (!this._book.complete) return "Waiting for the daemon";
    if (pinned) return `The ${shown === 1 ? "run" : `${shown} runs`} that you put here.`;
    return shown ? "All live runs. Put runs here with the squares in the list of runs." : "No run is live. Put runs here with the squares in the list of runs.";
  }

  _newTile(run) {
    const picture = new LivePicture(run.id, { rate: Math.min(usualRate(), TILE_RATE), compact: true });
    const tile = { picture, state: element("span"), steps: element("span", { class: "quiet" }) };
    tile.foot = element("div", { class: "foot" }, element("i", { class: "dot" }), element("span", { class: "name" }, run.id), tile.state, tile.steps);
    // The picture is small enough: its numbers go below it.
    tile.root = element("a", { class: "card tile", href: `#/run/${encodeURIComponent(run.id)}`, "aria-label": `Open ${run.id}` }, picture.root, tile.foot, picture.hud);
    this._tiles.set(run.id, tile);
    return tile;
  }

  _update(tile, run) {
    tile.foot.dataset.state = run.state;
    setText(tile.state, run.state);
    setText(tile.steps, run.steps === null ? "" : `${numberText(run.steps)} steps`);
  }
}
