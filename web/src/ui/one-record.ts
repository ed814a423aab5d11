/** One value under one name in IndexedDB: written as a whole, so that what is read is never half of it. */
export interface OneRecord<T> {
  /** Null where nothing was ever stored, or nothing that this version knows. */
  load(): Promise<T | null>;
  save(value: T): Promise<void>;
  /** Leaves nothing behind, the database included. */
  erase(): Promise<void>;
}

const KEY = "all";

/** `name` of the database, `table` in it, and what reads a stored value. */
export function oneRecord<T>(name: string, table: string, read: (value: unknown) => T | null): OneRecord<T> {
  const open = (): Promise<IDBDatabase> => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(table);
    return done(request);
  };
  return {
    async load() {
      const exists = (await indexedDB.databases()).some((database) => database.name === name);
      if (!exists) return null;
      const database = await open();
      try {
        return read(await done<unknown>(database.transaction(table).objectStore(table).get(KEY)));
      } finally {
        database.close();
      }
    },
    async save(value) {
      const database = await open();
      try {
        const transaction = database.transaction(table, "readwrite");
        transaction.objectStore(table).put(value, KEY);
        await written(transaction);
      } finally {
        database.close();
      }
    },
    async erase() {
      await done(indexedDB.deleteDatabase(name));
    },
  };
}

/** A request that succeeded is not stored yet: writing may still fail, for want of room, when its transaction ends. */
function written(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = () => reject(transaction.error ?? new Error("the browser's storage failed"));
    transaction.oncomplete = () => resolve();
    transaction.onabort = fail;
    transaction.onerror = fail;
  });
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's storage failed"));
  });
}
