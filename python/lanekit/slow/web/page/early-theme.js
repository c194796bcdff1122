// Runs before anything is painted: a dark page that is light for a moment dazzles. appearance.js goes on from here.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("lanekit-theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  const isDark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}
