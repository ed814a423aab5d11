import { Button } from "../ui/Button";
import type { IconName } from "../ui/Icon";
import { Link } from "./router";
import { type Theme, useTheme } from "./theme";

const PAGES = [
  { to: "/", label: "Embed" },
  { to: "/benchmarks", label: "Benchmarks" },
  { to: "/audit", label: "Audit" },
];

const THEMES: Record<Theme, { icon: IconName; next: Theme }> = {
  system: { icon: "screen", next: "light" },
  light: { icon: "sun", next: "dark" },
  dark: { icon: "moon", next: "system" },
};

export function Header({ path }: { path: string }) {
  const [theme, setTheme] = useTheme();
  const { icon, next } = THEMES[theme];
  return (
    <header className="header">
      <div className="header-inner">
        <Link to="/" className="brand">
          <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
            <circle cx="10" cy="10" r="7.5" />
          </svg>
          Clearseal
        </Link>
        <nav aria-label="Pages">
          <ul>
            {PAGES.map(({ to, label }) => (
              <li key={to}>
                <Link to={to} aria-current={path === to ? "page" : undefined}>
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <Button kind="quiet" icon={icon} iconOnly onClick={() => setTheme(next)}>
          {`Theme: ${theme}. Change to ${next}`}
        </Button>
      </div>
    </header>
  );
}
