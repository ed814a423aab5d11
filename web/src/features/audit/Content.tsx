import type { AuditAppraisal, ClaimsView, OpenedContent } from "@clearseal/verifier";
import { useId, useState } from "react";
import { count, moment, plural } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { Icon } from "../../ui/Icon";
import "../../ui/text-box.css";
import { embeddingsRequest } from "../embed/openai";
import type { AuditStore } from "./audit-store";
import { useQuery } from "./query";
import "./compare.css";
import "./content.css";
import { indexOfText, inputsOf } from "./inputs";
import type { Answer } from "./messages";

interface ContentProps {
  readonly appraisal: AuditAppraisal;
  readonly claims: ClaimsView;
  readonly store: AuditStore;
}

/** The text that the receipt covers: from the bundle, or compared with a text that the user enters. */
export function Content({ appraisal, claims, store }: ContentProps) {
  const { opened } = appraisal;
  return (
    <section className="audit-content">
      <h3>Which text it covers</h3>
      {opened ? <Opened opened={opened} /> : <Closed appraisal={appraisal} claims={claims} store={store} />}
    </section>
  );
}

const MAX_LISTED = 200;

function Opened({ opened }: { opened: OpenedContent }) {
  const id = useId();
  const [text, setText] = useState("");
  const inputs = inputsOf(opened.request ?? "");
  const place = text === "" ? -1 : indexOfText(text, inputs);
  return (
    <>
      <p className="lead">
        The bundle contains the request, sent on {moment(opened.dateMs)}, and the answer. Both match the
        hashes that the enclave signed.
      </p>
      <ol className="audit-inputs" aria-label="Text of the request">
        {inputs.slice(0, MAX_LISTED).map((input, index) => {
          const key = `${index}:${input}`;
          return (
            <li key={key} dir="auto" data-match={index === place}>
              {input}
            </li>
          );
        })}
      </ol>
      {inputs.length > MAX_LISTED && (
        <p className="muted small">and {count(inputs.length - MAX_LISTED)} more</p>
      )}
      {inputs.length === 0 && <p className="muted small">The request contains no text that can be shown.</p>}
      <label className="text-label" htmlFor={id}>
        Does it cover a text of yours? Paste the text
      </label>
      <textarea
        id={id}
        className="text-box audit-compare"
        dir="auto"
        rows={2}
        spellCheck={false}
        autoComplete="off"
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
        <span className="muted">Anyone with the salt can test guesses of the text.</span>
      </p>
    </>
  );
}

function Closed({ appraisal, claims, store }: ContentProps) {
  const { index } = appraisal.summary;
  const id = useId();
  const [text, setText] = useState("");
  const [salt, setSalt] = useState(appraisal.salt ?? "");
  const { query, ask, drop } = useQuery<Compared>(store);
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
        {appraisal.salt === null
          ? "The bundle contains only hashes. Enter the text (one item per line, in order) and the salt, which only the client had, to check whether the receipt covers the text."
          : "The bundle contains hashes and the client's salt. Enter the text (one item per line, in order) to check whether the receipt covers it."}
      </p>
      <form
        className="audit-open"
        onSubmit={(event) => {
          event.preventDefault();
          void ask(compare);
        }}
      >
        <label className="text-label" htmlFor={`${id}-text`}>
          Text, or the answer as received
        </label>
        <textarea
          id={`${id}-text`}
          className="text-box audit-compare"
          dir="auto"
          rows={3}
          spellCheck={false}
          autoComplete="off"
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
        {query.at === "asking" && "Comparing."}
        {query.at === "stopped" && "The verifier stopped; check again."}
        {query.at === "answered" &&
          (query.answer.found !== null ? (
            <>
              <Icon name="check" /> Yes: the receipt covers exactly {query.answer.found}.
            </>
          ) : (
            <>
              <Icon name="cross" /> No: with this salt, the receipt covers something else. Every character
              counts.
            </>
          ))}
      </p>
    </>
  );
}

/** The entered content that the receipt covers; null if it covers something else. */
interface Compared {
  readonly found: string | null;
}

function foundIn({ request, response }: Answer, lines: number): string | null {
  if (!request) return response ? "this answer" : null;
  return `${request.which === 0 ? plural(lines, "line") : "this body"}, sent on ${moment(request.madeAtMs)}`;
}
