/**
 * A browser that a test drives by lines of JSON: one command a line on standard input, one answer a line on output.
 *
 * It drives Debian's Chromium through playwright-core, which is taken from web/node_modules, and reads the burnt-in clock in
 * the page, from the very picture that the video element presents. Nothing in here knows what is right: run.py does.
 */
import { createRequire } from "node:module";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(path.join(here, "../../web/package.json"));
const { chromium } = require("playwright-core");

const shots = process.env.RIG_SHOTS ?? path.join(here, "../.work/shots");
const program = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((file) => existsSync(file));

const browser = await chromium.launch({
  executablePath: program,
  args: [
    "--no-sandbox", // a browser that runs as root has none; it sees nothing but our own server
    "--autoplay-policy=no-user-gesture-required",
    "--disable-dev-shm-usage", // containers often have a /dev/shm of 64 MiB
    "--mute-audio",
    "--disable-background-networking",
    "--disable-component-update",
  ],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
const problems = [];
const plays = [];
/** What the server answered when the page told it that a stream could not be played. */
const ways = [];
page.on("pageerror", (error) => problems.push(`page error: ${error.message}`));
page.on("console", (message) => {
  if (message.type() === "error") problems.push(`console: ${message.text()} ${message.location().url}`);
});
page.on("response", async (response) => {
  if (response.request().method() === "POST" && /\/api\/v1\/items\/[^/]+\/play$/.test(response.url()) && response.ok()) {
    plays.push(await response.json());
  }
  if (response.request().method() === "POST" && /\/api\/v1\/sessions\/[^/]+\/failed$/.test(response.url()) && response.ok()) {
    ways.push(await response.json());
  }
});
page.setDefaultTimeout(30_000);

const test = (id) => page.getByTestId(id);

/** Runs in the page: the next picture the video presents, its media time, and the clock on it (null: unreadable). */
async function presented(limit_ms) {
  const video = document.querySelector("[data-testid=video]") ?? document.querySelector("video");
  const canvas = new OffscreenCanvas(video.videoWidth, 1);
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ error: "no picture was presented", readyState: video.readyState, at_s: video.currentTime }), limit_ms);
    video.requestVideoFrameCallback((_, frame) => {
      clearTimeout(timer);
      // One row out of the middle of the code, which fills the top tenth.
      pen.drawImage(video, 0, Math.floor(video.videoHeight / 40), video.videoWidth, 1, 0, 0, video.videoWidth, 1);
      const { data, width } = pen.getImageData(0, 0, video.videoWidth, 1);
      const cell = Math.floor(width / 32);
      const level = [];
      for (let column = 0; column < 32; column += 1) {
        let sum = 0, count = 0;
        for (let x = column * cell + Math.floor(cell / 4); x < column * cell + Math.max(Math.floor((cell * 3) / 4), Math.floor(cell / 4) + 1); x += 1) {
          sum += data[4 * x] + data[4 * x + 1] + data[4 * x + 2];
          count += 3;
        }
        level.push(sum / count);
      }
      const threshold = (level[0] + level[1]) / 2;
      const number = (from, to) => level.slice(from, to).reduce((value, one) => value * 2 + (one > threshold ? 1 : 0), 0);
      const value = number(2, 26);
      const good = level[1] - level[0] >= 60 && value % 13 === number(26, 30);
      resolve({ media_s: frame.mediaTime, at_s: video.currentTime, clock_s: good ? value / 1000 : null });
    });
  });
}

const state = () =>
  page.evaluate(() => {
    const video = document.querySelector("video");
    if (!video) return null;
    const quality = video.getVideoPlaybackQuality();
    return {
      at_s: video.currentTime, duration_s: video.duration, paused: video.paused, ended: video.ended, ready: video.readyState,
      width: video.videoWidth, decoded: quality.totalVideoFrames, dropped: quality.droppedVideoFrames,
      audio_bytes: video.webkitAudioDecodedByteCount ?? null, src: video.currentSrc.slice(0, 40), error: video.error?.message ?? null,
      buffered_s: video.buffered.length ? video.buffered.end(video.buffered.length - 1) : 0,
    };
  });

const commands = {
  async open({ url }) { await page.goto(url); return page.url(); },
  async setup({ user, password }) {
    const form = test("setup-form");
    await form.waitFor();
    const fields = form.locator("input");
    const kinds = await fields.evaluateAll((all) => all.map((one) => one.type));
    for (const [number, kind] of kinds.entries()) await fields.nth(number).fill(kind === "password" ? password : user);
    await form.locator("button[type=submit], button:not([type])").first().click();
    await form.waitFor({ state: "detached" });
    return kinds;
  },
  async login({ user, password }) {
    const form = test("login-form");
    await form.waitFor();
    await form.locator("input:not([type=password])").first().fill(user);
    await form.locator("input[type=password]").first().fill(password);
    await form.locator("button[type=submit], button:not([type])").first().click();
    await form.waitFor({ state: "detached" });
  },
  async cards({ titles, limit_s = 60 }) {
    for (const title of titles) await test("card").filter({ hasText: title }).first().waitFor({ timeout: limit_s * 1000 });
    return test("card").count();
  },
  /** From wherever we are: to the item's page, then play from the start. */
  async play({ id }) {
    const before = plays.length;
    // By address: a card of the home page goes on where it was left, without showing the item's page.
    await page.evaluate((to) => { location.hash = to; }, `#/item/${encodeURIComponent(id)}`);
    await test("play").first().click();
    await page.locator("video").first().waitFor({ state: "attached" });
    const end = Date.now() + 20_000;
    while (plays.length === before) {
      if (Date.now() > end) throw new Error("the page did not ask the server to play");
      await page.waitForTimeout(50);
    }
    return plays.at(-1);
  },
  state,
  /** Waits until the video has moved on by so many seconds of media. */
  async advance({ seconds, limit_s = 60 }) {
    await page.waitForFunction(
      ([from, by]) => { const video = document.querySelector("video"); return video && video.currentTime >= from + by && video.getVideoPlaybackQuality().totalVideoFrames > 0; },
      [(await state()).at_s, seconds], { timeout: limit_s * 1000 },
    );
    return state();
  },
  async presented({ limit_s = 30 } = {}) { return page.evaluate(presented, limit_s * 1000); },
  /** Seeks as a person does, by a digit key (tenths of the title), and reads the first picture after it. */
  async seek({ tenths }) {
    // In the page, so that the picture is the first one there is, however long the answer takes to come here.
    await page.evaluate(`(() => {
      const presented = ${presented};
      const video = document.querySelector("video");
      window.afterSeek = new Promise((resolve) => video.addEventListener("seeked", () => resolve(presented(30000)), { once: true }));
    })()`);
    const began = Date.now();
    await page.keyboard.press(String(tenths));
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error("not sought within 30 s")), 30_000).unref());
    const picture = await Promise.race([page.evaluate(() => window.afterSeek), late]);
    return { ...picture, took_ms: Date.now() - began };
  },
  async ways() { return ways; },
  /** Opens a menu of the player and takes one of its choices, by position. */
  async choose({ menu, position }) {
    await page.mouse.move(300, 300);
    await test(menu).click();
    await page.locator("[role=menuitemradio]").nth(position).click();
  },
  async press({ key }) { await page.keyboard.press(key); },
  async io_open() {
    if (!(await test("io-view").first().isVisible())) await page.keyboard.press("i");
    await test("io-view").first().waitFor();
  },
  /** What the I/O view says, from its elements alone. */
  async io() {
    const view = test("io-view").first();
    return {
      disks: await view.getByTestId("io-disk").evaluateAll((all) => all.map((one) => ({ disk: one.dataset.disk, bytes: Number(one.dataset.bytes) }))),
      verdict: (await view.getByTestId("io-verdict").first().textContent())?.trim() ?? "",
      attribution: (await view.getByTestId("io-attribution").first().textContent())?.trim() ?? "",
    };
  },
  async text({ id }) { return (await test(id).first().textContent())?.trim() ?? ""; },
  /** Back to the first page, as a person goes; the player is gone when this returns. */
  async leave({ url }) {
    await page.evaluate(() => { location.hash = "#/"; });
    await page.locator("video").first().waitFor({ state: "detached" });
    if (url) await page.goto(url);
  },
  async goto_hash({ hash }) { await page.evaluate((to) => { location.hash = to; }, hash); },
  async shot({ name }) { mkdirSync(shots, { recursive: true }); await page.screenshot({ path: path.join(shots, `${name}.png`) }); },
  async problems() { return problems.splice(0); },
  async eval_({ code }) { return page.evaluate(code); },
};

process.stdout.write(`${JSON.stringify({ ready: await browser.version() })}\n`);
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { do: name, ...args } = JSON.parse(line);
  if (name === "close") break;
  let answer;
  try {
    answer = { ok: (await commands[name](args)) ?? null };
  } catch (error) {
    answer = { error: String(error.message ?? error).slice(0, 1500) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
