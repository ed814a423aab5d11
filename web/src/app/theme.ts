import { useState } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "clearseal.theme";

/** The chosen theme. `public/theme.js` applies a stored choice before first paint. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(stored);
  return [
    theme,
    (next) => {
      apply(next);
      setTheme(next);
    },
  ];
}

function stored(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

function apply(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage is disabled: the choice lasts until the tab closes.
  }
}
