import { useSyncExternalStore } from "react";

/** 256 RGBA colours between the ramp's three tokens. The children of `probe` resolve the tokens in the current theme. */
export function colours(probe: HTMLElement): Uint8ClampedArray {
  const canvas = document.createElement("canvas");
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) return new Uint8ClampedArray(1024).fill(255);
  const gradient = context.createLinearGradient(0, 0, 256, 0);
  const stops = Array.from(probe.children, (child) => getComputedStyle(child).color);
  for (const [at, colour] of stops.entries())
    gradient.addColorStop(at / Math.max(1, stops.length - 1), colour);
  context.fillStyle = gradient;
  context.fillRect(0, 0, 256, 1);
  return context.getImageData(0, 0, 256, 1).data;
}

/** Changes whenever the theme does: through the system's setting or the page's switch. */
export function useThemeChange(): string {
  return useSyncExternalStore(subscribe, snapshot);
}

function subscribe(listener: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  system.addEventListener("change", listener);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", listener);
  };
}

function snapshot(): string {
  return document.documentElement.dataset.theme ?? String(matchMedia("(prefers-color-scheme: dark)").matches);
}
