import { type OneRecord, oneRecord } from "../../ui/one-record";
import type { Kept } from "./history";

/** Where receipts stay when the tab closes, for whoever asks for that; newest first. */
export type Storage = OneRecord<readonly Kept[]>;

export const browserStorage: Storage = oneRecord("clearseal.receipts", "receipts", (value) =>
  Array.isArray(value) ? value.filter(isKept) : null,
);

function isKept(value: unknown): value is Kept {
  if (typeof value !== "object" || value === null) return false;
  const { id, bundle } = value as Partial<Kept>;
  return typeof id === "string" && typeof bundle === "string";
}
