/// Builds the page that the server embeds: hashed assets, no inline script, no foreign host.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const server = process.env.SPINDLE_SERVER ?? "http://127.0.0.1:8096";

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: "es2022",
    // Data URLs in the page would need a wider content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // hls.js is one lazy file; its size is known and asked for only by HLS playback.
    chunkSizeWarningLimit: 640,
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": server, "/media": server, "/health": server },
  },
  test: {
    environment: "node",
    include: ["src/**/*.test.ts"],
    reporters: ["default"],
  },
});
