/** `641a0321…bb5b`; short values stay whole. */
export function shortHash(value: string): string {
  return value.length <= 16 ? value : `${value.slice(0, 8)}…${value.slice(-4)}`;
}

/** `1,204`. */
export function count(value: number): string {
  return withDigits(value, 3);
}

const formats: Intl.NumberFormat[] = [];

/** With at most `digits` fraction digits. Formats are cached, because constructing one is slower than using it. */
export function withDigits(value: number, digits: number): string {
  formats[digits] ??= new Intl.NumberFormat("en", { maximumFractionDigits: digits });
  return formats[digits].format(value);
}

/** With exactly `digits` fraction digits. A value that rounds to zero has no sign. */
export function fixed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

const LARGER_UNITS = ["KiB", "MiB", "GiB"];

/** `16.2 MiB`: powers of 1,024, with binary prefixes (IEC 80000-13). */
export function bytes(size: number): string {
  if (size < 1_024) return plural(size, "byte");
  let value = size / 1_024;
  let unit = 0;
  // One digit is shown: 1,023.95 would round to 1024.0.
  while (value >= 1_023.95 && unit < LARGER_UNITS.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  return `${value.toFixed(1)} ${LARGER_UNITS[unit]}`;
}

/** `1 line`, `12 lines`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A duration in its two largest units: `2 h 41 min`, `1 min 05 s`, `0.4 s`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${pad(minutes % 60)} min`;
  const days = Math.floor(hours / 24);
  if (days < 730) return `${days} d ${pad(hours % 24)} h`;
  return `${(days / 365.25).toFixed(1)} years`;
}

/** Hours, minutes and seconds: `2:41:07`. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const clock = `${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}`;
  return seconds >= 3_600 ? `${Math.floor(seconds / 3_600)}:${clock}` : clock;
}

/** `0.31` for 310 microseconds. */
export function milliseconds(micros: number): string {
  return (micros / 1_000).toFixed(micros >= 100_000 ? 0 : 2);
}

const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const MOMENT = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

/** `21 Nov 2026`, in local time. */
export function date(unixMs: number): string {
  return DATE.format(unixMs);
}

/** `21 Nov 2026, 02:14:07 UTC`, in local time. */
export function moment(unixMs: number): string {
  return MOMENT.format(unixMs);
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}
