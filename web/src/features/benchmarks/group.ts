/** Groups items by key; keys are in order of appearance. */
export function groupBy<Item, Key>(
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

/** Longer lists have headings. */
const LONG = 8;

export interface Part<Item> {
  readonly heading: string | null;
  readonly items: readonly Item[];
}

/** Groups a long list under headings, in order of appearance. A short list, or one without repeated headings, stays whole. */
export function groupIfLong<Item>(
  items: readonly Item[],
  headingOf: (item: Item) => string,
): readonly Part<Item>[] {
  const groups = groupBy(items, headingOf);
  const helps = items.length > LONG && groups.size > 1 && groups.size < items.length;
  if (!helps) return [{ heading: null, items }];
  return [...groups].map(([heading, items]) => ({ heading, items }));
}

/** Removes the heading from a name: `64 B, unix` below `unix` becomes `64 B`; empty if both are equal. */
export function withoutHeading(heading: string | null, name: string): string {
  if (heading === null) return name;
  const rest = name.split(", ");
  const words = heading.split(", ");
  const at = rest.findIndex((_, index) => words.every((word, offset) => rest[index + offset] === word));
  return at < 0 ? name : rest.toSpliced(at, words.length).join(", ");
}
