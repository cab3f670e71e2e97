#!/usr/bin/env python3
"""Reads the clock that make.sh puts on every picture and into the clock tone.

  read_clock.py FILE [--at SECONDS] [--frames N] [--audio] [--stream N] [--filter F]
Prints one line a frame:  PTS_SECONDS  CLOCK_MS (or - if the bar code does not check out)
With --audio: PTS_SECONDS  PITCH_HZ  SECOND_MOD_100 for each half second of sound.
FILE may be anything ffmpeg opens, also an HLS playlist or URL of a server under test.

Bar code: 32 columns across the top tenth of the picture. Column 0 black, column 1 white,
columns 2..25 are 24 bits of the time in milliseconds (highest bit first), columns 26..29 are
that number modulo 13, the rest is black. Clock tone: during second s its pitch is
400 + 8*(s mod 100) Hz, so pitch and second tell each other. Rotation flags are applied before
reading: a clock that reads is also a picture that stands upright. Needs ffmpeg, nothing else."""
import argparse, re, subprocess

def decode_row(row):
    """row: one line of gray bytes across the picture's full width; returns ms or None."""
    n = len(row); cw = n // 32
    col = []
    for c in range(32):
        seg = row[c * cw + cw // 4: c * cw + max(cw * 3 // 4, cw // 4 + 1)]
        col.append(sum(seg) / len(seg))
    if col[1] - col[0] < 60: return None
    th = (col[0] + col[1]) / 2
    bit = [1 if v > th else 0 for v in col]
    val = 0
    for b in bit[2:26]: val = val * 2 + b
    chk = 0
    for b in bit[26:30]: chk = chk * 2 + b
    return val if val % 13 == chk else None

def video(a):
    cmd = ["ffmpeg", "-nostdin", "-v", "info", "-hide_banner"] + (["-ss", str(a.at)] if a.at is not None else []) + ["-copyts", "-i", a.file, "-map", "0:v:%d" % a.stream]
    vf = (a.filter + "," if a.filter else "") + "format=gray,crop=iw:1:0:ih/40,showinfo=checksum=0"
    cmd += ["-frames:v", str(a.frames), "-vf", vf, "-fps_mode", "passthrough", "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    p = subprocess.run(cmd, capture_output=True)
    log = p.stderr.decode("utf-8", "replace")
    at = 0
    for t, w in re.findall(r"pts_time:\s*(-?[\d.]+).*? s:(\d+)x", log):
        row = p.stdout[at:at + int(w)]; at += int(w)
        if len(row) < 32: break
        ms = decode_row(row)
        print("%s\t%s" % (t, "-" if ms is None else ms))

def audio(a):
    sr = 8000
    cmd = ["ffmpeg", "-nostdin", "-v", "error"] + (["-ss", str(a.at)] if a.at is not None else []) + ["-i", a.file, "-map", "0:a:%d" % a.stream, "-ac", "1", "-ar", str(sr), "-t", str(a.frames / 2.0), "-f", "s16le", "-"]
    d = subprocess.run(cmd, capture_output=True).stdout
    x = memoryview(d[:len(d) // 2 * 2]).cast("h")
    for k in range(0, len(x) - sr // 4, sr // 2):
        seg = x[k + sr // 8: k + sr * 3 // 8]      # middle quarter second of each half
        # rising zero crossings with interpolation
        z = [i - seg[i - 1] / (seg[i] - seg[i - 1]) if seg[i] != seg[i - 1] else i for i in range(1, len(seg)) if seg[i - 1] < 0 <= seg[i]]
        hz = (len(z) - 1) * sr / (z[-1] - z[0]) if len(z) > 2 else 0
        print("%.3f\t%.1f\t%s" % (k / sr + (a.at or 0), hz, round((hz - 400) / 8) % 100 if hz else "-"))

if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("file"); ap.add_argument("--at", type=float); ap.add_argument("--frames", type=int, default=1)
    ap.add_argument("--stream", type=int, default=0); ap.add_argument("--audio", action="store_true"); ap.add_argument("--filter")
    a = ap.parse_args()
    audio(a) if a.audio else video(a)
