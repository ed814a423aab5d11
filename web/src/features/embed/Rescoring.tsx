import { count, fixed } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Prose } from "../../ui/Prose";
import type { EmbeddedItem } from "./item";
import "./rescoring.css";
import type { Rescored } from "./search-store";
import { CutBadge } from "./Truncation";

interface RescoringProps {
  readonly rescored: Rescored;
  readonly items: readonly EmbeddedItem[];
  readonly onSelect: (place: number) => void;
}

/** The nearest items in the order of their scores, with both numbers, and whether the scores are proved. */
export function Rescoring({ rescored, items, onSelect }: RescoringProps) {
  switch (rescored.at) {
    case "asking":
      return <p className="small muted">{rescored.model} is scoring the nearest texts.</p>;
    case "failed":
      return (
        <p className="refusal">
          <strong>{rescored.problem.title}.</strong>{" "}
          <Prose text={`${rescored.problem.detail} ${rescored.problem.remedy}`} />{" "}
          <code>{rescored.problem.code}</code>
        </p>
      );
    case "scored":
      return (
        <>
          <p className="rescoring-state small" data-verdict={rescored.verdict}>
            <Icon name={rescored.verdict === "verified" ? "check" : "dash"} />
            <span>
              {rescored.verdict === "verified" ? "Verified here" : "SIMULATED"}: every score is proved by
              receipt no. {rescored.sequence === null ? "?" : count(rescored.sequence)} of {rescored.model}.
            </span>
          </p>
          <table className="rescoring">
            <caption className="visually-hidden">Texts in the order of their scores</caption>
            <thead>
              <tr>
                <th scope="col">Score</th>
                <th scope="col">Cosine</th>
                <th scope="col">Text</th>
              </tr>
            </thead>
            <tbody>
              {rescored.items.map(({ index, score, cosine, truncated }) => (
                <tr key={index}>
                  <td className="number">{fixed(score, 3)}</td>
                  <td className="number">{fixed(cosine, 3)}</td>
                  <td>
                    <button type="button" dir="auto" onClick={() => onSelect(index)}>
                      {items[index]?.text}
                    </button>
                    {truncated && <CutBadge />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      );
  }
}
