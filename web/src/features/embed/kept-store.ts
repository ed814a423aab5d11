import { Store } from "../../ui/store";
import { type KeptWork, type WorkStorage, workStorage } from "./kept";
import { indicesAt, type Run, workOf } from "./run";
import type { RunStore } from "./run-store";

export interface KeptView {
  /** Whether texts and vectors stay when the tab closes. */
  readonly stored: boolean;
  /** When what is shown was kept, where it came out of storage; Unix milliseconds. */
  readonly fromMs: number | null;
  readonly problem: string | null;
}

/** Keeps what was embedded across reloads, where its reader asked for that, and nothing anywhere else. */
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

  /** Brings back what was kept, unless something was embedded meanwhile. */
  readonly load = async (): Promise<void> => {
    try {
      const kept = await this.#storage.load();
      if (!kept || !this.#runs.restore(kept)) return;
      this.#saved = this.#runs.get();
      this.change({ stored: true, fromMs: kept.keptAtMs });
    } catch {
      // A browser without storage keeps results as long as the tab, as for everyone who did not ask for more.
    }
  };

  /** Whether they stay when the tab closes. Switching it off erases what is there. */
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
      const kept = this.get().stored ? keptOf(this.#saved, this.#now()) : null;
      if (kept) await this.#storage.save(kept);
      else await this.#storage.erase();
    } catch {
      this.change({ stored: false, problem: "This browser does not allow the page to store anything." });
    }
  }
}

/** A browser keeps them as one record, which is written in one piece: more would hold up the page. */
export const MOST_KEPT_ITEMS = 10_000;

function keptOf(run: Run, keptAtMs: number): KeptWork | null {
  const work = workOf(run);
  if (!work || work.items.length > MOST_KEPT_ITEMS) return null;
  const items = indicesAt(work, "embedded").flatMap((index) => {
    const item = work.items[index];
    return item?.outcome.at === "embedded" ? [{ text: item.text, embedding: item.outcome.embedding }] : [];
  });
  return items.length > 0 ? { model: work.model, keptAtMs, items } : null;
}
