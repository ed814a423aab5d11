// Before first paint, so that a chosen theme never flashes the other one. The choice is the only thing this page stores.
try {
  const theme = localStorage.getItem("clearseal.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the system's theme is right.
}

// Before first paint too: head and lead of the page that was asked for, which React then draws in the same place.
document.documentElement.dataset.page =
  { "/benchmarks": "benchmarks", "/audit": "audit" }[location.pathname] ?? "embed";
