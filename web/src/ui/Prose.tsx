import { Fragment } from "react";

/** A sentence in which `backticks` set a piece as code. */
export function Prose({ text }: { text: string }) {
  return text.split("`").map((part, index) => {
    const key = `${index}:${part}`;
    return index % 2 === 1 ? <code key={key}>{part}</code> : <Fragment key={key}>{part}</Fragment>;
  });
}
