import type { ComponentType } from "react";

import type { Run, Source } from "../runs";

export interface ViewProps {
  /** Runs to show. */
  readonly runs: readonly Run[];
  /** All known runs. */
  readonly all: readonly Run[];
  readonly sources: readonly Source[];
}

export interface View {
  readonly key: string;
  readonly label: string;
  readonly lead: string;
  /** Subjects of the view: runs with one of them are offered. Null if the view chooses its own runs. */
  readonly subjects: RegExp | null;
  readonly Content: ComponentType<ViewProps>;
}
