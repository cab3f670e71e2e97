/// Makes the few seconds of media that the mock server plays, once.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
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

/** Paths of the samples. */
export function samples() {
  mkdirSync(root, { recursive: true });
  return {
    root,
    plain: ffmpeg([...VIDEO, ...SOUND, ...H264, ...AAC, "-movflags", "+faststart", "out.mp4"], join(root, "plain.mp4")),
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
