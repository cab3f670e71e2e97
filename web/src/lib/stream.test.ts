import { describe, expect, it } from "vitest";
import { experimentOf } from "./experiment";
import { streamRun, wholeRecord } from "./stream";

const record = experimentOf({
  id: "a",
  kind: "stream",
  started: "2026-01-01T00:00:00Z",
  scenario: "skip-around",
  pace: "paced",
  seconds: 30,
  films: [{ file: "/f.mkv", size_bytes: 10, bitrate_bps: 8e6 }],
  streams: [
    {
      stream: 1,
      film: 1,
      way: "as_it_is",
      received_bytes: 5,
      stalls: 1,
      stalled_ms: 1500,
      asked: [{ first_byte_ms: 31 }, {}],
      waits: [
        { at_ms: 0, duration_ms: 400, why: "start" },
        { at_ms: 9000, duration_ms: 1500, why: "stall" },
      ],
      steps: [
        { at_ms: 0, action: { play: 0 } },
        { at_ms: 6000, action: { jump: 0.6 } },
        { at_ms: 30000, action: "stop" },
      ],
      record: { session: "s", served_bytes: 5, read_bytes: 6, disks: [] },
    },
  ],
  disks: [{ disk: "sdb", total_read_bytes: 7, stream_bytes: 6, others_bytes: 1 }, { disk: "sda", total_read_bytes: 0, stream_bytes: 0 }],
  striping: { columns: 2, columns_used: 1, evenness: 0.5 },
  system: { disks: ["nvme0n1"], read_bytes: 1, write_bytes: 2 },
  counters: {
    interval_ms: 500,
    t_s: [0, 0.5],
    cpu_share: [0.5, 1.5],
    disks: { sdb: { read_bytes: [3, 4], reads: [1, 1] }, nvme0n1: { read_bytes: [1, 0], write_bytes: [0, 2] } },
  },
});

describe("a record of streams", () => {
  it("tells each viewer's jumps, waits and stalls, and the disks in order", () => {
    const run = streamRun(record);
    const [stream] = run.streams;
    expect(stream).toMatchObject({ converted: false, firsts_ms: [31], waited_s: 0.4, stalls: 1, stalled_s: 1.5 });
    expect(stream?.jumps).toEqual([{ at_s: 6, from: 0, to: 0.6 }]);
    expect(stream?.record?.read_bytes).toBe(6);
    expect(run.disks.map((d) => d.disk)).toEqual(["sda", "sdb"]);
    expect(run.system.cpus).toBe(1);
  });

  it("makes whole disks a record that charts draw, without the system's disk among the volume's", () => {
    const whole = wholeRecord(record, streamRun(record));
    expect(Object.keys(whole.series.disks)).toEqual(["sdb"]);
    expect(whole.series.system_disk?.write_bytes).toEqual([0, 2]);
    expect(whole.seeks.map((s) => s.at_s)).toEqual([6]);
    expect(whole.stalls.map((s) => s.at_s)).toEqual([9]);
  });

  it("is empty for somebody who may not see what was played", () => {
    const run = streamRun(experimentOf({ id: "b", kind: "stream", started: "2026-01-01T00:00:00Z" }));
    expect([run.streams, run.disks, run.films]).toEqual([[], [], []]);
    expect(wholeRecord(record, run).series.t_s).toEqual([0, 0.5]);
  });
});
