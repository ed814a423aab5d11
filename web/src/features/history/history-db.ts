import { type OneRecord, oneRecord } from "../../ui/one-record";
import type { Kept } from "./history";

/** Storage for receipts that outlive the tab, if the user asks for it; newest first. */
export type Storage = OneRecord<readonly Kept[]>;

export const browserStorage: Storage = oneRecord("clearseal.receipts", "receipts", (value) =>
  Array.isArray(value) ? value.filter(isKept) : null,
);

function isKept(value: unknown): value is Kept {
  if (typeof value !== "object" || value === null) return false;
  const { id, bundle } = value as Partial<Kept>;
  return typeof id === "string" && typeof bundle === "string";
}
