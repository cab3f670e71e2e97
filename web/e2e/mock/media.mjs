/// Makes the few seconds of media that the mock server plays, once.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", ".work", "media");

const VIDEO = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=24:duration=40"];
const SOUND = ["-f", "lavfi", "-i", "sine=frequency=220:beep_factor=2:duration=40"];
const H264 = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "48", "-b:v", "700k"];
const AAC = ["-c:a", "aac", "-b:a", "96k"];

function ffmpeg(args, done) {
  if (existsSync(done)) return done;
  // Written aside and moved when whole: an interrupted run leaves no half file behind.
  const part = join(root, `part-${process.pid}`);
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  execFileSync("ffmpeg", ["-v", "error", "-y", ...args], { cwd: part });
  const target = dirname(done) === root ? null : dirname(done);
  if (target) {
    rmSync(target, { recursive: true, force: true });
    renameSync(part, target);
  } else {
    renameSync(join(part, "out.mp4"), done);
    rmSync(part, { recursive: true, force: true });
  }
  return done;
}

/** A copy whose pictures from `from` to `to` seconds say that they are longer than they are: decoders end there. */
function damage(source, done, from, to) {
  if (existsSync(done)) return done;
  const rows = execFileSync("ffprobe", ["-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time,pos", "-of", "csv=p=0", source], { encoding: "utf8" });
  const bytes = readFileSync(source);
  for (const row of rows.trim().split("\n")) {
    const [time, pos] = row.split(",").map(Number);
    if (time >= from && time < to) bytes.writeUInt32BE(0x7fffffff, pos);
  }
  const part = `${done}.${process.pid}`;
  writeFileSync(part, bytes);
  renameSync(part, done);
  return done;
}

/** Paths of the samples. */
export function samples() {
  mkdirSync(root, { recursive: true });
  const plain = ffmpeg([...VIDEO, ...SOUND, ...H264, ...AAC, "-movflags", "+faststart", "out.mp4"], join(root, "plain.mp4"));
  return {
    root,
    plain,
    broken: damage(plain, join(root, "broken.mp4"), 3, 4),
    // Chromium without a hardware decoder plays the sound and shows nothing.
    hevc: ffmpeg(
      [...VIDEO, ...SOUND, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error", "-tag:v", "hvc1", "-pix_fmt", "yuv420p", ...AAC, "-movflags", "+faststart", "out.mp4"],
      join(root, "hevc.mp4"),
    ),
    // Chromium shows the picture and plays no sound.
    eac3: ffmpeg([...VIDEO, ...SOUND, ...H264, "-c:a", "eac3", "-movflags", "+faststart", "out.mp4"], join(root, "eac3.mp4")),
    hls: ffmpeg(
      [...VIDEO, ...SOUND, ...H264, ...AAC, "-f", "hls", "-hls_time", "4", "-hls_segment_type", "fmp4", "-hls_playlist_type", "vod", "index.m3u8"],
      join(root, "hls", "index.m3u8"),
    ),
  };
}
