import type { ReactNode } from "react";
import { Icon } from "./Icon";
import "./outline.css";

interface OutlineProps {
  readonly title: string;
  readonly lead: string;
  /** Plain words on what is not here yet. */
  readonly status: string;
  readonly parts: readonly (readonly [string, string])[];
  readonly children?: ReactNode;
}

/** A page that says what it will be, and that it is not that yet. */
export function Outline({ title, lead, status, parts, children }: OutlineProps) {
  return (
    <div className="outline">
      <div className="page-head">
        <h1 tabIndex={-1}>{title}</h1>
        <p className="muted prose">{lead}</p>
      </div>
      <p className="outline-status">
        <Icon name="circle" /> {status}
      </p>
      {children && <div className="outline-now">{children}</div>}
      <h2>What will be here</h2>
      <ol className="outline-parts">
        {parts.map(([name, text]) => (
          <li key={name}>
            <h3>{name}</h3>
            <p className="muted">{text}</p>
          </li>
        ))}
      </ol>
    </div>
  );
}
