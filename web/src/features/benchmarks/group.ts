/** Items by their key, keys in order of appearance. */
export function grouped<Item, Key>(
  items: readonly Item[],
  keyOf: (item: Item) => Key,
): ReadonlyMap<Key, readonly Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** Lists that are longer have headings. */
const LONG = 8;

export interface Part<Item> {
  readonly heading: string | null;
  readonly items: readonly Item[];
}

/** A long list by headings, in order of appearance; whole and without one where it is short, or headings would not group it. */
export function parted<Item>(
  items: readonly Item[],
  headingOf: (item: Item) => string,
): readonly Part<Item>[] {
  const groups = grouped(items, headingOf);
  const helps = items.length > LONG && groups.size > 1 && groups.size < items.length;
  if (!helps) return [{ heading: null, items }];
  return [...groups].map(([heading, items]) => ({ heading, items }));
}

/** What is left of a name below its heading: `64 B, unix` below `unix` is `64 B`; nothing where they are the same. */
export function below(heading: string | null, name: string): string {
  if (heading === null) return name;
  const rest = name.split(", ");
  const words = heading.split(", ");
  const at = rest.findIndex((_, index) => words.every((word, offset) => rest[index + offset] === word));
  return at < 0 ? name : rest.toSpliced(at, words.length).join(", ");
}
