import { Store } from "../../ui/store";
import type { Receipt } from "../embed/run";
import { fromJsonl, type Kept, oneLine, type Summary, withKept } from "./history";
import { browserStorage, type Storage } from "./history-db";

export interface HistoryView {
  /** Newest first. */
  readonly kept: readonly Kept[];
  /** Whether they stay when the tab closes. */
  readonly stored: boolean;
  /** What went wrong last, in one sentence. */
  readonly problem: string | null;
}

/** What gets receipts: a run of texts, or questions about them. */
interface Source {
  receipts(): readonly Receipt[];
  subscribe(subscriber: () => void): () => void;
}

/** Gives the audit bundle of an exchange, without text and vectors. */
type Bundles = (exchange: number, disclose: "hashes") => Promise<string>;

/** The receipts of this tab, and of earlier ones where their reader asked to keep them. */
export class HistoryStore extends Store<HistoryView> {
  readonly #seen = new WeakSet<Receipt>();
  readonly #storage: Storage;

  constructor(storage: Storage = browserStorage) {
    super({ kept: [], stored: false, problem: null });
    this.#storage = storage;
  }

  /** Brings back what was kept. */
  readonly load = async (): Promise<void> => {
    try {
      const kept = (await this.#storage.load()) ?? [];
      if (kept.length > 0) this.change({ kept: withKept(this.get().kept, kept.toReversed()), stored: true });
    } catch {
      // A browser without storage keeps receipts as long as the tab, as for everyone who did not ask for more.
    }
  };

  /** Keeps each new receipt of `source`. */
  readonly follow = (source: Source, bundles: Bundles): (() => void) => {
    const look = () => {
      for (const receipt of source.receipts()) {
        if (this.#seen.has(receipt)) continue;
        this.#seen.add(receipt);
        void this.#keepBundle(receipt, bundles);
      }
    };
    look();
    return source.subscribe(look);
  };

  readonly import = async (text: string): Promise<void> => {
    const imported = fromJsonl(text);
    if (imported.status === "refused") {
      this.change({ problem: `Nothing was imported. ${imported.why}` });
      return;
    }
    await this.#keep(await Promise.all(imported.bundles.map((bundle) => keptOf(bundle, null))));
  };

  readonly clear = async (): Promise<void> => {
    this.change({ kept: [], problem: null });
    await this.#save();
  };

  /** Whether receipts stay in this browser when the tab closes. Switching it off erases what is there. */
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
      if (bundle) await this.#keep([await keptOf(bundle, summary)]);
    } catch {
      this.change({ problem: "A receipt could not be kept: the verifier that held it has stopped." });
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

async function keptOf(bundle: string, summary: Summary | null): Promise<Kept> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(bundle));
  const id = Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, bundle, summary };
}
