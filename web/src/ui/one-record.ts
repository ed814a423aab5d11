/**
 * One value in IndexedDB, written in one transaction, so that a partial value is never read. The record exists from `save` to
 * `erase`, in all tabs.
 */
export interface OneRecord<T> {
  /** Whether a tab has made the record, and none has erased it. */
  exists(): Promise<boolean>;
  /** Null if there is no value, or none that this version can read. */
  load(): Promise<T | null>;
  /** Makes the record, or replaces its value; null for a record without a value. */
  save(value: T | null): Promise<void>;
  /**
   * Replaces the value in one transaction. Returns false, and stores nothing, if the record does not exist: another tab may have
   * erased it.
   */
  update(change: (before: T | null) => T | null): Promise<boolean>;
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
  const use = async <R>(database: IDBDatabase, work: (database: IDBDatabase) => Promise<R>): Promise<R> => {
    try {
      return await work(database);
    } finally {
      database.close();
    }
  };
  return {
    async exists() {
      const database = await openExisting(name);
      database?.close();
      return database !== null;
    },
    async load() {
      const database = await openExisting(name);
      if (!database) return null;
      return use(database, async () =>
        read(await awaitRequest<unknown>(database.transaction(table).objectStore(table).get(KEY))),
      );
    },
    async save(value) {
      return use(await open(), (database) => {
        const transaction = database.transaction(table, "readwrite");
        transaction.objectStore(table).put(value, KEY);
        return awaitCommit(transaction);
      });
    },
    async update(change) {
      const database = await openExisting(name);
      if (!database) return false;
      return use(database, async () => {
        const transaction = database.transaction(table, "readwrite");
        const records = transaction.objectStore(table);
        const committed = awaitCommit(transaction);
        const before = records.get(KEY);
        before.onsuccess = () => records.put(change(read(before.result)), KEY);
        await committed;
        return true;
      });
    },
    async erase() {
      await awaitRequest(indexedDB.deleteDatabase(name));
    },
  };
}

/**
 * Opens a database; null if it does not exist. Another tab may delete it after it was listed: aborting the upgrade of a new
 * database deletes that one (IndexedDB §5.1).
 */
async function openExisting(name: string): Promise<IDBDatabase | null> {
  if (!(await indexedDB.databases()).some((database) => database.name === name)) return null;
  const request = indexedDB.open(name, 1);
  let absent = false;
  request.onupgradeneeded = () => {
    absent = true;
    request.transaction?.abort();
  };
  return awaitRequest(request).catch((cause: unknown) => {
    if (absent) return null;
    throw cause;
  });
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
