// The page: who may see it, what the address says to show, and how the daemon is.

import { startAppearance } from "./appearance.js";
import { element, setText } from "./elements.js";
import { GridView } from "./grid.js";
import { RunList } from "./run-list.js";
import { RunView } from "./run-view.js";
import { Pins, RunBook } from "./runs.js";
import { loggedIn, logOut, stillLoggedIn } from "./session.js";

const main = document.getElementById("main");
const daemon = document.getElementById("daemon");
let view = null;

/** What an address after the # names. */
function place() {
  const [kind, run, tab, episode] = location.hash.replace(/^#\/?/, "").split("/");
  if (kind === "grid") return { view: "grid" };
  if (kind !== "run" || !run) return { view: "runs" };
  const known = ["live", "replay", "log"].includes(tab);
  return { view: "run", run: decoded(run), tab: known ? tab : "live", episode: episode === undefined ? undefined : Number(episode) };
}

/** What was encoded for an address; an address that somebody typed may not be encoded at all. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function nothingChosen() {
  return {
    root: element("div", { class: "empty" },
      element("h1", {}, "Choose a run"),
      element("p", {}, "Runs appear in the list as soon as the daemon hears of them. To start one:"),
      element("p", {}, element("code", {}, "lanekit run --worker demo"))),
    close() {},
  };
}

function show(book, pins, list) {
  const wanted = place();
  document.body.dataset.view = wanted.view;
  for (const [id, current] of [["to-runs", wanted.view !== "grid"], ["to-grid", wanted.view === "grid"]]) {
    const link = document.getElementById(id);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  list.setCurrent(wanted.run ?? null);
  document.title = wanted.run ? `${wanted.run} · lanekit` : "lanekit";
  if (wanted.view === "run" && view instanceof RunView && view.runId === wanted.run) {
    view.show(wanted.tab, wanted.episode);
    return;
  }
  view?.close();
  if (wanted.view === "grid") view = new GridView(book, pins);
  else if (wanted.view === "run") view = new RunView(wanted.run, book);
  else view = nothingChosen();
  main.replaceChildren(view.root);
  if (wanted.view === "run") view.show(wanted.tab, wanted.episode);
  main.scrollTop = 0;
}

async function tellDaemon(book, host) {
  daemon.dataset.state = book.connected ? "connected" : "reconnecting";
  setText(daemon.lastElementChild, book.connected ? `daemon on ${host}` : "daemon away, reconnecting");
  // A refused websocket does not say why.
  if (!book.connected && !(await stillLoggedIn())) location.reload();
}

startAppearance(document.getElementById("theme"));
// The address after the # says what is shown, so the link must not change it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("log-out").addEventListener("click", logOut);
const { host } = await loggedIn();
const book = new RunBook();
const pins = new Pins();
const list = new RunList(document.getElementById("runs"), book, pins);
book.addEventListener("state", () => tellDaemon(book, host));
addEventListener("hashchange", () => show(book, pins, list));
show(book, pins, list);
