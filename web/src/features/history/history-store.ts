import { Store } from "../../ui/store";
import type { Receipt } from "../embed/run";
import { fromJsonl, type Kept, oneLine, type Summary, withKept } from "./history";
import { browserStorage, type Storage } from "./history-db";

export interface HistoryView {
  /** Newest first. */
  readonly kept: readonly Kept[];
  /** Receipts that the user forgot last, until this tab closes. */
  readonly forgotten: readonly Kept[];
  /** Whether receipts outlive the tab. */
  readonly stored: boolean;
  /** The last error, in one sentence. */
  readonly problem: string | null;
}

/** A source of receipts: a run of texts, or queries against them. */
interface Source {
  receipts(): readonly Receipt[];
  subscribe(subscriber: () => void): () => void;
}

/** Returns the audit bundle of an exchange, without text and vectors. */
type Bundles = (exchange: number, disclose: "hashes") => Promise<string>;

/** The receipts of this tab, and of earlier tabs if the user keeps them. */
export class HistoryStore extends Store<HistoryView> {
  readonly #seen = new WeakSet<Receipt>();
  readonly #storage: Storage;

  constructor(storage: Storage = browserStorage) {
    super({ kept: [], forgotten: [], stored: false, problem: null });
    this.#storage = storage;
  }

  /** Restores stored receipts. */
  readonly load = async (): Promise<void> => {
    try {
      const kept = (await this.#storage.load()) ?? [];
      if (kept.length > 0) this.change({ kept: withKept(this.get().kept, kept.toReversed()), stored: true });
    } catch {
      // Without storage, receipts last as long as the tab, which is the default.
    }
  };

  /** Collects each new receipt of `source`. Returns a function that stops it. */
  readonly follow = (source: Source, bundles: Bundles): (() => void) => {
    const collect = () => {
      for (const receipt of source.receipts()) {
        if (this.#seen.has(receipt)) continue;
        this.#seen.add(receipt);
        void this.#keepBundle(receipt, bundles);
      }
    };
    collect();
    return source.subscribe(collect);
  };

  readonly import = async (text: string): Promise<void> => {
    const imported = fromJsonl(text);
    if (imported.status === "refused") {
      this.change({ problem: `Nothing was imported. ${imported.why}` });
      return;
    }
    await this.#keep(await Promise.all(imported.bundles.map((bundle) => toKept(bundle, null))));
  };

  readonly clear = async (): Promise<void> => {
    this.change({ kept: [], forgotten: this.get().kept, problem: null });
    await this.#save();
  };

  /** Undoes [`clear`]. Receipts that arrived since stay. */
  readonly remember = async (): Promise<void> => {
    const { kept, forgotten } = this.get();
    this.change({ kept: withKept(forgotten, kept.toReversed()), forgotten: [], problem: null });
    await this.#save();
  };

  /** Sets whether receipts outlive the tab. Switching it off erases stored ones. */
  readonly store = async (stored: boolean): Promise<void> => {
    this.change({ stored, problem: null });
    await this.#save();
  };

  async #keepBundle({ exchange, report, origin, items }: Receipt, bundles: Bundles): Promise<void> {
    const { claims, verdict } = report;
    if (!claims) return;
    const summary: Summary = {
      verdict,
      origin,
      issuedAtMs: claims.issuedAt * 1_000,
      sequence: claims.sequenceNumber,
      model: claims.modelId,
      items: items.length,
    };
    try {
      const bundle = oneLine(await bundles(exchange, "hashes"));
      if (bundle) await this.#keep([await toKept(bundle, summary)]);
    } catch {
      this.change({
        problem: "A receipt could not be kept: the verifier stopped, and the receipt was in its memory.",
      });
    }
  }

  async #keep(more: readonly Kept[]): Promise<void> {
    this.change({ kept: withKept(this.get().kept, more), problem: null });
    await this.#save();
  }

  async #save(): Promise<void> {
    const { stored, kept } = this.get();
    try {
      if (stored) await this.#storage.save(kept);
      else await this.#storage.erase();
    } catch {
      this.change({ stored: false, problem: "This browser does not allow the page to store anything." });
    }
  }
}

async function toKept(bundle: string, summary: Summary | null): Promise<Kept> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(bundle));
  const id = Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, bundle, summary };
}
