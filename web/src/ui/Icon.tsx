/** Line drawings on a 16 px grid. Decorative, so hidden from assistive technology. */
const PATHS = {
  check: "m3.5 8.5 3 3 6-7",
  cross: "m4 4 8 8M12 4l-8 8",
  dash: "M4 8h8",
  warning: "M8 3v6M8 12v.5",
  clock: "M8 4.5V8l2.5 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z",
  circle: "M13.5 8a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0Z",
  arc: "M8 2.5A5.5 5.5 0 1 1 2.5 8",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  download: "M8 2.5v7.5M4.5 7 8 10.5 11.5 7M3 13.5h10",
  chevron: "m5 6.5 3 3 3-3",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6ZM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  moon: "M13.2 9.8A5.6 5.6 0 0 1 6.2 2.8a5.6 5.6 0 1 0 7 7Z",
  screen: "M2.5 3.5h11v7.5h-11zM6 13.5h4",
  repeat: "M13 5.5A5.5 5.5 0 0 0 3 6M3 3v3h3M3 10.5A5.5 5.5 0 0 0 13 10M13 13v-3h-3",
  file: "M4 2.5h5.5L12 5v8.5H4zM9.5 2.5V5H12",
  arrow: "M3 8h10M9 4l4 4-4 4",
  unlink:
    "M6.5 9.5 5 11a2.5 2.5 0 0 1-3.5-3.5L3 6M9.5 6.5 11 5a2.5 2.5 0 0 1 3.5 3.5L13 10M5 2.5v2M2.5 4.5h2M11 13.5v-2M13.5 11.5h-2",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
