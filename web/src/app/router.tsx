import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

/** The current path; follows the back and forward buttons. */
export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname);
}

/** Navigates to a page of this site without a page load. */
export function navigate(to: string): void {
  if (to === location.pathname) return;
  history.pushState(null, "", to);
  scrollTo(0, 0);
  for (const listener of listeners) listener();
}

/** A link that also works in a new tab. */
export function Link({
  to,
  onClick,
  ...rest
}: { to: string } & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href">) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const unmodified =
      event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !unmodified) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={to} onClick={follow} {...rest} />;
}

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    removeEventListener("popstate", listener);
  };
}
