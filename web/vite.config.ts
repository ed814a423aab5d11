import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** The policy that host-proxy sends as well, so that a preview fails wherever the real page would. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "worker-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Where `vite dev` and `vite preview` find a running host-proxy. */
const SERVICE = "http://127.0.0.1:8787";

export default defineConfig({
  plugins: [react()],
  worker: { format: "es" },
  // tokens.test.ts reads the colours from the style sheet itself.
  test: { css: true },
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox128", "safari17.5"],
    // A data: URL would need a wider Content-Security-Policy than the page has.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/v1": SERVICE } },
  preview: {
    proxy: { "/v1": SERVICE },
    headers: {
      "Content-Security-Policy": CONTENT_SECURITY_POLICY,
      "X-Content-Type-Options": "nosniff",
      "Referrer-Policy": "no-referrer",
    },
  },
});
