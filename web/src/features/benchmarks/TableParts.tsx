import type { ReactNode } from "react";
import "../../ui/table.css";
import { groupIfLong } from "./group";

interface TablePartsProps<Item> {
  readonly items: readonly Item[];
  readonly headingOf: (item: Item) => string;
  /** Number of the table's columns, which headings span. */
  readonly columns: number;
  readonly children: (item: Item, heading: string | null) => ReactNode;
}

/** Bodies of a table, with headings if there are many rows. */
export function TableParts<Item>({ items, headingOf, columns, children }: TablePartsProps<Item>) {
  return groupIfLong(items, headingOf).map(({ heading, items }) => (
    <tbody key={heading}>
      {heading !== null && (
        <tr className="table-part">
          <th scope="rowgroup" colSpan={columns}>
            {heading}
          </th>
        </tr>
      )}
      {items.map((item) => children(item, heading))}
    </tbody>
  ));
}
