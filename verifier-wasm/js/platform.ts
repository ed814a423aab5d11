/**
 * Types of the platform, from the libraries of the program that uses this package: the DOM's, or those of Node, Deno, Bun or
 * workerd. A program without them gets a minimal form, so that this package's types compile alone.
 */
type Global<Name extends string, Otherwise> = typeof globalThis extends { readonly [K in Name]: infer Type }
  ? Type
  : Otherwise;

type Instance<Name extends string, Otherwise> = typeof globalThis extends {
  readonly [K in Name]: { readonly prototype: infer Type };
}
  ? Type
  : Otherwise;

interface MinimalResponse {
  readonly ok: boolean;
  readonly status: number;
  arrayBuffer(): Promise<ArrayBuffer>;
  json(): Promise<unknown>;
  text(): Promise<string>;
}

export type PlatformResponse = Instance<"Response", MinimalResponse>;
export type PlatformRequest = Instance<"Request", never>;
export type PlatformURL = Instance<"URL", { readonly href: string }>;
export type PlatformSignal = Instance<"AbortSignal", object>;
export type PlatformWebSocket = Instance<"WebSocket", object>;
export type PlatformSubtleCrypto = Instance<"SubtleCrypto", object>;

export type PlatformFetch = Global<
  "fetch",
  (input: string, init?: { readonly [option: string]: unknown }) => Promise<MinimalResponse>
>;
export type PlatformRequestInit = NonNullable<Parameters<PlatformFetch>[1]>;

export type PlatformModule = typeof globalThis extends {
  readonly WebAssembly: { readonly Module: { readonly prototype: infer Type } };
}
  ? Type
  : object;
