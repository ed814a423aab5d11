import type { AuditJudgement, ClaimsView, OpenedContent } from "@clearseal/verifier";
import { useId, useState } from "react";
import { count, moment, plural } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { Icon } from "../../ui/Icon";
import "../../ui/text-box.css";
import { embeddingsRequest } from "../embed/openai";
import { useAsked } from "./asked";
import type { AuditStore } from "./audit-store";
import "./compare.css";
import "./content.css";
import { inputsOf, placeOf } from "./inputs";
import type { Answer } from "./messages";

interface ContentProps {
  readonly judgement: AuditJudgement;
  readonly claims: ClaimsView;
  readonly store: AuditStore;
}

/** What the receipt is about: opened out of the bundle, or compared with a text that its reader has. */
export function Content({ judgement, claims, store }: ContentProps) {
  const { opened } = judgement;
  return (
    <section className="audit-content">
      <h3>Which text it is about</h3>
      {opened ? <Opened opened={opened} /> : <Closed judgement={judgement} claims={claims} store={store} />}
    </section>
  );
}

const LISTED = 200;

function Opened({ opened }: { opened: OpenedContent }) {
  const id = useId();
  const [text, setText] = useState("");
  const inputs = inputsOf(opened.request ?? "");
  const place = text === "" ? -1 : placeOf(text, inputs);
  return (
    <>
      <p className="lead">
        The bundle holds the request and the answer, and both fit the hashes that the enclave signed: this is
        what was sent on {moment(opened.dateMs)}, and what came back.
      </p>
      <ol className="audit-inputs" aria-label="Text of the request">
        {inputs.slice(0, LISTED).map((input, index) => {
          const key = `${index}:${input}`;
          return (
            <li key={key} data-match={index === place}>
              {input}
            </li>
          );
        })}
      </ol>
      {inputs.length > LISTED && <p className="muted small">and {count(inputs.length - LISTED)} more</p>}
      {inputs.length === 0 && <p className="muted small">The request holds no text that can be shown.</p>}
      <label className="text-label" htmlFor={id}>
        Is it about a text of yours? Paste it
      </label>
      <textarea
        id={id}
        className="text-box audit-compare"
        rows={2}
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <p role="status" className="audit-answer">
        {text !== "" &&
          (place >= 0 ? (
            <>
              <Icon name="check" /> Yes: item {place + 1} of {plural(inputs.length, "item")} is exactly this
              text.
            </>
          ) : (
            <>
              <Icon name="cross" /> No item is exactly this text; every character counts.
            </>
          ))}
      </p>
      <p className="small">
        Salt <Hash value={opened.salt} label="salt" />{" "}
        <span className="muted">Whoever has it can test guesses of the text.</span>
      </p>
    </>
  );
}

function Closed({ judgement, claims, store }: ContentProps) {
  const { index } = judgement.summary;
  const id = useId();
  const [text, setText] = useState("");
  const [salt, setSalt] = useState(judgement.salt ?? "");
  const { asked, ask, drop } = useAsked<Compared>(store);
  const readable = /^[0-9a-f]{64}$/i.test(salt.trim());
  const compare = async (): Promise<Compared | null> => {
    const encoded = new TextEncoder().encode(text);
    const lines = text.split(/\r\n|\n|\r/).filter((line) => line.trim() !== "");
    const requests = [embeddingsRequest(claims.modelId, lines).body, encoded];
    const answer = await store.open({ index, salt, requests, response: encoded });
    return answer && { found: foundIn(answer, lines.length) };
  };
  return (
    <>
      <p className="lead">
        {judgement.salt === null
          ? "The bundle holds hashes only. With the text (one item a line, in order) and the salt, which only the client had, you can see whether the receipt is about it."
          : "The bundle holds hashes and the client's salt. With the text (one item a line, in order) you can see whether the receipt is about it."}
      </p>
      <form
        className="audit-open"
        onSubmit={(event) => {
          event.preventDefault();
          void ask(compare);
        }}
      >
        <label className="text-label" htmlFor={`${id}-text`}>
          Text, or the answer as it came
        </label>
        <textarea
          id={`${id}-text`}
          className="text-box audit-compare"
          rows={3}
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            drop();
          }}
        />
        <label className="text-label" htmlFor={`${id}-salt`}>
          Salt, 64 hex digits
        </label>
        <input
          id={`${id}-salt`}
          className="text-box audit-compare mono"
          spellCheck={false}
          autoComplete="off"
          value={salt}
          onChange={(event) => {
            setSalt(event.target.value);
            drop();
          }}
        />
        <button type="submit" className="button button-plain" disabled={!readable || text === ""}>
          Compare
        </button>
      </form>
      <p role="status" className="audit-answer">
        {asked.at === "asking" && "Comparing."}
        {asked.at === "gone" && "The verifier has stopped; judge again."}
        {asked.at === "answered" &&
          (asked.answer.found !== null ? (
            <>
              <Icon name="check" /> Yes: the receipt is about exactly {asked.answer.found}.
            </>
          ) : (
            <>
              <Icon name="cross" /> No: with this salt, the receipt is about something else. Every character
              counts.
            </>
          ))}
      </p>
    </>
  );
}

/** What the receipt is about; null for something else than what was compared. */
interface Compared {
  readonly found: string | null;
}

function foundIn({ request, response }: Answer, lines: number): string | null {
  if (!request) return response ? "this answer" : null;
  return `${request.which === 0 ? plural(lines, "line") : "this body"}, sent on ${moment(request.madeAtMs)}`;
}
