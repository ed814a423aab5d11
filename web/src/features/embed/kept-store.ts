import { Store } from "../../ui/store";
import { type KeptWork, type WorkStorage, workStorage } from "./kept";
import { indicesAt, type RestoredWork, type Run, workOf } from "./run";
import type { RunStore } from "./run-store";

export interface KeptView {
  /** Whether texts and vectors outlive the tab. */
  readonly stored: boolean;
  /** When the displayed items were stored, in Unix milliseconds; null if this tab embedded them. */
  readonly fromMs: number | null;
  /** The displayed items were stored by this tab before a reload. */
  readonly ownTab: boolean;
  readonly problem: string | null;
}

/** Keeps texts and vectors across reloads if the user asks for it; otherwise stores nothing. */
export class KeptStore extends Store<KeptView> {
  #saved: Run | null = null;
  readonly #runs: RunStore;
  readonly #storage: WorkStorage;
  readonly #now: () => number;

  constructor(runs: RunStore, storage: WorkStorage = workStorage, now: () => number = Date.now) {
    super({ stored: false, fromMs: null, ownTab: false, problem: null });
    this.#runs = runs;
    this.#storage = storage;
    this.#now = now;
    runs.subscribe(() => void this.#follow());
  }

  /**
   * Restores the items of this tab before a reload, otherwise stored ones, unless this tab has embedded others meanwhile. The tab's
   * own record has room for fewer vectors than the stored one, which another tab may have replaced.
   */
  readonly load = async (reloaded: RestoredWork | null = null): Promise<void> => {
    let kept: KeptWork | null = null;
    try {
      if (await this.#storage.exists()) {
        this.change({ stored: true });
        kept = await this.#storage.load();
      }
    } catch {
      // Without storage, results last as long as the tab, which is the default.
    }
    const ownTab = kept !== null && reloaded !== null && holdsSameWork(kept, reloaded);
    if (reloaded !== null && !ownTab) {
      this.#runs.restore(reloaded);
      return;
    }
    if (!kept || !this.#runs.restore(kept)) return;
    this.#saved = this.#runs.get();
    this.change({ fromMs: kept.keptAtMs, ownTab });
  };

  /** Sets whether items outlive the tab. Switching it off erases stored ones. */
  readonly store = async (stored: boolean): Promise<void> => {
    this.change({ stored, problem: null });
    this.#saved = this.#runs.get();
    try {
      if (stored) await this.#storage.save(toKeptWork(this.#saved, this.#now()));
      else await this.#storage.erase();
    } catch {
      const problem = stored
        ? "This browser does not allow the page to store anything."
        : "This browser did not erase the stored texts. Try again.";
      this.change({ stored: !stored, problem });
    }
  };

  async #follow(): Promise<void> {
    const run = this.#runs.get();
    if (run === this.#saved || (run.at !== "finished" && run.at !== "stopped")) return;
    if (this.get().fromMs !== null) this.change({ fromMs: null, ownTab: false });
    if (!this.get().stored) return;
    this.#saved = run;
    try {
      const kept = toKeptWork(run, this.#now());
      // Another tab may have erased the record: then nothing is stored again.
      if (!(await this.#storage.update(() => kept))) this.change({ stored: false });
    } catch {
      this.change({
        problem:
          "This browser did not store these items. Closing the tab discards them: save them as a file.",
      });
    }
  }
}

/** Whether a finished run of this tab is the stored one. Items that failed are not stored. */
function holdsSameWork(kept: KeptWork, { model, items, ended }: RestoredWork): boolean {
  if (!ended || kept.model !== model) return false;
  let place = 0;
  for (const { text, embedding } of items) {
    if (kept.items[place]?.text === text) place += 1;
    else if (embedding !== null) return false;
  }
  return place === kept.items.length;
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
