/// A stand-in for the server, for developing and testing the page: contract-shaped JSON, byte
/// ranges, HLS, events. Serves `dist` with the strictest content security policy the page bears.
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { detail, ioRecord, layouts, libraries, makeItems, ratesNow, topology, unreadable } from "./data.mjs";
import { experiments } from "./experiments.mjs";
import { samples } from "./media.mjs";
import { pools, readable } from "./volumes.mjs";

const dist = process.env.WEB_DIST ?? join(dirname(fileURLToPath(import.meta.url)), "..", "..", "dist");
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".mp4": "video/mp4", ".m4s": "video/iso.segment", ".m3u8": "application/vnd.apple.mpegurl", ".vtt": "text/vtt" };
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const VTT = "WEBVTT\n\n00:00.500 --> 00:08.000\nThe coast was here <i>yesterday</i>.\n\n00:08.500 --> 00:39.000\nIt is a patient kind of theft.\n";

/**
 * Starts on `port` (0: any). `account: false` begins before the first account is made; `storage` names one of the
 * pools of `volumes.mjs`, with made-up streams that read from its disks; `file` one of the layouts of `data.mjs`.
 */
export async function startMock({ port = 0, account = true, storage, file: layoutName } = {}) {
  const media = samples();
  const volumes = storage ? storage.split(",").flatMap((name) => pools[name]()) : null;
  const serving = volumes ? readable(volumes) : [];
  const phantoms = volumes ? ["The Long Orbit", "Glass Meridian", "Winter Signal"].slice(0, Math.min(3, serving.length)) : [];
  const items = makeItems();
  const libs = libraries();
  const kept = experiments();
  const calls = [];
  const sessions = new Map();
  const history = [];
  const streams = new Set();
  let users = account ? [{ id: "u1", name: "ada", password: "correct horse", role: "admin", created: "2026-11-30T09:00:00Z" }] : [];
  let signedIn = false;
  const preferences = { audio_languages: [], original_language: false, described: false, subtitle_languages: [], subtitle_mode: "forced", hearing_impaired: false };
  let counter = 0;

  const json = (res, status, body, headers = {}) => {
    res.writeHead(status, { "content-type": status >= 400 ? "application/problem+json" : "application/json", ...headers });
    res.end(body === undefined ? "" : JSON.stringify(body));
  };
  const problem = (res, status, detailText) => json(res, status, { type: "about:blank", title: `Status ${status}`, status, detail: detailText });
  const seconds = (s) => Math.floor(((s.endedAt ?? Date.now()) - s.startedAt) / 1000) + s.ahead;
  const view = (s) => ({ session: s.id, user: "ada", client: "browser", item: s.item.id, title: s.item.title, method: s.method, bitrate: 8_300_000, position_s: s.position, duration_s: s.item.duration_s, paused: s.paused, buffered_s: s.buffered, disks: ratesNow(seconds(s)), started: new Date(s.startedAt).toISOString(), ended: false, io: { columns: 2, columns_used: 2, verdict: record(s).striping.verdict } });
  const record = (s) => ioRecord({ hurt: s.item.id === "resume", old: s.item.id === "hls", session: s.id, item: s.item.id, method: s.method, seconds: seconds(s), ended: s.endedAt ? new Date(s.endedAt).toISOString() : undefined });
  const send = (name, data) => {
    for (const res of streams) res.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const end = (s) => {
    if (s.endedAt) return;
    s.endedAt = Date.now();
    const r = record(s);
    history.unshift({ session: s.id, user: "u1", user_name: "ada", item: s.item.id, title: s.item.title, method: s.method, client: "browser", started: r.started, ended: r.ended, summary: { attribution: r.attribution, served_bytes: r.served_bytes, read_bytes: r.read_bytes, cached_bytes: r.cached_bytes, disks: r.disks.map(({ disk, read_bytes, share }) => ({ disk, read_bytes, share })), verdict: r.striping.verdict } });
  };
  const live = () => [...sessions.values()].filter((s) => !s.endedAt);
  /** Bytes a second of a made-up stream on each of its disks: bursts, as players ask. */
  const phantom = (i, t) => {
    const disks = serving.filter((_, d) => serving.length < 3 || d % phantoms.length === i || serving.length > 8);
    return Object.fromEntries(disks.slice(0, 8).map((d, k) => [d, Math.max(0, Math.round((1.1 + Math.sin(t / 3 + i * 2 + k / 2)) * (5e6 / (i + 1))))]));
  };
  const streamsAt = (t) => Object.fromEntries([...live().map((s) => [s.id, { disks: ratesNow(seconds(s)) }]), ...phantoms.map((_, i) => [`p${i}`, { disks: phantom(i, t) }])]);
  const ratesAt = (t) => {
    if (!volumes) return Object.entries(ratesNow(Math.floor(t) % 40)).map(([disk, r]) => rateRow(disk, r, 0));
    const sums = {};
    for (const row of Object.values(streamsAt(t))) for (const [d, r] of Object.entries(row.disks)) sums[d] = (sums[d] ?? 0) + r;
    const all = new Set(volumes.flatMap((v) => v.disks ?? []));
    return [...all].map((d, i) => rateRow(d, sums[d] ?? 0, storage.includes("raid10") && d === "sde" ? 118e6 : i === 0 ? 2e5 * (1 + Math.sin(t)) : 0));
  };
  const rateRow = (disk, r, w) => ({ disk, reads_per_s: r / 524_288, read_bytes_per_s: r, write_bytes_per_s: Math.round(w), busy_share: Math.min(1, (r + w) / 1.6e8) });
  const tick = setInterval(() => {
    const t = Date.now() / 1000;
    send("io", { sessions: streamsAt(t), disks: {}, rates: ratesAt(t) });
  }, 1000);

  function scan(lib) {
    let done = 0;
    lib.scanning = true;
    const timer = setInterval(() => {
      done += 40;
      if (done >= 400) {
        clearInterval(timer);
        lib.scanning = false;
        send("scan", { library: lib.id, phase: "finished", report: { files: 400, added: 0, updated: 0, removed: 0, unchanged: 397, failed: 3, seconds: 2 } });
        return;
      }
      send("scan", { library: lib.id, phase: "probe", done, total: 400, file: `/srv/pool/films/film-${done}.mkv` });
    }, 200);
  }

  function play(it, body) {
    const s = { id: `s${(counter += 1)}`, item: it, startedAt: Date.now(), ahead: 0, position: body.start_s ?? 0, paused: false, buffered: 0 };
    const again = [...sessions.values()].some((o) => o.item.id === it.id);
    const fails = { hevc: "hevc", eac3: "eac3", broken: "broken" }[it.id];
    let kind = it.id === "hopeless" ? "broken" : fails ? (again ? "hls" : fails) : it.id === "hls" ? "hls" : "plain";
    const reasons = [];
    if (it.id === "hls") reasons.push({ code: "container_not_supported", text: "The browser does not play Matroska files." });
    if (again && kind === "hls" && it.id !== "hls") reasons.push({ code: "video_codec_not_supported", text: "This browser does not decode the stream as it is." });
    if (body.max_bitrate) {
      kind = "hls";
      reasons.push({ code: "bitrate_exceeds_limit", text: `The file has more bits a second than the ${body.max_bitrate / 1e6} Mbit/s that were asked for.` });
    }
    const burnt = body.subtitle === 4;
    if (burnt) {
      kind = "hls";
      reasons.push({ code: "subtitle_burn_in", text: "This subtitle is a picture and has to be drawn into the video." });
    }
    s.method = kind !== "hls" && !(it.id === "hopeless" && again) ? "direct_play" : body.max_bitrate || burnt || again ? "transcode" : "direct_stream";
    sessions.set(s.id, s);
    const chosen = body.audio ?? 1;
    return {
      session: s.id,
      method: s.method,
      sentence: { direct_play: "This browser plays the file as it is.", direct_stream: "This browser gets it repacked: picture and sound are copied.", transcode: "This browser gets it converted: the picture becomes H.264, the sound is copied." }[s.method],
      reasons,
      url: kind === "hls" ? `/media/signed/hls/index.m3u8` : `/media/signed/${kind}.mp4`,
      protocol: kind === "hls" ? "hls" : "http",
      start_s: body.start_s ?? 0,
      subtitles: [
        { index: 3, label: "English", language: "eng", url: "/media/signed/sub.vtt", default: body.subtitle === 3, forced: false },
        { index: 4, label: "French (PGS)", language: "fra", default: burnt, forced: false },
      ],
      audio: [
        { index: 1, label: "English 5.1 AAC", language: "eng", selected: chosen === 1 },
        { index: 2, label: "German stereo, commentary", language: "deu", selected: chosen === 2 },
      ],
      duration_s: it.duration_s,
      storage: { disks: ["sdb", "sdc", "sdd", "sde"], warning: "sde is asleep; the first read may take some seconds." },
      part: 0,
      parts: 1,
      decision: { video: { stream: 0, action: s.method === "transcode" ? "encode" : "copy", codec: "h264" }, audio: { stream: chosen, action: "copy", codec: "aac" } },
    };
  }

  function file(req, res, path) {
    const { size } = statSync(path);
    const headers = { "content-type": TYPES[extname(path)] ?? "application/octet-stream", "accept-ranges": "bytes" };
    const range = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? "");
    if (!range) {
      res.writeHead(200, { ...headers, "content-length": size });
      createReadStream(path).pipe(res);
      return;
    }
    const from = Number(range[1]);
    const to = Math.min(size - 1, range[2] === "" ? size - 1 : Number(range[2]));
    if (from > to) {
      res.writeHead(416, { "content-range": `bytes */${size}` });
      res.end();
      return;
    }
    res.writeHead(206, { ...headers, "content-length": to - from + 1, "content-range": `bytes ${from}-${to}/${size}` });
    createReadStream(path, { start: from, end: to }).pipe(res);
  }

  function list(url) {
    const q = url.searchParams;
    let rows = [...items.values()];
    const types = (q.get("type") ?? "").split(",").filter(Boolean);
    if (types.length) rows = rows.filter((i) => types.includes(i.type));
    if (q.get("library")) rows = rows.filter((i) => i.library === q.get("library"));
    if (q.get("parent")) rows = rows.filter((i) => i.parent === q.get("parent"));
    if (q.get("search")) rows = rows.filter((i) => i.title.toLowerCase().includes(q.get("search").toLowerCase()));
    if (q.get("watched")) rows = rows.filter((i) => String(i.state.watched) === q.get("watched"));
    const sort = q.get("sort") ?? "title";
    const key = sort.replace(/^-/, "");
    const value = (i) => (key === "released" ? (i.year ?? 0) : key === "duration" ? (i.duration_s ?? 0) : (i[key] ?? i.title));
    rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sort.startsWith("-") ? -1 : 1));
    const offset = Number(q.get("offset") ?? 0);
    return { items: rows.slice(offset, offset + Number(q.get("limit") ?? 100)), total: rows.length };
  }

  async function api(req, res, url, body) {
    const route = `${req.method} ${url.pathname.slice("/api/v1".length)}`;
    const [, a, b, c] = url.pathname.slice("/api/v1".length).split("/").map(decodeURIComponent);
    calls.push({ route, body, headers: req.headers, query: url.search });
    if (req.method !== "GET" && req.headers["x-spindle"] !== "1") return problem(res, 403, "a request of another site may not use the session cookie");
    if (route === "GET /setup") return json(res, 200, { needed: users.length === 0 });
    if (route === "POST /setup" || route === "POST /auth/login") {
      if (route === "POST /setup") users = [{ id: "u1", name: body.username, password: body.password, role: "admin", created: new Date().toISOString() }];
      const user = users.find((u) => u.name === body.username && u.password === body.password);
      if (!user) return problem(res, 401, "the name or the password is wrong");
      signedIn = true;
      const { password: _, ...shown } = user;
      return json(res, 200, { token: "t", user: shown }, { "set-cookie": "spindle_session=t; Path=/; HttpOnly; SameSite=Lax" });
    }
    if (!signedIn || !(req.headers.cookie ?? "").includes("spindle_session=t")) return problem(res, 401, "sign in first");
    if (route === "GET /auth/me") return json(res, 200, (({ password: _, ...u }) => u)(users[0]));
    if (route === "POST /auth/logout") {
      signedIn = false;
      return json(res, 204);
    }
    if (route === "GET /events") {
      res.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
      res.write(": hello\n\n");
      streams.add(res);
      res.on("close", () => streams.delete(res));
      return;
    }
    if (route === "GET /preferences") return json(res, 200, preferences);
    if (route === "PUT /preferences") return json(res, 200, Object.assign(preferences, body));
    if (route === "GET /libraries") return json(res, 200, { items: libs, total: libs.length });
    if (route === "POST /libraries") {
      if (!body.path.startsWith("/")) return problem(res, 400, "the folder must be an absolute path on the server");
      const lib = { id: `lib-${libs.length}`, items: 0, unavailable: 0, failed: 0, scanning: true, ...body };
      libs.push(lib);
      scan(lib);
      return json(res, 201, lib);
    }
    if (a === "libraries" && c === "scan") {
      scan(libs.find((l) => l.id === b));
      return json(res, 202);
    }
    if (a === "libraries" && c === "unreadable") return json(res, 200, { items: unreadable, total: unreadable.length });
    if (route === "GET /home") {
      const all = [...items.values()];
      return json(res, 200, {
        continue_watching: all.filter((i) => i.state.position_s > 0 && !i.state.watched).slice(-9),
        next_up: [items.get("ep-2-1")],
        recently_added: all.slice(0, 20),
      });
    }
    if (route === "GET /items") return json(res, 200, list(url));
    if (a === "items" && c === undefined) return items.has(b) ? json(res, 200, detail(items.get(b), items)) : problem(res, 404, "there is no such item");
    if (a === "items" && c === "images") return problem(res, 404, "there is no such picture");
    if (a === "items" && c === "layout") return json(res, 200, layouts[layoutName ?? "raid10"]());
    if (a === "items" && c === "state") {
      Object.assign(items.get(b).state, body);
      return json(res, 200, items.get(b).state);
    }
    if (a === "items" && c === "play") {
      if (b === "gone") return problem(res, 503, "the folder of this title cannot be reached");
      return json(res, 200, play(items.get(b), body));
    }
    if (a === "items" && c === "decide") {
      const tv = body.client === "roku-4k";
      return json(res, 200, {
        client: tv ? "Roku 4K" : "Chrome",
        versions: [
          {
            version: "v1",
            file: "film.mkv",
            available: true,
            chosen: true,
            decision: { method: tv ? "direct_stream" : "direct_play" },
            sentence: tv ? "Roku 4K gets it repacked: the picture is copied, the sound becomes AAC in stereo." : "Chrome plays the file as it is.",
            reasons: tv ? [{ code: "audio_channels_not_supported", text: "The sound has more channels than the player takes.", wanted: "at most 2", found: "6", stream: 1 }] : [],
          },
        ],
      });
    }
    if (route === "GET /clients") return json(res, 200, { items: [{ name: "roku-4k", title: "Roku 4K" }, { name: "chrome", title: "Chrome" }], total: 2, rejected: [] });
    if (route === "GET /sessions") return json(res, 200, { items: [...live().map(view), ...phantoms.map((title, i) => ({ session: `p${i}`, user: "ada", client: "browser", item: `film-${i}`, title, method: "direct_play", bitrate: 8e6, position_s: 700, duration_s: 5400, paused: false, disks: phantom(i, Date.now() / 1000) }))], total: live().length + phantoms.length });
    const s = a === "sessions" ? sessions.get(b) : undefined;
    if (a === "sessions" && b === "lost") return problem(res, 404, "no I/O record of session `lost` was kept: recording was switched off while it played");
    if (a === "sessions" && !s) return problem(res, 404, "there is no such session");
    if (s && c === "failed") {
      if (s.endedAt) return problem(res, 404, "the session has ended");
      end(s);
      if (s.method === "transcode" && !body.client) return problem(res, 422, "every way to play it was tried and failed");
      return json(res, 200, play(s.item, { start_s: body.position_s }));
    }
    if (s && c === "progress") {
      if (s.endedAt) return problem(res, 404, "the session has ended");
      Object.assign(s, { position: body.position_s, paused: body.paused, buffered: body.buffered_s });
      return json(res, 204);
    }
    if (s && req.method === "DELETE") {
      end(s);
      return json(res, 204);
    }
    if (s && c === "io") {
      if (url.searchParams.get("format") === "csv") {
        res.writeHead(200, { "content-type": "text/csv" });
        const heads = { disks: "disk,reads", events: "at_s,event", trail: "from_s,to_s" };
        return res.end(`${heads[url.searchParams.get("table")] ?? "t_s,sdb read_bytes"}\r\n0,1\r\n`);
      }
      return json(res, 200, record(s));
    }
    if (route === "GET /experiments") return json(res, 200, { items: kept.map(({ rows: _r, series: _s, machine: _m, ...summary }) => summary), total: kept.length });
    if (route === "GET /experiments/net") {
      res.writeHead(200, { "content-type": "application/octet-stream" });
      const noise = Buffer.alloc(65_536, 7);
      const timer = setInterval(() => res.write(noise), 5);
      res.on("close", () => clearInterval(timer));
      return;
    }
    if (route === "POST /experiments/net") return json(res, 200, { bytes: 4 << 20, seconds: 0.1 });
    if (route === "POST /experiments") {
      const made = { ...kept.find((e) => e.kind === "net"), id: "measured".padEnd(26, "0"), started: new Date().toISOString(), rows: body.rows, verdict: "Measured from the page." };
      kept.unshift(made);
      return json(res, 201, made);
    }
    if (a === "experiments" && b) {
      const at = kept.findIndex((e) => e.id === b);
      if (at < 0) return problem(res, 404, `there is no experiment \`${b}\``);
      if (req.method === "DELETE") {
        kept.splice(at, 1);
        return json(res, 204);
      }
      if (kept[at].unreadable) return problem(res, 422, kept[at].unreadable);
      if (url.searchParams.get("format") === "csv") {
        res.writeHead(200, { "content-type": "text/csv" });
        return res.end("pattern,iops\r\nrandom_read_4k,76.4\r\n");
      }
      return json(res, 200, kept[at]);
    }
    if (route === "GET /history") return json(res, 200, { items: history, total: history.length });
    if (route === "GET /storage") {
      const named = (v, i) => ({ library: i % 2 === 0 ? "lib-films" : "lib-shows", name: i % 2 === 0 ? "Films" : "Shows", ...v });
      const rows = volumes ? volumes.map(named) : [named(topology, 0), named({ ...topology, path: "/srv/pool/shows" }, 1)];
      return json(res, 200, { items: rows, total: rows.length, attribution: { mode: "block_trace" }, disks: ratesAt(Date.now() / 1000) });
    }
    return problem(res, 404, `no route ${route}`);
  }

  const server = createServer((req, res) => {
    const url = new URL(req.url, "http://mock");
    res.setHeader("content-security-policy", CSP);
    res.setHeader("x-content-type-options", "nosniff");
    let text = "";
    req.on("data", (chunk) => (text += chunk));
    req.on("end", () => {
      if (url.pathname === "/health") return json(res, 200, { status: "ok", version: "mock" });
      if (url.pathname.startsWith("/api/v1/")) return void api(req, res, url, text === "" || req.headers["content-type"] === "application/octet-stream" ? undefined : JSON.parse(text));
      if (url.pathname === "/media/signed/sub.vtt") {
        res.writeHead(200, { "content-type": "text/vtt" });
        return res.end(VTT);
      }
      if (url.pathname.startsWith("/media/signed/")) {
        const path = join(media.root, normalize(url.pathname.slice("/media/signed/".length)));
        return path.startsWith(media.root) && existsSync(path) ? file(req, res, path) : problem(res, 404, "no such file");
      }
      const path = join(dist, normalize(url.pathname));
      const found = path.startsWith(dist) && existsSync(path) && statSync(path).isFile();
      const shown = found ? path : join(dist, "index.html");
      res.writeHead(200, { "content-type": TYPES[extname(shown)] ?? "application/octet-stream" });
      res.end(readFileSync(shown));
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    calls,
    sessions,
    /** As if a session had played longer: a fuller record. */
    age: (id, ahead) => (sessions.get(id).ahead = ahead),
    send,
    close: () => {
      clearInterval(tick);
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const mock = await startMock({ port: Number(process.env.PORT ?? 8097), storage: process.env.POOL, file: process.env.LAYOUT });
  process.stdout.write(`${mock.url} (name: ada, password: correct horse)\n`);
}
