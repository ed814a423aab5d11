import { Button } from "./Button";
import { useCopy } from "./clipboard";

/** Copies `text`, or what `text()` comes to, and says whether it did. */
export function CopyButton({
  text,
  label,
  kind = "plain",
}: {
  text: string | (() => string);
  label: string;
  kind?: "plain" | "quiet";
}) {
  const { copied, refused, copy } = useCopy();
  return (
    <Button
      kind={kind}
      icon={copied ? "check" : "copy"}
      onClick={() => copy(typeof text === "function" ? text() : text)}
    >
      {copied ? "Copied" : refused ? "The browser did not allow it" : label}
    </Button>
  );
}
