import type { Statement } from "@clearseal/verifier";
import { Icon } from "../../ui/Icon";
import type { Face } from "./seal";
import "./statements.css";

const QUESTIONS = [
  { about: "hardware", label: "Hardware", question: "Is it a genuine AWS Nitro Enclave?" },
  { about: "code", label: "Code", question: "Which release runs in it?" },
  { about: "key", label: "Key", question: "Who can open what you send?" },
] as const;

/**
 * Three separate statements that are easily confused; before an answer, the questions.
 *
 * Styling hooks: `data-face` is the {@link Face} of the seal; `data-holds` on a statement tells whether it is proved.
 */
export function Statements({ statements, face }: { statements: readonly Statement[]; face: Face }) {
  return (
    <dl className="statements" data-face={face}>
      {QUESTIONS.map(({ about, label, question }) => {
        const statement = statements.find((one) => one.about === about);
        const holds = statement?.holds === true;
        return (
          <div key={about} data-holds={holds}>
            <dt>
              <Icon
                name={!statement ? "circle" : !holds ? "cross" : face === "simulated" ? "dash" : "check"}
              />
              {label}
              <span className="visually-hidden">
                {!statement
                  ? ", not asked yet"
                  : !holds
                    ? ", not shown"
                    : face === "simulated"
                      ? ", simulated"
                      : ", shown"}
              </span>
            </dt>
            <dd>{statement?.text ?? question}</dd>
          </div>
        );
      })}
    </dl>
  );
}
