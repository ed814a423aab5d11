import type { ComponentType } from "react";
import { fetchPageFile, hashOf } from "./page-file";
import { FileChanged } from "./pinned";
import { Store } from "./store";

export type PartView =
  | { readonly at: "loading" }
  | { readonly at: "loaded"; readonly Content: ComponentType }
  | { readonly at: "failed"; readonly error: Error };

/** The import map has no hash for an address: the browser would run whatever the server sends for it. */
export class NoHash extends Error {
  constructor(address: string, cause: unknown) {
    super(`this page has no hash for ${address}, and imports nothing without one`, { cause });
    this.name = "NoHash";
  }
}

interface Content {
  readonly default: ComponentType;
}

/** Pauses before the further attempts. */
const PAUSES_MS = [500, 1_500, 4_000];

/** A part of the page with its own script and styles, which load when it is first shown. */
export class Part extends Store<PartView> {
  readonly #import: () => Promise<Content>;
  readonly #importAt: (address: string) => Promise<Content>;
  readonly #files: readonly string[];
  #attempts = 0;
  #failedImports = 0;
  #loading: Promise<void> | null = null;

  /** `name` is that of its file, by which the build lists what it consists of (vite.config.ts). */
  constructor(
    name: string,
    load: () => Promise<Content>,
    importAt: (address: string) => Promise<Content> = (address) => import(/* @vite-ignore */ address),
  ) {
    super({ at: "loading" });
    this.#import = load;
    this.#importAt = importAt;
    this.#files = filesOf(name);
  }

  /** Loads it, unless it is loaded or loading. */
  readonly load = (): Promise<void> => {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  };

  /** Brings its files into the browser's cache without running them. A failure here has no consequence. */
  readonly prefetch = async (): Promise<void> => {
    if (this.#attempts > 0) return;
    for (const file of this.#files) {
      const answer = await fetchPageFile(file, { priority: "low" }).catch(() => null);
      await answer?.arrayBuffer().catch(() => null);
    }
  };

  async #load(): Promise<void> {
    if (this.get().at === "loaded") return;
    this.show({ at: "loading" });
    for (let attempt = 0; ; attempt += 1) {
      try {
        this.show({ at: "loaded", Content: (await this.#attempt()).default });
        return;
      } catch (cause) {
        const pause = PAUSES_MS[attempt];
        if (pause === undefined || !navigator.onLine || isFinal(cause)) {
          this.show({ at: "failed", error: cause instanceof Error ? cause : new Error(String(cause)) });
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #attempt(): Promise<Content> {
    this.#attempts += 1;
    const [script, ...styles] = this.#files;
    const styled = Promise.all(styles.map((style) => loadStyle(style, this.#attempts)));
    const [content] = await Promise.all([this.#importScript(script), styled]);
    return content;
  }

  /** A module whose fetch failed stays failed under its address (HTML §8.1.4.2), so that further attempts need others. */
  async #importScript(script: string | undefined): Promise<Content> {
    const retries = script !== undefined && this.#failedImports > 0;
    const address = retries ? `${script}?attempt=${this.#failedImports + 1}` : script;
    if (address !== undefined) requireHash(address);
    // The import map lists few other addresses: uses one only when the file arrives.
    if (retries) await (await fetchPageFile(script, { cache: "reload" })).arrayBuffer();
    try {
      return retries && address !== undefined ? await this.#importAt(address) : await this.#import();
    } catch (cause) {
      this.#failedImports += 1;
      throw cause;
    }
  }
}

/** A further attempt in this load of the page would fail alike. */
function isFinal(cause: unknown): boolean {
  return cause instanceof FileChanged || cause instanceof NoHash;
}

function requireHash(address: string): void {
  try {
    hashOf(address);
  } catch (cause) {
    throw new NoHash(address, cause);
  }
}

/** Script and styles of a part, as the build lists them in the page; none in development. */
function filesOf(part: string): readonly string[] {
  const list = document.querySelector<HTMLMetaElement>(`meta[name="part-${part}"]`);
  return list?.content.split(" ") ?? [];
}

/**
 * Inserts the style sheet before the import: Vite then inserts no element, which would have no hash. A browser may keep a failed
 * answer, so that further attempts need other addresses.
 */
function loadStyle(file: string, attempt: number): Promise<void> {
  if (document.querySelector(`link[data-part="${file}"]`)) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.crossOrigin = "anonymous";
    link.integrity = hashOf(file) ?? "";
    link.dataset.part = file;
    link.href = attempt === 1 ? file : `${file}?attempt=${attempt}`;
    link.onload = () => resolve();
    link.onerror = () => {
      link.remove();
      fetchPageFile(file, { cache: "reload" }).then(
        () => reject(new Error(`${file} could not be loaded`)),
        (cause: unknown) => reject(cause),
      );
    };
    document.head.append(link);
  });
}
