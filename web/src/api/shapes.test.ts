import { describe, expect, it } from "vitest";
import { historyOf, homeOf, listOf, ratesOf, sessionsOf, storageOf, unreadableOf, userOf } from "./shapes";

describe("shapes", () => {
  it("takes a list with or without its envelope, and nothing for a list", () => {
    expect(listOf({ items: [1, 2], total: 9 })).toEqual({ items: [1, 2], total: 9 });
    expect(listOf([1])).toEqual({ items: [1], total: 1 });
    expect(listOf(null)).toEqual({ items: [], total: 0 });
    expect(homeOf({}).next_up).toEqual([]);
  });

  it("reads a session whose item is an id with a title beside it", () => {
    const [session] = sessionsOf({
      items: [{ session: "s", user: "ada", client: "browser", item: "7", title: "Film", method: "transcode", bitrate: 8e6, disks: { sda: 5 } }],
    });
    expect(session).toMatchObject({ session: "s", item: { id: "7", title: "Film" }, bitrate_bps: 8e6, disks: { sda: 5 }, paused: false });
  });

  it("reads rates as numbers, as objects and as rows", () => {
    expect(ratesOf({ sda: 5 })).toEqual({ sda: 5 });
    expect(ratesOf({ sda: { read_bytes_per_s: 5 } })).toEqual({ sda: 5 });
    expect(ratesOf([{ disk: "sda", read_bytes_per_s: 5 }])).toEqual({ sda: 5 });
    expect(ratesOf("nonsense")).toEqual({});
  });

  it("reads the history's summary, and an entry without one", () => {
    const list = historyOf({
      total: 2,
      items: [
        { session: "a", item: "7", title: "Film", user_name: "ada", method: "direct_play", client: "c", started: "x", summary: { verdict: "v", served_bytes: 3 } },
        { session: "b", title: "Gone" },
      ],
    });
    expect(list.items[0]).toMatchObject({ user: "ada", item: { id: "7", title: "Film" }, io: { verdict: "v", served_bytes: 3 } });
    expect(list.items[1]).toMatchObject({ item: { id: "", title: "Gone" }, io: null });
  });

  it("reads volumes with the topology in the row, and one that could not be told", () => {
    const report = storageOf({
      items: [{ library: "1", name: "Films", path: "/a", node: { kind: "disk" }, disks: ["sda"] }, { name: "Far", why: "not mounted" }],
      disks: [{ disk: "sda", read_bytes_per_s: 1 }],
    });
    expect(report.volumes[0]).toMatchObject({ library: "1", name: "Films", topology: { path: "/a", disks: ["sda"], advice: [] } });
    expect(report.volumes[1]).toMatchObject({ name: "Far", topology: null, error: "not mounted" });
    expect(report.disks).toHaveLength(1);
  });

  it("reads a user alone and inside an answer", () => {
    expect(userOf({ id: "1", name: "ada", role: "user" })).toEqual({ id: "1", name: "ada", role: "user" });
    expect(userOf({ token: "t", user: { id: "1", username: "ada" } })).toEqual({ id: "1", name: "ada", role: "admin" });
    expect(unreadableOf({ items: [{ file: "a.mkv", reason: "empty" }] }).items).toEqual([{ path: "a.mkv", reason: "empty" }]);
  });
});
