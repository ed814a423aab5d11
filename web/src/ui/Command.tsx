import { CopyButton } from "./CopyButton";
import "./command.css";

/** A command line with a copy button. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <CopyButton text={text} label="Copy command" />
    </div>
  );
}
