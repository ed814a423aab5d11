// Shows a message if the browser refuses a script or style of the page, or cannot load one: the rest of the page may never run.
// A part that loads later reports its own failure.
addEventListener(
  "error",
  ({ target }) => {
    if (!(target instanceof HTMLElement) || !target.matches("[integrity]:not([data-part])")) return;
    const show = () => document.getElementById("blocked")?.removeAttribute("hidden");
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", show);
    else show();
  },
  true,
);

// Runs before first paint, so that the page never flashes in the wrong theme. By default, the page stores nothing else.
try {
  const theme = localStorage.getItem("clearseal.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is disabled: use the system's theme.
}

// Selects the head of the requested page, which React later renders in the same position.
document.documentElement.dataset.page =
  { "/benchmarks": "benchmarks", "/audit": "audit" }[location.pathname] ?? "embed";
