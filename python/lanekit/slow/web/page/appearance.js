// Dark or light: the system's wish, unless the reader chose; and colours for what is drawn.

const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

/** Whether the reader asked the system for little motion. */
export const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

function choice() {
  return localStorage.getItem("lanekit-theme") ?? "system";
}

function apply() {
  const chosen = choice();
  const isDark = chosen === "dark" || (chosen === "system" && dark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  for (const listener of listeners) listener();
}

/** Follow the select element, and the system. */
export function startAppearance(select) {
  select.value = choice();
  select.addEventListener("change", () => {
    localStorage.setItem("lanekit-theme", select.value);
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

/** Call back whenever the colours change; returns how to stop that. */
export function onAppearance(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A colour of the theme, by its name in theme.css. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** An agent's colour: the accent, and others as far from each other as can be. */
export function agentColour(number) {
  if (number === 0) return colour("accent");
  const isDark = document.documentElement.dataset.theme === "dark";
  const hue = (206 + number * 137.508) % 360;
  return `hsl(${hue.toFixed(0)} 78% ${isDark ? 66 : 38}%)`;
}
