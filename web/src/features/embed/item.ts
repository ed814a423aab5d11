/** An item of a run whose vector has arrived. */
export interface EmbeddedItem {
  /** Index among all items of the run, from 0. */
  readonly index: number;
  readonly text: string;
  readonly vector: Float32Array;
  readonly tokens: number | null;
  readonly truncated: boolean | null;
}
