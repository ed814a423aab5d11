import { Button } from "../../ui/Button";
import { count, duration, plural } from "../../ui/format";
import "../../ui/progress-bar.css";
import { Prose } from "../../ui/Prose";
import { useNow } from "../attestation/Countdown";
import "./progress.css";
import { indicesAt, pace, type Run, tally, type Work } from "./run";

interface ProgressProps {
  readonly run: Run;
  readonly sealed: boolean;
  readonly onCancel: () => void;
  readonly onResume: (again?: readonly number[]) => void;
}

/** Progress and rate of a run, and its failed items. */
export function Progress({ run, sealed, onCancel, onResume }: ProgressProps) {
  if (run.at === "idle") return <p className="visually-hidden" role="status" />;
  const { total, embedded, failed, settled, waiting } = tally(run.work);
  const running = run.at === "running";
  return (
    <div className="progress-area">
      <div className="progress-head">
        <span className="number">
          <strong>{count(embedded)}</strong> of {plural(total, "item")} embedded
          {failed > 0 && <span className="progress-failed">, {count(failed)} failed</span>}
        </span>
        {running ? (
          <Button kind="quiet" icon="cross" onClick={onCancel}>
            Cancel
          </Button>
        ) : (
          run.at === "finished" &&
          run.tookMs !== null && <span className="muted number">in {duration(run.tookMs)}</span>
        )}
      </div>
      <progress className="progress" value={settled} max={Math.max(1, total)} aria-label="Items embedded" />
      {running && <Pace run={run} />}
      {run.at === "stopped" && (
        <div className="stopped">
          <p>
            {run.problem ? (
              <>
                <strong>{run.problem.title}.</strong>{" "}
                <Prose text={`${run.problem.detail} ${run.problem.remedy}`} /> <code>{run.problem.code}</code>
              </>
            ) : (
              <strong>Cancelled.</strong>
            )}{" "}
            {waiting > 0 &&
              `${plural(waiting, "item")} ${waiting === 1 ? "was" : "were"} not embedded; your text is still here.`}
          </p>
          {waiting > 0 && (
            <Button disabled={!sealed} onClick={() => onResume()}>
              Send the remaining {count(waiting)}
            </Button>
          )}
        </div>
      )}
      {failed > 0 && <Failed work={run.work} idle={!running} sealed={sealed} onResume={onResume} />}
      <p className="visually-hidden" role="status">
        {run.at === "finished" && `${plural(embedded, "item")} embedded, ${count(failed)} failed.`}
        {run.at === "stopped" && `Stopped: ${plural(waiting, "item")} left.`}
      </p>
    </div>
  );
}

function Pace({ run }: { run: Extract<Run, { at: "running" }> }) {
  const now = useNow(250);
  const { rate, leftMs } = pace(run, now);
  return (
    <p className="muted small number">
      {rate === null || leftMs === null
        ? "Waiting for the first answer"
        : `${rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1)} items per second, ${duration(leftMs)} left`}
    </p>
  );
}

const SHOWN = 20;

function Failed({
  work,
  idle,
  sealed,
  onResume,
}: {
  work: Work;
  idle: boolean;
  sealed: boolean;
  onResume: (again: readonly number[]) => void;
}) {
  const failed = indicesAt(work, "failed");
  return (
    <div className="failed">
      <div className="progress-head">
        <h3>Not embedded</h3>
        {failed.length > 1 && (
          <Button kind="quiet" icon="repeat" disabled={!idle || !sealed} onClick={() => onResume(failed)}>
            Try all {count(failed.length)} again
          </Button>
        )}
      </div>
      <ul>
        {failed.slice(0, SHOWN).map((index) => {
          const item = work.items[index];
          if (item?.outcome.at !== "failed") return null;
          const { problem } = item.outcome;
          return (
            <li key={index} className="failed-item">
              <div>
                <p className="failed-text">
                  <span className="muted number">{index + 1}</span> <bdi>{item.text}</bdi>
                </p>
                <p className="small failed-why">
                  {problem.detail} <code>{problem.code}</code>
                </p>
              </div>
              <Button
                kind="quiet"
                icon="repeat"
                disabled={!idle || !sealed}
                onClick={() => onResume([index])}
              >
                Try again
              </Button>
            </li>
          );
        })}
      </ul>
      {failed.length > SHOWN && <p className="muted small">and {count(failed.length - SHOWN)} more</p>}
    </div>
  );
}
