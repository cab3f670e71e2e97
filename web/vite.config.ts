/// Builds the page that the server embeds: hashed assets, no inline script, no foreign host.
import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const server = process.env.SPINDLE_SERVER ?? "http://127.0.0.1:8096";

/**
 * What draws ASS subtitles, as it came: separate files that can be replaced, as its licence (LGPL) asks, at fixed
 * names, because its worker looks for the others beside itself.
 */
const LIBASS = "node_modules/@jellyfin/libass-wasm/dist/js/";
const LIBASS_FILES = ["subtitles-octopus-worker.js", "subtitles-octopus-worker.wasm", "default.woff2", "COPYRIGHT"];
const libass: Plugin = {
  name: "libass",
  generateBundle() {
    for (const name of LIBASS_FILES) {
      const fileName = `libass/${name === "COPYRIGHT" ? "COPYRIGHT.txt" : name}`;
      this.emitFile({ type: "asset", fileName, source: readFileSync(LIBASS + name) });
    }
  },
};

export default defineConfig({
  plugins: [svelte(), libass],
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
