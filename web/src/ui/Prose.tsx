import { Fragment } from "react";

/** Text in which `backticks` mark code. */
export function Prose({ text }: { text: string }) {
  return text.split("`").map((part, index) => {
    const key = `${index}:${part}`;
    return index % 2 === 1 ? <code key={key}>{part}</code> : <Fragment key={key}>{part}</Fragment>;
  });
}
