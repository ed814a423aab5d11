/** Types for the browser tests. */

interface Program {
  readonly output: string;
  kill(): Promise<void>;
  signal(name: NodeJS.Signals): void;
}

interface Replica {
  readonly name: string;
  readonly url: string;
  readonly enclave: Program;
  readonly proxy: Program;
  start(): Promise<void>;
  ready(): Promise<void>;
  kill(): Promise<void>;
  drain(): Promise<void>;
  undrain(): Promise<void>;
  roll(program: string, drainedMs: number): Promise<void>;
}

interface Policy {
  readonly releases: readonly unknown[];
}

export class Fleet {
  static start(options?: { replicas?: number; page?: string }): Promise<Fleet>;
  readonly replicas: readonly Replica[];
  readonly url: string;
  readonly folder: string;
  policy(others?: readonly Policy[]): Promise<Policy>;
  close(): Promise<void>;
}

export function otherRelease(folder: string): string;
export function measured(program: string, fleet: Fleet): Promise<Policy>;
