import { Store } from "../../ui/store";
import { type KeptWork, type WorkStorage, workStorage } from "./kept";
import { indicesAt, type Run, workOf } from "./run";
import type { RunStore } from "./run-store";

export interface KeptView {
  /** Whether texts and vectors outlive the tab. */
  readonly stored: boolean;
  /** When the displayed items were stored, in Unix milliseconds; null if this tab embedded them. */
  readonly fromMs: number | null;
  readonly problem: string | null;
}

/** Keeps texts and vectors across reloads if the user asks for it; otherwise stores nothing. */
export class KeptStore extends Store<KeptView> {
  #saved: Run | null = null;
  readonly #runs: RunStore;
  readonly #storage: WorkStorage;
  readonly #now: () => number;

  constructor(runs: RunStore, storage: WorkStorage = workStorage, now: () => number = Date.now) {
    super({ stored: false, fromMs: null, problem: null });
    this.#runs = runs;
    this.#storage = storage;
    this.#now = now;
    runs.subscribe(() => void this.#follow());
  }

  /** Restores stored items, unless this tab has embedded others meanwhile. */
  readonly load = async (): Promise<void> => {
    try {
      const kept = await this.#storage.load();
      if (!kept) return;
      this.change({ stored: true });
      if (!this.#runs.restore(kept)) return;
      this.#saved = this.#runs.get();
      this.change({ fromMs: kept.keptAtMs });
    } catch {
      // Without storage, results last as long as the tab, which is the default.
    }
  };

  /** Sets whether items outlive the tab. Switching it off erases stored ones. */
  readonly store = async (stored: boolean): Promise<void> => {
    this.change({ stored, problem: null });
    this.#saved = null;
    await this.#save();
  };

  async #follow(): Promise<void> {
    const run = this.#runs.get();
    if (run === this.#saved || (run.at !== "finished" && run.at !== "stopped")) return;
    if (this.get().fromMs !== null) this.change({ fromMs: null });
    if (this.get().stored) await this.#save();
  }

  async #save(): Promise<void> {
    this.#saved = this.#runs.get();
    try {
      const kept = this.get().stored ? toKeptWork(this.#saved, this.#now()) : null;
      if (kept) await this.#storage.save(kept);
      else await this.#storage.erase();
    } catch {
      this.change({ stored: false, problem: "This browser does not allow the page to store anything." });
    }
  }
}

/** IndexedDB stores them as one record, written in one step: more items would block the page. */
export const MAX_KEPT_ITEMS = 10_000;

function toKeptWork(run: Run, keptAtMs: number): KeptWork | null {
  const work = workOf(run);
  if (!work || work.items.length > MAX_KEPT_ITEMS) return null;
  const items = indicesAt(work, "embedded").flatMap((index) => {
    const item = work.items[index];
    return item?.outcome.at === "embedded" ? [{ text: item.text, embedding: item.outcome.embedding }] : [];
  });
  return items.length > 0 ? { model: work.model, keptAtMs, items } : null;
}
