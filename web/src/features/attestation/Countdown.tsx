import { useEffect, useState } from "react";
import { countdown } from "../../ui/format";

/** Time left until `untilMs`. Screen readers announce only the change to *expired*. */
export function Countdown({ untilMs }: { untilMs: number }) {
  const now = useNow(1_000);
  return (
    <span role="timer" aria-live="off" className="number">
      {countdown(untilMs - now)}
    </span>
  );
}

/** The current time, refreshed every `everyMs`. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
