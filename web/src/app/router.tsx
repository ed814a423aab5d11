import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

/** The path shown now; changes with the back and forward buttons too. */
export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname);
}

/** Goes to a page of this site without loading anything. */
export function navigate(to: string): void {
  if (to === location.pathname) return;
  history.pushState(null, "", to);
  scrollTo(0, 0);
  for (const listener of listeners) listener();
}

/** An ordinary link: opening it in a new tab works as everywhere. */
export function Link({
  to,
  onClick,
  ...rest
}: { to: string } & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href">) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !plain) return;
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
