import { useEffect, useState } from "react";
import { countdown } from "../../ui/format";

/** Time left until `untilMs`, ticking. Not announced: the change to *expired* is. */
export function Countdown({ untilMs }: { untilMs: number }) {
  const now = useNow(1_000);
  return (
    <span role="timer" aria-live="off" className="number">
      {countdown(untilMs - now)}
    </span>
  );
}

/** The present moment, refreshed every `everyMs`. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
