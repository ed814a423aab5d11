import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";
import "./tabs.css";

export interface Tab {
  readonly key: string;
  readonly label: string;
  readonly content: () => ReactNode;
}

/** Tabbed views. Arrow keys move between tabs (ARIA Authoring Practices, tabs pattern). */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(tabs[0]?.key);
  const at = Math.max(
    0,
    tabs.findIndex(({ key }) => key === chosen),
  );

  const choose = (index: number) => {
    const next = tabs[(index + tabs.length) % tabs.length];
    if (!next) return;
    setChosen(next.key);
    list.current?.querySelector<HTMLElement>(`[data-key="${next.key}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  };

  return (
    <>
      <div ref={list} role="tablist" aria-label={label} className="tabs" onKeyDown={onKeyDown}>
        {tabs.map((tab, index) => (
          <button
            key={tab.key}
            type="button"
            role="tab"
            id={`${id}-${tab.key}`}
            data-key={tab.key}
            aria-selected={index === at}
            aria-controls={index === at ? `${id}-panel` : undefined}
            tabIndex={index === at ? 0 : -1}
            onClick={() => setChosen(tab.key)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${tabs[at]?.key}`}
        className="tab-panel"
      >
        {tabs[at]?.content()}
      </div>
    </>
  );
}
