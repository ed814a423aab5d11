import "./gone.css";

/** Runs that a link names and that are not here. */
export function Gone({ keys }: { readonly keys: readonly string[] }) {
  if (keys.length === 0) return null;
  const more = keys.length - MOST_NAMED;
  const named = more > 0 ? [...keys.slice(0, MOST_NAMED), `${more} more`] : keys;
  return (
    <p role="alert" className="bench-gone">
      The link names {LIST.format(named)}, which {keys.length === 1 ? "is" : "are"} not here. A file that
      somebody opened stays in their tab: open the same file here, and the link works.
    </p>
  );
}

const MOST_NAMED = 4;
const LIST = new Intl.ListFormat("en");
