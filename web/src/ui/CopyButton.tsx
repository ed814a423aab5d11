import { Button } from "./Button";
import { useCopy } from "./clipboard";

/** Copies `text`, or the result of `text()`, and reports success or failure. */
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
      {copied ? "Copied" : refused ? "The browser denied it" : label}
    </Button>
  );
}
