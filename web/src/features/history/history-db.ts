import type { Kept } from "./history";

/** Where receipts stay when the tab closes, for whoever asks for that. */
export interface Storage {
  /** All of them, newest first. Empty where nothing was ever stored. */
  load(): Promise<readonly Kept[]>;
  save(kept: readonly Kept[]): Promise<void>;
  /** Leaves nothing behind. */
  erase(): Promise<void>;
}

const NAME = "clearseal.receipts";
const TABLE = "receipts";
const KEY = "all";

/** One record in IndexedDB: it is written as a whole, so what is read is never half of it. */
export const browserStorage: Storage = {
  async load() {
    const exists = (await indexedDB.databases()).some(({ name }) => name === NAME);
    if (!exists) return [];
    const database = await open();
    try {
      const value: unknown = await done(database.transaction(TABLE).objectStore(TABLE).get(KEY));
      return Array.isArray(value) ? value.filter(isKept) : [];
    } finally {
      database.close();
    }
  },
  async save(kept) {
    const database = await open();
    try {
      await done(database.transaction(TABLE, "readwrite").objectStore(TABLE).put(kept, KEY));
    } finally {
      database.close();
    }
  },
  async erase() {
    await done(indexedDB.deleteDatabase(NAME));
  },
};

function open(): Promise<IDBDatabase> {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
  return done(request);
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's storage failed"));
  });
}

function isKept(value: unknown): value is Kept {
  if (typeof value !== "object" || value === null) return false;
  const { id, bundle } = value as Partial<Kept>;
  return typeof id === "string" && typeof bundle === "string";
}
