import type { ReactNode } from "react";
import "../../ui/table.css";
import { parted } from "./group";

interface TablePartsProps<Item> {
  readonly items: readonly Item[];
  readonly headingOf: (item: Item) => string;
  /** Of the table, for its headings to span. */
  readonly columns: number;
  readonly children: (item: Item, heading: string | null) => ReactNode;
}

/** The bodies of a table whose rows have headings where there are many. */
export function TableParts<Item>({ items, headingOf, columns, children }: TablePartsProps<Item>) {
  return parted(items, headingOf).map(({ heading, items }) => (
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
