/// Drives the built page in headless Chromium against the mock server: what works is checked,
/// accessibility too; pictures of every view are left in e2e/.work/shots.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startMock } from "./mock/server.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const shots = join(here, ".work", "shots");
mkdirSync(shots, { recursive: true });
if (!existsSync(join(here, "..", "dist", "index.html"))) throw new Error("web/dist is missing: npm run build first");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** How many cases run beside each other, each in a browser of its own: most of a case is waiting. */
const LANES = Number(process.env.LANES ?? 2);
const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required"],
});

const only = process.argv[2];
/** The cases in order, and what each came to once it has run: its lines, and whether they are good. */
const cases = [];

/** Adds a case; `run` at the end of this file runs them. */
function test(name, options, body) {
  if (only && !name.includes(only)) return;
  cases.push({ name, options, body });
}

async function one(browser, name, { size = { width: 1440, height: 900 }, account = true, signIn = true, storage, file } = {}, body) {
  const mock = await startMock({ account, storage, file });
  // A mock that is left open would keep this program running: it ends also when the browser is gone.
  const context = await browser.newContext({ viewport: size, baseURL: mock.url, colorScheme: "dark" }).catch(async (error) => {
    await mock.close();
    throw error;
  });
  try {
    return await inPage(await context.newPage(), mock, name, signIn, body);
  } finally {
    await context.close().catch(() => undefined);
    await mock.close();
  }
}

async function inPage(page, mock, name, signIn, body) {
  page.setDefaultTimeout(15_000);
  const faults = [];
  page.on("pageerror", (e) => faults.push(`page: ${e.message}`));
  page.on("console", (m) => {
    const text = m.text();
    // Statuses that a test provokes are not faults of the page; a policy violation is one.
    if (m.type() === "error" && !/Failed to load resource/.test(text)) faults.push(`console: ${text}`);
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(mock.url) && !/^(blob|data):/.test(r.url())) faults.push(`foreign request: ${r.url()}`);
  });
  const said = [];
  const t = tools(page, mock, said);
  const began = performance.now();
  try {
    if (signIn) await t.signIn();
    await body(t);
    if (faults.length > 0) throw new Error(faults.join("\n"));
    return { good: true, text: `${said.join("")}ok      ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)\n` };
  } catch (error) {
    await page.screenshot({ path: join(shots, `failed-${name.replace(/\W+/g, "-").slice(0, 60)}.png`) }).catch(() => undefined);
    return { good: false, text: `${said.join("")}FAILED  ${name}\n${String(error.stack ?? error).replace(/^/gm, "        ")}\n${faults.map((f) => `        ${f}\n`).join("")}` };
  }
}

/** Runs the cases, some at a time, and prints them in the order in which they stand here. */
async function run() {
  let next = 0;
  let printed = 0;
  const lane = async () => {
    const browser = await launch();
    try {
      while (next < cases.length) {
        const own = cases[next++];
        own.result = await one(browser, own.name, own.options, own.body).catch((error) => ({ good: false, text: `FAILED  ${own.name}\n        ${error.stack ?? error}\n` }));
        while (cases[printed]?.result) process.stdout.write(cases[printed++].result.text);
      }
    } finally {
      await browser.close();
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Math.min(LANES, cases.length)) }, lane));
  const passed = cases.filter((c) => c.result?.good).length;
  process.stdout.write(`${passed} passed, ${cases.length - passed} failed\n`);
  process.exitCode = passed === cases.length ? 0 : 1;
}

function check(truth, text) {
  if (!truth) throw new Error(text);
}

function tools(page, mock, said) {
  const id = (name) => page.getByTestId(name);
  const t = {
    page,
    mock,
    id,
    /** A line above the case's own. */
    say: (text) => said.push(`        ${text}\n`),
    shot: (name, whole = false) => page.screenshot({ path: join(shots, `${name}.png`), fullPage: whole }),
    go: async (hash) => {
      await page.goto(`/#${hash}`);
    },
    async signIn() {
      await page.goto("/");
      await id("login-form").locator("[name=username]").fill("ada");
      await id("login-form").locator("[name=password]").fill("correct horse");
      await id("login-form").locator("button[type=submit]").click();
      await page.getByRole("navigation", { name: "Main" }).waitFor();
    },
    /** No serious violation of what axe knows of WCAG A and AA. */
    async accessible() {
      // By the debugger, which the page's policy does not bind.
      await page.evaluate(axe);
      // Colours on their way from one theme to the other are no colours of the page.
      await page.evaluate(() =>
        Promise.all(
          document
            .getAnimations()
            .filter((a) => a.effect?.getComputedTiming().endTime !== Infinity)
            .map((a) => a.finished.catch(() => undefined)),
        ).then(() => undefined),
      );
      const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
      const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
      check(bad.length === 0, bad.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`).join("\n  ")}`).join("\n"));
    },
    /** Waits until pictures are decoded and time goes on. */
    async plays(seconds = 1) {
      await page.waitForFunction(
        (least) => {
          const v = document.querySelector("[data-testid=video]");
          return v && !v.paused && v.videoWidth > 0 && v.getVideoPlaybackQuality().totalVideoFrames > 5 && v.currentTime > least;
        },
        seconds,
      );
    },
    time: () => page.evaluate(() => document.querySelector("[data-testid=video]").currentTime),
    calls: (route) => mock.calls.filter((c) => c.route === route),
  };
  return t;
}

test("the first run makes an account and enters", { account: false, signIn: false }, async (t) => {
  const refused = [];
  t.page.on("response", (r) => r.status() >= 400 && refused.push(r.url()));
  await t.page.goto("/");
  const form = t.id("setup-form");
  await form.waitFor();
  check(refused.length === 0, `nothing is asked for that is refused: ${refused}`);
  await t.shot("setup");
  await t.accessible();
  await form.locator("[name=username]").fill("ada");
  await form.locator("[name=password]").fill("correct horse");
  await form.locator("[name=password2]").fill("wrong horse");
  await form.locator("button[type=submit]").click();
  check((await form.getByRole("alert").innerText()) === "The two passwords differ.", "a mistyped password is told");
  await form.locator("[name=password2]").fill("correct horse");
  await form.locator("button[type=submit]").click();
  await t.page.getByRole("navigation", { name: "Main" }).waitFor();
});

test("a wrong password is told, the right one enters, sign out leaves", { signIn: false }, async (t) => {
  await t.page.goto("/");
  const form = t.id("login-form");
  await form.locator("[name=username]").fill("ada");
  await form.locator("[name=password]").fill("nonsense");
  await form.locator("button[type=submit]").click();
  await form.getByText("The name or the password is wrong.").waitFor();
  await t.shot("login");
  await t.accessible();
  await form.locator("[name=password]").fill("correct horse");
  await form.locator("button[type=submit]").click();
  await t.id("sign-out").click();
  await form.waitFor();
});

test("home shows what was begun, what follows and what is new", {}, async (t) => {
  await t.page.getByRole("heading", { name: "Continue watching" }).waitFor();
  await t.page.getByRole("heading", { name: "Next up" }).waitFor();
  check((await t.id("card").first().getAttribute("href")).startsWith("#/item/"), "a card leads to the title");
  check((await t.page.getByRole("link", { name: /^Play / }).first().getAttribute("href")).startsWith("#/watch/"), "its button plays");
  await t.shot("home");
  await t.accessible();
});

test("the grid draws a part of 1,206 titles, searches and is walked by keys", {}, async (t) => {
  await t.page.getByTestId("library-link").first().click();
  const grid = t.id("grid");
  await grid.getByTestId("card").first().waitFor();
  check((await grid.getAttribute("data-total")) === "1206", "all titles are counted");
  const drawn = await grid.getByTestId("card").count();
  check(drawn > 10 && drawn < 120, `only what is seen is drawn, not ${drawn}`);
  await t.shot("library");
  await t.accessible();
  await grid.getByTestId("card").first().focus();
  await t.page.keyboard.press("End");
  await t.page.waitForFunction(() => document.activeElement?.closest("li")?.getAttribute("data-place") === "1205");
  await t.page.keyboard.press("Home");
  await t.page.keyboard.press("ArrowRight");
  await t.page.waitForFunction(() => document.activeElement?.closest("li")?.getAttribute("data-place") === "1");
  await t.id("grid-search").fill("long orbit");
  await t.page.waitForFunction(() => Number(document.querySelector("[data-testid=grid]")?.dataset.total) < 20);
  check(t.page.url().includes("search=long"), "the search is in the address");
});

test("a scan shows its progress while titles are there", {}, async (t) => {
  await t.go("/settings");
  await t.id("scan").first().click();
  await t.id("scan-progress").first().waitFor();
  await t.shot("scan");
  await t.page.waitForFunction(() => !document.querySelector("[data-testid=scan-progress]"));
});

test("settings list what could not be read, with the reason, and add a library", {}, async (t) => {
  await t.go("/settings");
  await t.id("unreadable").click();
  await t.id("unreadable-list").getByText("the file is empty").waitFor();
  await t.shot("settings");
  await t.accessible();
  await t.id("library-form").locator("[name=path]").fill("films");
  await t.id("library-form").locator("button").click();
  await t.id("library-form").getByText("must be an absolute path").waitFor();
  await t.id("library-form").locator("[name=path]").fill("/srv/more");
  await t.id("library-form").locator("button").click();
  await t.id("library").nth(2).getByText("/srv/more").waitFor();
});

test("an item's page has its facts, its tracks and the disks that hold it", {}, async (t) => {
  await t.go("/item/resume");
  await t.id("resume").waitFor();
  check((await t.id("resume").innerText()).includes("0:17"), "resume says where");
  await t.id("layout-disk").first().waitFor();
  check((await t.id("layout-disk").count()) === 4, "four disks hold it");
  await t.shot("item");
  await t.accessible();
  await t.id("watched").click();
  await t.page.waitForFunction(() => document.querySelector("[data-testid=watched]")?.getAttribute("aria-pressed") === "true");
  check(t.calls("PUT /items/resume/state")[0].body.watched === true, "the state is saved");
  check((await t.id("resume").count()) === 0, "what was watched starts anew");
});

test("a show leads to seasons and episodes", {}, async (t) => {
  await t.go("/item/show");
  await t.page.getByRole("region", { name: "Seasons" }).getByTestId("card").first().click();
  await t.page.getByRole("region", { name: "Episodes" }).getByTestId("card").first().waitFor();
  await t.shot("season");
  await t.accessible();
});

test("a title says how it would play on another client, and why", {}, async (t) => {
  await t.go("/item/plain");
  await t.id("plays-sentence").getByText("Chrome plays the file as it is.").waitFor();
  check(typeof t.calls("POST /items/plain/decide")[0].body.client.profile === "object", "this browser is asked what it can");
  await t.id("plays-client").selectOption("roku-4k");
  await t.id("plays-on").getByText("the sound becomes AAC in stereo.").waitFor();
  await t.id("plays-on").getByText("It takes at most 2; this is 6.").waitFor();
  check(t.calls("POST /items/plain/play").length === 0, "nothing is played for it");
  await t.shot("plays-on");
  await t.accessible();
});

test("a file plays as it is, is sought in, reports and ends its session", {}, async (t) => {
  await t.go("/item/plain");
  await t.id("play").click();
  await t.plays();
  check((await t.id("player").getAttribute("data-engine")) === "file", "no HLS for a file that plays");
  check((await t.id("method").innerText()).includes("Direct play"), "the method is told");
  const sent = t.calls("POST /items/plain/play")[0].body.client.profile;
  check(sent.direct_play.some((d) => d.container === "mp4" && d.video.includes("h264") && d.audio.includes("aac")), "the profile is asked of the browser");
  if (process.env.SHOW_PROFILE) t.say(JSON.stringify(sent, null, 1));
  check(!JSON.stringify(sent).includes("hevc"), "what the browser does not decode is not in it");
  await t.shot("player");
  await t.page.keyboard.press("5");
  await t.plays(19.9);
  await t.page.keyboard.press("j");
  await t.page.waitForFunction(() => document.querySelector("[data-testid=video]").currentTime < 16);
  const box = await t.id("seek").boundingBox();
  await t.page.mouse.move(box.x + box.width * 0.75, box.y + box.height / 2);
  await t.shot("player-seek");
  await t.page.mouse.down();
  await t.page.mouse.up();
  await t.plays(30);
  check(Math.abs((await t.time()) - 30) < 3, "a click on the bar goes there");
  await t.page.keyboard.press("k");
  await t.page.waitForFunction(() => document.querySelector("[data-testid=video]").paused);
  await t.accessible();
  const reports = t.calls("POST /sessions/s1/progress");
  check(reports.some((c) => c.body.paused === true), "a pause is reported");
  check(reports.some((c) => Math.abs(c.body.position_s - 30) < 3), "a seek is reported");
  await t.page.keyboard.press("Escape");
  await t.page.waitForFunction(() => !document.querySelector("[data-testid=player]"));
  await t.page.waitForTimeout(300);
  check(t.calls("DELETE /sessions/s1").length === 1, "leaving ends the session");
});

test("HLS plays through hls.js from where it was left", {}, async (t) => {
  await t.go("/watch/hls?t=21");
  await t.plays(21);
  check((await t.id("player").getAttribute("data-engine")) === "hls.js", "hls.js carries it");
  await t.id("method").click();
  await t.id("why").getByText("This browser gets it repacked: picture and sound are copied.").waitFor();
  await t.id("why").getByText("The browser does not play Matroska files.").waitFor();
  await t.shot("player-why");
  await t.page.keyboard.press("Escape");
  await t.page.keyboard.press("1");
  await t.page.waitForFunction(() => {
    const v = document.querySelector("[data-testid=video]");
    return v.currentTime > 4 && v.currentTime < 9 && !v.seeking && v.readyState > 2;
  });
});

test("subtitles in text are shown on the spot, those in pictures ask for another stream", {}, async (t) => {
  await t.go("/watch/plain?t=2");
  await t.plays(2);
  await t.page.keyboard.press("c");
  await t.page.getByText("The coast was here").waitFor();
  await t.shot("player-subtitles");
  check(t.calls("POST /items/plain/play").length === 1, "text needs no new stream");
  await t.page.mouse.move(400, 400);
  await t.id("subtitle-menu").click();
  await t.page.getByRole("menuitemradio", { name: /French/ }).click();
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]").dataset.method === "transcode");
  check(t.calls("POST /items/plain/play")[1].body.subtitle === 4, "the picture subtitle is asked for");
  check(t.calls("POST /items/plain/play")[1].body.start_s >= 2, "from where it was");
  await t.plays(2);
});

test("another sound track and another quality go on from where it was", {}, async (t) => {
  await t.go("/watch/plain?t=12");
  await t.plays(12.5);
  await t.page.mouse.move(400, 400);
  await t.id("audio-menu").click();
  await t.shot("player-menu");
  await t.accessible();
  await t.page.getByRole("menuitemradio", { name: /German/ }).click();
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]").dataset.session === "s2");
  await t.plays(12.5);
  check(t.calls("POST /items/plain/play")[1].body.audio === 2, "the track is asked for");
  check(t.calls("DELETE /sessions/s1").length === 1, "the old session ends");
  await t.page.mouse.move(420, 420);
  await t.id("quality-menu").click();
  await t.page.getByRole("menuitemradio", { name: /3 Mbit/ }).click();
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]").dataset.protocol === "hls");
  await t.plays(12.5);
  check(t.calls("POST /items/plain/play")[2].body.max_bitrate === 3_000_000, "the limit is sent");
});

for (const [item, what, codec] of [["hevc", "picture", "hevc"], ["eac3", "sound", "eac3"]]) {
  test(`a stream without ${what} is found out and another one is played`, {}, async (t) => {
    await t.go(`/watch/${item}?t=0`);
    await t.page.waitForFunction(() => document.querySelector("[data-testid=player]")?.dataset.protocol === "hls", undefined, { timeout: 20_000 });
    await t.plays();
    check(t.calls(`POST /items/${item}/play`).length === 1, "the server finds the other way");
    const [report, ...more] = t.calls("POST /sessions/s1/failed");
    check(report && more.length === 0, "the failure is told once");
    check(report.body.error === "decode" && report.body.detail.startsWith(`no_${what}`), `what failed is told: ${JSON.stringify(report.body)}`);
    check(!JSON.stringify(report.body.client.profile).includes(codec), "with a profile that no longer claims the codec");
    check(t.calls("DELETE /sessions/s1").length === 0, "the server has ended the failed session");
    // What was learnt holds for the next title too.
    await t.page.evaluate(() => { location.hash = "#/watch/plain?t=0"; });
    await t.plays();
    check(!JSON.stringify(t.calls("POST /items/plain/play")[0].body).includes(codec), "the next title is not begun with it");
  });
}

test("a file that breaks off in the decoder goes on by the server's other way", {}, async (t) => {
  await t.go("/watch/broken?t=0");
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]")?.dataset.protocol === "hls", undefined, { timeout: 20_000 });
  await t.plays();
  const [report] = t.calls("POST /sessions/s1/failed");
  check(["decode", "unsupported"].includes(report.body.error) && report.body.client === undefined, `what failed is told: ${JSON.stringify(report.body)}`);
  check(t.calls("POST /items/broken/play").length === 1, "the server is not asked to begin anew");
});

test("when every way has failed the viewer is told, and can try again", {}, async (t) => {
  await t.go("/watch/hopeless?t=0");
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]")?.dataset.state === "failed", undefined, { timeout: 40_000 });
  await t.page.getByText("every way to play it was tried and failed").or(t.page.getByText("The browser could not decode the stream.")).or(t.page.getByText("The browser does not play this kind of file.")).first().waitFor();
  check(t.calls("POST /sessions/s1/failed").length === 1, "the first way");
  check(t.calls("POST /sessions/s2/failed")[0].body.client !== undefined, "the last try is for what every browser decodes");
  await t.shot("player-hopeless");
  await t.accessible();
  await t.page.getByRole("button", { name: "Try again" }).waitFor();
});

test("muted and fast playing is not taken for a fault", {}, async (t) => {
  await t.page.evaluate(() => localStorage.setItem("spindle.prefs", JSON.stringify({ muted: true })));
  await t.page.reload();
  await t.go("/watch/plain?t=3");
  await t.plays(3);
  await t.page.keyboard.press(">");
  await t.plays(9);
  check(t.calls("POST /items/plain/play").length === 1, "the stream is left alone");
});

test("a session that the server ended goes on with a new one", {}, async (t) => {
  await t.go("/watch/plain?t=6");
  await t.plays(6.5);
  await t.page.keyboard.press("k");
  await t.page.waitForTimeout(300);
  t.mock.sessions.get("s1").endedAt = Date.now();
  await t.page.waitForTimeout(5600);
  await t.page.keyboard.press("k");
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]").dataset.session === "s2");
  await t.plays(6.5);
});

test("what cannot be played is told with the reason", {}, async (t) => {
  await t.go("/watch/gone");
  await t.page.getByText("the folder of this title cannot be reached").waitFor();
  await t.shot("player-failed");
});

test("the I/O view shows each disk while it plays and afterwards", { size: { width: 1720, height: 980 } }, async (t) => {
  await t.go("/watch/plain?t=0");
  await t.plays();
  t.mock.age("s1", 38);
  await t.page.keyboard.press("i");
  await t.id("io-view").waitFor();
  await t.page.locator(".u-over").waitFor();
  check((await t.id("io-disk").count()) === 4, "four disks");
  check(Number(await t.id("io-disk").first().getAttribute("data-bytes")) > 1e8, "with their bytes");
  check((await t.id("io-verdict").innerText()).includes("Two disks at a time"), "the verdict");
  check((await t.id("io-attribution").innerText()).includes("Exact"), "how it is known");
  await t.page.waitForTimeout(1500);
  await t.shot("player-io");
  await t.accessible();
  const csv = await t.page.evaluate(async (href) => (await fetch(href)).text(), await t.id("io-csv").getAttribute("href"));
  check(csv.startsWith("t_s"), "the CSV is linked");
  await t.page.keyboard.press("Escape");
  await t.go("/history");
  await t.id("history-entry").first().waitFor();
  await t.shot("history");
  await t.accessible();
  await t.id("history-entry").first().click();
  await t.page.locator(".u-over").waitFor();
  await t.page.waitForTimeout(600);
  await t.shot("record", true);
  await t.accessible();
});

test("a file's map is drawn, looked at closer by mouse and keys, and read out", {}, async (t) => {
  await t.go("/item/plain");
  await t.id("band").waitFor();
  check((await t.id("layout").innerText()).includes("It lies on 4 disks, in 34 pieces, spread evenly; each byte has 2 copies."), "the sentence");
  check((await t.id("layout-exact").innerText()) === "Exact", "exact");
  const lanes = t.page.getByRole("group", { name: /Map of the file/ });
  await lanes.scrollIntoViewIfNeeded();
  const colours = await t.page.evaluate(() => {
    const c = document.querySelector("[data-testid=band] canvas");
    const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
    return new Set(Array.from({ length: data.length / 4 }, (_, i) => data.slice(i * 4, i * 4 + 3).join())).size;
  });
  check(colours > 4, `the disks' colours are drawn, not ${colours}`);
  const box = await lanes.boundingBox();
  await t.page.mouse.move(box.x + box.width * 0.25, box.y + 20);
  const under = (await t.id("band-read").textContent()).replace(/\s+/g, " ");
  check(/copy 1 on sd[bc], column [12] of 2/.test(under), `what lies under the pointer: ${under}`);
  await t.page.mouse.down();
  await t.page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await t.page.mouse.up();
  const size = 4_240_000_000;
  const from = Number(await t.id("band").getAttribute("data-from"));
  check(Math.abs(from / size - 0.25) < 0.02, `a range that is drawn is what is seen, from ${from}`);
  await lanes.focus();
  await t.page.keyboard.press("Escape");
  check(Number(await t.id("band").getAttribute("data-from")) === 0, "and back");
  await t.page.keyboard.press("End");
  check((await t.id("band-read").innerText()).includes("copy 2 on"), "keys read it out too");
  await t.page.keyboard.press("+");
  check(Number(await t.id("band").getAttribute("data-from")) > 0, "plus looks closer");
  await t.shot("layout", true);
  await t.accessible();
});

test("a file in 50,000 pieces is drawn at once", { file: "shattered" }, async (t) => {
  await t.go("/item/plain");
  await t.id("band").waitFor();
  check((await t.id("layout").innerText()).includes("50,000 pieces"), "all are counted");
  const lanes = t.page.getByRole("group", { name: /Map of the file/ });
  await lanes.focus();
  const ms = await t.page.evaluate(async () => {
    const from = performance.now();
    for (let i = 0; i < 8; i += 1) {
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
      await new Promise(requestAnimationFrame);
    }
    return (performance.now() - from) / 8;
  });
  t.say(`50,000 pieces: ${ms.toFixed(1)} ms a picture`);
  await t.shot("layout-shattered", true);
});

test("a map that is not exact says why", { file: "inexact" }, async (t) => {
  await t.go("/item/plain");
  await t.id("layout").waitFor();
  check((await t.id("layout-exact").innerText()) === "Not exact", "not exact");
  check((await t.id("layout").innerText()).includes("chunk tree is not readable"), "with the reason");
  check((await t.id("band").count()) === 0, "nothing is drawn that is not known");
});

test("a disk that fails, guessed stretches and reads for lost bytes are told, and two sessions compared", {}, async (t) => {
  for (const item of ["plain", "resume"]) {
    await t.go(`/watch/${item}?t=0`);
    await t.plays();
    const id = await t.id("player").getAttribute("data-session");
    t.mock.age(id, 38);
    await t.page.keyboard.press("Escape");
    await t.page.waitForFunction(() => !document.querySelector("[data-testid=player]"));
    await t.page.waitForTimeout(300);
  }
  await t.go("/history");
  await t.id("history-entry").first().click();
  await t.id("io-fault").waitFor();
  check((await t.id("io-fault").innerText()).includes("Playback went on from the other disks."), "what became of it");
  check((await t.id("io-attribution").innerText()).includes("within 3.0 % of the truth"), "the measured error");
  check((await t.id("io-spans").locator("li").count()) === 3, "what was in force when");
  check(Number(await t.page.locator("[data-source=make_up]").getAttribute("data-bytes")) > 0, "reads for lost bytes apart");
  check((await t.id("io-parity").count()) === 3 && (await t.id("io-beside").count()) === 2, "parity by disk; processor and system disk beside");
  await t.id("band").waitFor();
  await t.page.locator(".u-over").first().waitFor();
  await t.page.waitForTimeout(600);
  await t.shot("record-fault", true);
  await t.accessible();
  await t.page.emulateMedia({ colorScheme: "light" });
  await t.page.waitForTimeout(600);
  await t.shot("record-fault-light", true);
  await t.accessible();
  const json = await t.page.evaluate(async (href) => (await fetch(href)).json(), await t.id("io-json").getAttribute("href"));
  check(json.series.t_s.length > 30, "JSON is linked");
  await t.id("io-compare").click();
  await t.id("history-entry").first().click();
  await t.id("compare-side").nth(1).waitFor();
  check((await t.id("compare-row").count()) > 8, "figures next to each other");
  await t.page.locator(".u-over").nth(1).waitFor();
  await t.page.waitForTimeout(600);
  await t.shot("compare-light", true);
  await t.accessible();
  await t.page.emulateMedia({ colorScheme: "dark" });
  await t.page.waitForTimeout(600);
  await t.shot("compare", true);
});

/** Plays an item for a moment, as if for 38 s, and gives the session that has ended. */
async function played(t, item, seconds = 38) {
  await t.go(`/watch/${item}?t=0`);
  await t.plays();
  const id = await t.id("player").getAttribute("data-session");
  t.mock.age(id, seconds);
  await t.page.keyboard.press("Escape");
  await t.page.waitForFunction(() => !document.querySelector("[data-testid=player]"));
  await t.page.waitForFunction(() => document.querySelectorAll("[data-testid=player]").length === 0);
  return id;
}

test("the stripe view: verdict, what was read when on the file's map, one moment in every picture", {}, async (t) => {
  const id = await played(t, "plain");
  await t.go(`/history/${id}`);
  await t.id("band").waitFor();
  check((await t.id("io-columns").getAttribute("data-used")) === "2", "columns used");
  const copies = (await t.id("io-copies").innerText()).replace(/\s+/g, " ");
  check(/1 \d+ % 2 \d+ %/.test(copies), `the share of each copy: ${copies}`);
  check((await t.id("io-request").innerText()).includes("1.9 chunks of 256 KiB"), `requests against chunks: ${await t.id("io-request").innerText()}`);
  check((await t.id("io-cache").innerText()).includes("6.0 %"), "memory");
  check((await t.page.locator("[data-testid=io-advice] [data-code=enough]").count()) === 1, "what would change it");
  check((await t.id("io-trail").count()) === 0, "drawn once, on the map");
  const lanes = t.page.getByRole("group", { name: /Map of the file and of what was read of it/ });
  await lanes.scrollIntoViewIfNeeded();
  const box = await lanes.boundingBox();
  // Where the stream was at 20 s: of copy 2, read at 2.4 GB and more.
  const trailTop = box.y + box.height - 150;
  await t.page.mouse.move(box.x + (2_500_000_000 / 4_240_441_344) * box.width, trailTop + (20 / 39) * 150);
  const under = (await t.id("band-read").textContent()).replace(/\s+/g, " ");
  check(/read at 0:(1|2)\d of copy 2/.test(under), `what was read there: ${under}`);
  check((await t.id("io-beside").locator(".moment").count()) === 2, "the same moment beside");
  check(/of a core/.test(await t.id("io-beside").first().innerText()) && !/mean/.test(await t.id("io-beside").first().innerText()), "with its value");
  check((await t.page.locator("[data-testid=io-disk] .now").allInnerTexts()).every((w) => /B\/s/.test(w)), "and each disk's rate");
  await t.shot("stripe-moment");
  await t.page.locator("[data-testid=io-beside] .box").first().hover();
  check((await t.id("band").locator(".moment").count()) === 1 && (await t.id("band").locator(".place").count()) === 1, "and back: the moment and the place in the file");
  await t.page.mouse.move(4, 4);
  await lanes.focus();
  for (let i = 0; i < 20; i += 1) await t.page.keyboard.press("ArrowDown");
  const at = (await t.id("band-read").textContent()).replace(/\s+/g, " ");
  check(/at 0:1\d/.test(at) && /copy 2 on sd[de]/.test(at), `keys walk through time, and the place follows: ${at}`);
  // Down to single chunks: steps of the two columns.
  for (let i = 0; i < 11; i += 1) await t.page.keyboard.press("+");
  const span = Number(await t.id("band").getAttribute("data-to")) - Number(await t.id("band").getAttribute("data-from"));
  check(span < 4_000_000, `a few chunks are seen: ${span} bytes`);
  await t.page.waitForTimeout(300);
  await t.shot("stripe-chunks");
  await t.page.keyboard.press("Escape");
  await t.page.mouse.move(4, 4);
  await t.page.waitForTimeout(600);
  await t.shot("stripe", true);
  await t.accessible();
  await t.page.emulateMedia({ colorScheme: "light" });
  await t.page.waitForTimeout(600);
  await t.shot("stripe-light", true);
  await t.accessible();
  for (const [table, head] of [["disks", "disk,"], ["events", "at_s,event"], ["trail", "from_s,"], ["series", "t_s"]]) {
    const href = await t.page.locator(`[data-testid=io-table][data-table=${table}]`).getAttribute("href");
    const text = await t.page.evaluate(async (h) => (await fetch(h)).text(), href);
    check(text.startsWith(head), `the table ${table}: ${text.slice(0, 40)}`);
  }
  await t.page.setViewportSize({ width: 390, height: 844 });
  await t.page.waitForTimeout(600);
  const over = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(over <= 0, `on a phone it is ${over} px too wide`);
  await t.shot("stripe-phone", true);
  await t.accessible();
});

test("a record of an older version shows what it has and says what it lacks", {}, async (t) => {
  const id = await played(t, "hls");
  await t.go(`/history/${id}`);
  await t.id("io-old").waitFor();
  check((await t.id("io-old").innerText()).includes("An older version of Spindle made this record"), "it says so");
  check((await t.id("io-copies").innerText()).includes("not kept") && (await t.id("io-cache").innerText()).includes("not kept"), "and nothing is made up");
  check((await t.id("io-advice").count()) === 0 && (await t.id("io-jump").count()) === 2, "what it has is there");
  await t.id("band").waitFor();
  check((await t.page.getByRole("group", { name: /Map of the file\. Arrows/ }).count()) === 1, "the map without a trail");
  await t.page.waitForTimeout(600);
  await t.shot("stripe-old", true);
  await t.accessible();
  // Beside a new one.
  const other = await played(t, "plain");
  await t.go(`/compare?a=${id}&b=${other}`);
  await t.id("compare-words").waitFor();
  check((await t.id("io-old").count()) === 1, "the older one says what it lacks");
  await t.accessible();
});

test("a session without a record says why, alone and beside another", {}, async (t) => {
  await t.go("/history/lost");
  await t.page.getByText("There is no record of this session").waitFor();
  await t.page.getByText("recording was switched off while it played").waitFor();
  await t.shot("stripe-none");
  await t.accessible();
  const id = await played(t, "plain");
  await t.go(`/compare?a=${id}&b=lost`);
  await t.page.getByText("The second has no record").waitFor();
  check((await t.page.getByRole("link", { name: "The first alone" }).getAttribute("href")).includes(id), "the other can be seen");
  await t.accessible();
});

test("two sessions side by side: words first, one moment for both", {}, async (t) => {
  const [a, b] = [await played(t, "plain", 2), await played(t, "resume", 38)];
  await t.go(`/compare?a=${a}&b=${b}`);
  await t.id("compare-words").waitFor();
  const words = await t.id("compare-words").innerText();
  check(words.includes("was served by 2 copies, the other by 1 copy"), `what was different: ${words}`);
  check(words.includes("The second waited 0.9 s for its disks, the other not at all."), `waits: ${words}`);
  await t.page.locator(".u-over").nth(1).waitFor();
  await t.page.locator("[data-testid=io-beside] .box").first().hover();
  check((await t.id("io-beside").locator(".moment").count()) === 4 && (await t.id("band").locator(".moment").count()) === 2, "one moment for both");
  await t.page.mouse.move(4, 4);
  await t.page.waitForTimeout(600);
  await t.shot("side-by-side", true);
  await t.accessible();
  await t.page.emulateMedia({ colorScheme: "light" });
  await t.page.waitForTimeout(600);
  await t.shot("side-by-side-light", true);
  await t.accessible();
  await t.page.setViewportSize({ width: 390, height: 844 });
  await t.page.waitForTimeout(600);
  const over = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(over <= 0, `on a phone it is ${over} px too wide`);
  await t.shot("side-by-side-phone", true);
});

test("all streams at once on one pool: a lane each on one axis, who is on which disk", {}, async (t) => {
  for (const item of ["plain", "resume"]) {
    const other = await t.page.context().newPage();
    await other.goto(`/#/watch/${item}?t=0`);
    await other.getByTestId("video").waitFor();
    await other.waitForFunction(() => document.querySelector("[data-testid=player]")?.dataset.session);
    t.mock.age(await other.getByTestId("player").getAttribute("data-session"), item === "plain" ? 33 : 20);
  }
  await t.go("/sessions");
  await t.id("session").nth(1).waitFor();
  check((await t.id("session-verdict").count()) === 2, "each has its verdict");
  await t.id("all-streams").click();
  await t.id("lane").nth(1).waitFor();
  check((await t.id("lane").first().locator("svg path[stroke-width]").count()) === 4, "a line a disk");
  check((await t.id("lanes").innerText()).includes("All streams"), "and the sum");
  await t.id("lane").first().locator(".plot").hover();
  check(/at 0:\d\d/.test(await t.id("lanes").innerText()), "one moment");
  await t.page.mouse.move(4, 4);
  await t.page.waitForTimeout(600);
  await t.shot("lanes", true);
  await t.accessible();
  await t.page.emulateMedia({ colorScheme: "light" });
  await t.page.setViewportSize({ width: 390, height: 844 });
  await t.page.waitForTimeout(800);
  const over = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(over <= 0, `on a phone it is ${over} px too wide`);
  await t.shot("lanes-phone", true);
  await t.accessible();
});

test("sound and subtitles are chosen once for every title", {}, async (t) => {
  await t.go("/settings");
  await t.id("audio_languages-0").selectOption("deu");
  await t.id("audio_languages-1").selectOption("eng");
  await t.id("subtitle-mode").selectOption("foreign");
  await t.page.getByLabel("Those for the hard of hearing first").check();
  await t.page.getByText("Saved.").waitFor();
  const sent = t.calls("PUT /preferences").at(-1).body;
  check(JSON.stringify(sent.audio_languages) === '["deu","eng"]' && sent.subtitle_mode === "foreign" && sent.hearing_impaired, `what was chosen is sent: ${JSON.stringify(sent)}`);
  await t.page.reload();
  await t.page.waitForFunction(() => document.querySelector("[data-testid=audio_languages-0]")?.value === "deu");
  await t.id("audio_languages-0").selectOption("");
  await t.page.waitForFunction(() => document.querySelector("[data-testid=audio_languages-0]")?.value === "eng");
  await t.shot("settings-tracks", true);
  await t.accessible();
});

test("on a telephone every part of the page is in reach without scrolling sideways", { size: { width: 390, height: 844 } }, async (t) => {
  const outside = await t.page.getByRole("navigation", { name: "Main" }).getByRole("link").evaluateAll((all) => all.filter((a) => a.getBoundingClientRect().right > innerWidth || a.getBoundingClientRect().height < 44).map((a) => a.textContent.trim()));
  await t.shot("home-390");
  check(outside.length === 0, `out of reach or too small: ${outside}`);
});

test("light and dark are chosen in the settings, and kept; the player stays dark", {}, async (t) => {
  await t.go("/settings");
  await t.id("theme-light").click();
  const ground = () => t.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  check((await ground()) === "rgb(243, 245, 248)", `light is ${await ground()}`);
  await t.accessible();
  for (const [name, hash] of [["home", "/"], ["library", "/library/lib-films"], ["item", "/item/resume"], ["settings", "/settings"]]) {
    await t.go(hash);
    await t.page.waitForTimeout(900);
    await t.shot(`light-${name}`);
    await t.accessible();
  }
  await t.page.reload();
  check((await ground()) === "rgb(243, 245, 248)", "and kept");
  await t.go("/watch/plain?t=1");
  await t.plays(1);
  check((await t.page.evaluate(() => getComputedStyle(document.querySelector("[data-testid=player]")).color)) === "rgb(233, 238, 245)", "light words on dark");
});

test("played to its end it offers what comes next", {}, async (t) => {
  await t.go("/watch/ep-1-4?t=38");
  await t.plays(38);
  await t.page.waitForFunction(() => document.querySelector("[data-testid=player]").dataset.state === "ended");
  await t.page.getByRole("link", { name: /S2 E1/ }).waitFor();
  await t.shot("player-ended");
  check(t.calls("DELETE /sessions/s1").length === 1, "the session ends");
});

test("now playing shows a stream of another window with its disks", {}, async (t) => {
  const other = await t.page.context().newPage();
  await other.goto("/#/watch/plain?t=0");
  await other.getByTestId("video").waitFor();
  await t.go("/sessions");
  await t.id("session").waitFor();
  t.mock.age("s1", 30);
  await t.page.getByRole("button", { name: "Show the record" }).click();
  await t.page.locator(".u-over").waitFor();
  await t.page.waitForTimeout(1200);
  check((await t.id("matrix").locator("tbody tr").count()) === 2, "the stream and what others read, by disk");
  await t.shot("sessions");
  await t.accessible();
});

test("storage shows the pool down to its disks, with rates that move", {}, async (t) => {
  await t.go("/storage");
  await t.id("topology-disk").first().waitFor();
  check((await t.id("volume").count()) === 1, "two libraries on one pool are one pool");
  check((await t.page.getByText("/srv/pool/shows").count()) === 1, "with both folders");
  check((await t.id("topology-disk").count()) === 4, "four disks");
  check((await t.id("reading").innerText()) === "A large read can use 2 of 4 disks at once; each byte has 2 copies.", "in words");
  await t.page.waitForFunction(() => /[1-9].* read/.test(document.querySelector("[data-disk=sdb]")?.textContent ?? ""));
  const asked = t.calls("GET /storage").length;
  await t.page.waitForTimeout(4000);
  check(t.calls("GET /storage").length === asked, "the tree is not asked for every second");
  await t.shot("storage");
  await t.accessible();
  await t.id("topology-disk").first().getByRole("button").focus();
  await t.page.keyboard.press("ArrowRight");
  check((await t.page.evaluate(() => document.activeElement.closest("[data-disk]")?.dataset.disk)) === "sdc", "arrows walk from disk to disk");
  await t.page.keyboard.press("Enter");
  await t.page.locator("[data-disk=sdc]").getByText("Serial number").waitFor({ state: "visible" });
});

const POOLS = {
  single: { disks: 1, says: "Everything lies on one disk" },
  raid10: { disks: 4, says: "2 of 4 disks at once", bad: "1 member of 4 is gone (sdc1)", lost: "sdc", work: "md0 is being rebuilt: 42 % done" },
  shr: { disks: 4, says: "3 of 4 disks", work: "md3 is being checked", slices: 6 },
  btrfs: { disks: 3, says: "one disk at a time, of 3", bad: "vault is degraded" },
  zfs: { disks: 11, says: "6 of 8 disks at once" },
  mergerfs: { disks: 5, says: "whole on one of 5 disks" },
  bcache: { disks: 2, says: "Everything lies on one disk", warn: "dirty" },
  nfs: { disks: 1, says: "The files are on nas.lan" },
  unknown: { disks: 2, says: "is not known", warn: "era" },
  wall: { disks: 24, says: "18 of 24 disks at once", bad: "md1 is degraded", lost: "sdn" },
};
for (const [pool, want] of Object.entries(POOLS)) {
  test(`storage shows ${pool} on every screen`, { storage: pool }, async (t) => {
    await t.go("/storage");
    await t.id("topology-disk").first().waitFor();
    check((await t.id("topology-disk").count()) === want.disks, `${want.disks} disks, not ${await t.id("topology-disk").count()}`);
    check((await t.id("reading").first().innerText()).includes(want.says), `it says ${await t.id("reading").first().innerText()}`);
    for (const tone of ["bad", "work", "warn"]) {
      const told = (await t.page.locator(`[data-testid=trouble][data-tone=${tone}]`).allInnerTexts()).join(" ");
      check(want[tone] ? told.includes(want[tone]) : told === "", `${tone}: ${told}`);
    }
    if (want.lost) check((await t.page.locator(`[data-testid=topology-disk][data-disk=${want.lost}]`).getAttribute("data-state")) === "faulty", "the disk stands as its member does");
    check((await t.id("slice").count()) === (want.slices ?? 0), "slices of shared disks");
    await t.page.waitForTimeout(2200);
    await t.accessible();
    for (const [width, height] of [[1440, 900], [390, 844], [3840, 2160]]) {
      await t.page.setViewportSize({ width, height });
      await t.page.waitForTimeout(400);
      const over = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(over <= 0, `at ${width} px it is ${over} px too wide`);
      const cut = await t.page.evaluate(() => [...document.querySelectorAll("[data-testid=topology-disk]")].filter((e) => { const r = e.getBoundingClientRect(); const p = e.closest("[data-testid=volume]").getBoundingClientRect(); return r.right > p.right || r.bottom > p.bottom || r.width < 40; }).length);
      check(cut === 0, `at ${width} px ${cut} disks leave their panel`);
      await t.shot(`storage-${pool}-${width}`, width < 3000);
    }
    await t.page.setViewportSize({ width: 1440, height: 900 });
    await t.page.emulateMedia({ colorScheme: "light" });
    await t.page.waitForTimeout(400);
    await t.shot(`storage-${pool}-light`, true);
    if (want.bad) await t.accessible();
  });
}

test("what happens to a disk is told on every page, and kept on the storage page", { storage: "raid10" }, async (t) => {
  await t.id("storage-sum").count();
  t.mock.send("notice", { code: "disk", disk: "sdd", text: "sdd: it was taken out while it was read", at: new Date().toISOString() });
  await t.page.getByText("sdd: it was taken out").first().waitFor();
  await t.go("/storage");
  await t.id("happened").waitFor();
  const asked = t.calls("GET /storage").length;
  t.mock.send("notice", { code: "disk", disk: "sdb", text: "sdb: it does not answer", at: new Date().toISOString() });
  await t.page.waitForFunction(() => document.querySelectorAll("[data-testid=happened]").length === 2);
  await t.page.waitForTimeout(300);
  check(t.calls("GET /storage").length > asked, "and the tree is asked for again at once");
  await t.accessible();
});

test("experiments are listed, drawn, saved, removed and stand side by side", {}, async (t) => {
  await t.go("/experiments");
  await t.id("experiment-entry").first().waitFor();
  check((await t.id("experiment-entry").count()) === 10, "all of them");
  check((await t.page.getByText("it is of version 9").count()) === 1, "what cannot be read says why");
  await t.shot("experiments", true);
  await t.accessible();
  for (const kind of ["corners", "blocks", "copy", "net", "stream"]) {
    await t.go("/experiments");
    await t.page.locator(`[data-testid=experiment-entry][data-kind=${kind}] a.what`).first().click();
    await t.page.locator(`[data-testid=experiment][data-kind=${kind}]`).waitFor();
    await t.page.waitForTimeout(300);
    await t.shot(`experiment-${kind}`, true);
    await t.accessible();
  }
  await t.go("/experiments/copy".padEnd(39, "0"));
  await t.page.locator("[data-testid=experiment][data-kind=copy] svg[role=img]").first().waitFor();
  check((await t.page.locator("text.marked").innerHTML()).includes("214 MB/s"), "the knee is marked");
  // Four disks that did the same take turns on their way; pointing at a name makes its line whole and the others step back.
  const lines = t.page.locator("figure svg[role=img] g[data-twins]");
  check((await t.page.locator('g[data-twins="4"] path[stroke-dasharray]').count()) === 4, "four writers on one line are all seen");
  const name = t.page.locator("figcaption button", { hasText: "sdd writes" });
  await name.click();
  check((await t.page.locator("g.back").count()) === (await lines.count()) - 1 && (await name.getAttribute("aria-pressed")) === "true", "one line alone is seen");
  await name.click();
  await t.page.mouse.move(0, 0);
  check((await t.page.locator("g.back").count()) === 0, "all again");
  const saved = t.page.waitForEvent("download");
  await t.id("experiment-csv").click();
  check((await (await saved).path()) !== null, "a table is saved");
  for (const [id, streams] of [["skip", 1], ["three", 3], ["bare", 0]]) {
    await t.go(`/experiments/${id.padEnd(26, "0")}`);
    await t.page.locator("[data-testid=experiment][data-kind=stream]").waitFor();
    await t.page.waitForTimeout(600);
    check((await t.id("stream-part").count()) === streams, `${id}: ${streams} streams`);
    await t.shot(`experiment-stream-${id}`, true);
    if (streams === 3) {
      check((await t.page.getByText("There is no record: the session ended before anything was read").count()) === 1, "a stream without a record says why");
      await t.id("stream-part").first().locator("summary").click();
      await t.page.waitForTimeout(400);
      await t.shot("experiment-stream-open", true);
    }
    await t.accessible();
  }
  await t.go("/experiments?compare=corners_b".padEnd(47, "0"));
  await t.page.getByText("Choose a record of the same kind.").waitFor();
  await t.page.locator("[data-testid=experiment-entry][data-kind=corners]").waitFor();
  check((await t.id("experiment-entry").count()) === 1, "only its kind");
  await t.page.locator("[data-testid=experiment-entry] a.what").click();
  await t.id("experiment-side").nth(1).waitFor();
  await t.shot("experiments-pair", true);
  await t.accessible();
  for (const width of [390, 1440]) {
    await t.page.setViewportSize({ width, height: 844 });
    for (const hash of ["/experiments", "/experiments/copy".padEnd(39, "0"), "/experiments/corners_a".padEnd(39, "0"), "/experiments/net".padEnd(39, "0"), "/experiments/three".padEnd(39, "0"), "/experiments/blocks".padEnd(39, "0")]) {
      await t.go(hash);
      await t.page.waitForTimeout(500);
      const over = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(over <= 0, `${hash} at ${width} is ${over} px too wide`);
    }
  }
  await t.shot("experiment-net-light", true);
  await t.go("/experiments");
  const last = t.page.locator("[data-testid=experiment-entry]").last().getByTestId("experiment-remove");
  await last.click();
  check(t.calls("GET /experiments").length > 0 && (await t.id("experiment-entry").count()) === 10, "asked twice before it is gone");
  await last.click();
  await t.page.waitForFunction(() => document.querySelectorAll("[data-testid=experiment-entry]").length === 9);
});

test("the network is measured from the page, both ways, and kept", {}, async (t) => {
  await t.go("/experiments");
  await t.id("net-run").click();
  await t.page.getByText("Measured from the page.").waitFor({ timeout: 60_000 });
  check((await t.id("net-row").count()) === 4, "four rows");
  const { rows } = t.calls("POST /experiments")[0].body;
  check(rows.map((r) => `${r.direction}${r.connections}`).join(" ") === "down1 down4 up1 up4", JSON.stringify(rows));
  check(rows.every((r) => r.bytes > 0 && r.seconds > 4 && Math.abs(r.bytes / r.seconds / r.bytes_per_s - 1) < 0.01), JSON.stringify(rows));
  await t.shot("experiments-net", true);
  await t.accessible();
});

test("now playing shows streams across disks", { storage: "zfs" }, async (t) => {
  await t.go("/sessions");
  await t.id("matrix").waitFor();
  await t.page.waitForTimeout(6000);
  check((await t.id("matrix").locator("tbody tr").count()) === 4, "three streams and the rest");
  await t.shot("matrix", true);
  await t.accessible();
});

test("storage does not move while its figures do", { storage: "zfs" }, async (t) => {
  await t.go("/storage");
  await t.id("topology-disk").first().waitFor();
  await t.page.waitForTimeout(2500);
  const moved = await t.page.evaluate(
    () =>
      new Promise((resolve) => {
        let sum = 0;
        new PerformanceObserver((list) => list.getEntries().forEach((e) => (sum += e.value))).observe({ type: "layout-shift" });
        setTimeout(() => resolve(sum), 5000);
      }),
  );
  check(moved < 0.01, `the layout shifted by ${moved}`);
});

const phone = { width: 390, height: 844 };
test("on a phone nothing is wider than the page", { size: phone }, async (t) => {
  for (const [name, hash] of [["home", "/"], ["library", "/library/lib-films"], ["item", "/item/plain"], ["storage", "/storage"], ["settings", "/settings"]]) {
    await t.go(hash);
    await t.page.waitForTimeout(700);
    await t.shot(`phone-${name}`);
    const over = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(over <= 0, `${name} is ${over} px too wide`);
  }
  await t.go("/watch/plain?t=5");
  await t.plays(5);
  t.mock.age("s1", 30);
  await t.page.keyboard.press("i");
  await t.page.locator(".u-over").waitFor();
  await t.page.waitForTimeout(1200);
  await t.shot("phone-io");
});

test("every control of the player is in reach beside the I/O view and on a phone", {}, async (t) => {
  for (const [width, height] of [[1440, 900], [1280, 800], [1100, 800], [800, 1000], [390, 844], [360, 640]]) {
    await t.page.setViewportSize({ width, height });
    await t.go("/watch/plain?t=1");
    await t.page.reload();
    await t.plays(1);
    if ((await t.id("io-view").count()) === 0) await t.page.keyboard.press("i");
    await t.id("io-view").waitFor();
    await t.page.mouse.move(100, 200);
    const stage = await t.page.locator(".stage").boundingBox();
    const button = await t.id("fullscreen").boundingBox();
    check(button.x + button.width <= stage.x + stage.width, `at ${width} px the last control ends at ${button.x + button.width} of ${stage.width}`);
  }
});

test("on a television the grid fills the screen", { size: { width: 3840, height: 2160 } }, async (t) => {
  await t.go("/library/lib-films");
  await t.id("grid").getByTestId("card").first().waitFor();
  await t.shot("tv-library");
});

await run();
