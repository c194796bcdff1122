// Logging in with the daemon's token, and requests that notice when that is needed.

import { address } from "./connection.js";

/** Ask the daemon. Throws an Error with the daemon's words. */
export async function ask(path, { method = "GET", query = {}, body } = {}) {
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error("The daemon does not answer. It may be restarting.");
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await answer.json().then((told) => told.problem, () => "");
  const error = new Error(problem || `The daemon answered ${answer.status}.`);
  error.status = answer.status;
  throw error;
}

/** Wait until this browser may talk to the daemon: by its cookie, its address, or the reader. */
export async function loggedIn() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.get("token")) {
    // Out of sight, and out of the history; what is left names the run to open on.
    const run = given.get("run");
    history.replaceState(null, "", run ? `${location.pathname}#/run/${encodeURIComponent(run)}` : location.pathname);
    await ask("/api/login", { method: "POST", body: { token: given.get("token") } }).catch(() => {});
  }
  while (true) {
    try {
      return await ask("/api/session");
    } catch (error) {
      if (error.status === 401) await askForToken();
      else await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

/** Whether the daemon still knows this browser; true also if it can not be asked. */
export async function stillLoggedIn() {
  return ask("/api/session").then(() => true, (error) => error.status !== 401);
}

function askForToken() {
  const dialog = document.getElementById("login");
  const form = document.getElementById("login-form");
  const token = document.getElementById("token");
  const problem = document.getElementById("login-problem");
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  if (!dialog.open) dialog.showModal();
  token.focus();
  return new Promise((resolve) => {
    form.onsubmit = async (event) => {
      event.preventDefault();
      problem.textContent = "";
      try {
        await ask("/api/login", { method: "POST", body: { token: token.value } });
      } catch (error) {
        problem.textContent = error.status === 401 ? "This is not the daemon’s token." : error.message;
        token.select();
        return;
      }
      token.value = "";
      dialog.close();
      resolve();
    };
  });
}

/** Forget this browser. */
export async function logOut() {
  await ask("/api/logout", { method: "POST", body: {} });
  location.reload();
}
