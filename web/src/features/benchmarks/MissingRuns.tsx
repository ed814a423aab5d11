import "./missing-runs.css";

/** Runs that a link names, but that are not loaded. */
export function MissingRuns({ keys }: { readonly keys: readonly string[] }) {
  if (keys.length === 0) return null;
  const more = keys.length - MAX_NAMED;
  const named = more > 0 ? [...keys.slice(0, MAX_NAMED), `${more} more`] : keys;
  return (
    <p role="alert" className="bench-missing-runs">
      The link names {LIST.format(named)}, which {keys.length === 1 ? "is" : "are"} not loaded. An opened file
      stays in its tab: open the same file here to use the link.
    </p>
  );
}

const MAX_NAMED = 4;
const LIST = new Intl.ListFormat("en");
