/** One value in IndexedDB, written in one transaction, so that a partial value is never read. */
export interface OneRecord<T> {
  /** Null if there is no value, or none that this version can read. */
  load(): Promise<T | null>;
  save(value: T): Promise<void>;
  /** Deletes the value and its database. */
  erase(): Promise<void>;
}

const KEY = "all";

/** A record in the database `name`, object store `table`. `read` validates a stored value. */
export function oneRecord<T>(name: string, table: string, read: (value: unknown) => T | null): OneRecord<T> {
  const open = (): Promise<IDBDatabase> => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(table);
    return awaitRequest(request);
  };
  return {
    async load() {
      const exists = (await indexedDB.databases()).some((database) => database.name === name);
      if (!exists) return null;
      const database = await open();
      try {
        return read(await awaitRequest<unknown>(database.transaction(table).objectStore(table).get(KEY)));
      } finally {
        database.close();
      }
    },
    async save(value) {
      const database = await open();
      try {
        const transaction = database.transaction(table, "readwrite");
        transaction.objectStore(table).put(value, KEY);
        await awaitCommit(transaction);
      } finally {
        database.close();
      }
    },
    async erase() {
      await awaitRequest(indexedDB.deleteDatabase(name));
    },
  };
}

/** Waits for the transaction: writing may still fail after a successful request, for example when the quota is exceeded. */
function awaitCommit(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = () => reject(transaction.error ?? new Error("the browser's storage failed"));
    transaction.oncomplete = () => resolve();
    transaction.onabort = fail;
    transaction.onerror = fail;
  });
}

function awaitRequest<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's storage failed"));
  });
}
