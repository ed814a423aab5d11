import { bytes } from "../../ui/format";
import { Store } from "../../ui/store";
import type { Receipt } from "../embed/run";
import { fromJsonl, type Imported, type Kept, oneLine, type Summary, withKept } from "./history";
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

/** The part of `File` that the store uses. */
export interface ReceiptFile {
  readonly size: number;
  text(): Promise<string>;
}

/** Larger files are rejected before they are read into memory: a bundle without text has a few kilobytes. */
export const MAX_IMPORT_BYTES = 64 * 1024 * 1024;

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
      if (!(await this.#storage.exists())) return;
      const kept = (await this.#storage.load()) ?? [];
      this.change({ kept: withKept(this.get().kept, kept.toReversed()), stored: true });
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

  /** Adds the receipts of a file. */
  readonly import = async (file: ReceiptFile): Promise<void> => {
    const imported = await readReceipts(file);
    if (imported.status === "refused") {
      this.change({ problem: `Nothing was imported. ${imported.why}` });
      return;
    }
    await this.#keep(await Promise.all(imported.bundles.map((bundle) => toKept(bundle, null))));
  };

  /** Forgets the listed receipts. Those that other tabs have stored since stay. */
  readonly clear = async (): Promise<void> => {
    const { kept } = this.get();
    const ids = new Set(kept.map(({ id }) => id));
    this.change({ kept: [], forgotten: kept, problem: null });
    await this.#update((stored) => stored.filter(({ id }) => !ids.has(id)));
  };

  /** Undoes [`clear`]. Receipts that arrived since stay. */
  readonly remember = async (): Promise<void> => {
    const { kept, forgotten } = this.get();
    this.change({ kept: withKept(forgotten, kept.toReversed()), forgotten: [], problem: null });
    await this.#update((stored) => withKept(forgotten, stored.toReversed()));
  };

  /** Sets whether receipts outlive the tab. Switching it off erases stored ones. */
  readonly store = async (stored: boolean): Promise<void> => {
    this.change({ stored, problem: null });
    if (stored) {
      const { kept } = this.get();
      try {
        const added = await this.#storage.update((before) => withKept(before ?? [], kept.toReversed()));
        if (!added) await this.#storage.save(kept);
      } catch {
        this.change({ stored: false, problem: "This browser does not allow the page to store anything." });
      }
      return;
    }
    try {
      await this.#storage.erase();
    } catch {
      this.change({ stored: true, problem: "This browser did not erase the stored receipts. Try again." });
    }
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
    await this.#update((stored) => withKept(stored, more));
  }

  /** Changes the stored receipts, which other tabs change too. Without them, receipts stay in this tab alone. */
  async #update(change: (stored: readonly Kept[]) => readonly Kept[]): Promise<void> {
    if (!this.get().stored) return;
    try {
      const exists = await this.#storage.update((before) => change(before ?? []));
      if (!exists) this.change({ stored: false });
    } catch {
      this.change({ problem: "This browser did not store the last change of this list. Export the list." });
    }
  }
}

async function readReceipts(file: ReceiptFile): Promise<Imported> {
  if (file.size > MAX_IMPORT_BYTES) {
    return { status: "refused", why: `The file has more than ${bytes(MAX_IMPORT_BYTES)}.` };
  }
  try {
    return fromJsonl(await file.text());
  } catch {
    return { status: "refused", why: "The browser could not read the file." };
  }
}

async function toKept(bundle: string, summary: Summary | null): Promise<Kept> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(bundle));
  const id = Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, bundle, summary };
}
