import { describe, expect, it } from "vitest";
import type { Topology, TopologyNode } from "../api/types";
import { balanced, commonSleeves, layerWords, leavesOf, nodes, placesOf, poolsOf, readingOf, slicesOf, stackOf, troublesOf, withFigures, withStanding } from "./topology";

const node = (kind: string, name: string, more: Partial<TopologyNode> = {}): TopologyNode => ({ kind, name, children: [], ...more });
const disk = (name: string, more: Partial<TopologyNode> = {}) => node("disk", name, { size_bytes: 1000, ...more });
const part = (name: string, child: TopologyNode, more: Partial<TopologyNode> = {}) => node("partition", name, { children: [child], ...more });

function topology(top: TopologyNode, more: Partial<Topology> = {}): Topology {
  const disks = [...nodes(top)].filter((n) => n.kind === "disk" && n.member_state !== "missing").map((n) => n.name);
  return { path: "/srv", filesystem: { kind: "ext4", mount: "/srv" }, node: top, columns: 1, copies: 1, disks, layout: "simple", advice: [], ...more };
}

describe("stack", () => {
  it("puts the filesystem on top unless the pool is one, and joins layers that have one child", () => {
    const plain = stackOf(topology(part("sda1", disk("sda"))));
    expect(plain.layers.map((n) => n.name)).toEqual(["ext4", "sda1"]);
    expect(plain.disk?.name).toBe("sda");
    const pool = stackOf(topology(node("btrfs", "pool", { children: [disk("sda"), node("crypt", "luks", { children: [part("sdb1", disk("sdb"))] })] })));
    expect(pool.layers.map((n) => n.name)).toEqual(["pool"]);
    expect(pool.parts[1]?.layers.map((n) => n.name)).toEqual(["luks", "sdb1"]);
    expect(leavesOf(pool)).toBe(2);
  });

  it("knows a disk cut into slices by its several places", () => {
    const sda = disk("sda");
    const lvm = node("lvm", "lv", {
      children: [
        node("md", "md0", { children: [part("sda1", sda, { start_bytes: 0, size_bytes: 400 }), part("sdb1", disk("sdb"), { start_bytes: 0, size_bytes: 1000 })] }),
        node("md", "md1", { children: [part("sda2", sda, { start_bytes: 400, size_bytes: 600 }), disk("sdc")] }),
      ],
    });
    const places = placesOf(stackOf(topology(lvm)));
    expect([...places.keys()]).toEqual(["sda", "sdb", "sdc"]);
    expect(places.get("sda")?.map((p) => p.under?.name)).toEqual(["md0", "md1"]);
    expect(slicesOf(places.get("sda") ?? [])).toMatchObject([{ from: 0, length: 0.4 }, { from: 0.4, length: 0.6 }]);
    // One partition that is the whole disk is not worth a drawing.
    expect(slicesOf(places.get("sdb") ?? [])).toEqual([]);
  });

  it("calls a pool without a label by its kind, not by its identifier", () => {
    const t = topology(node("btrfs", "f00", { level: "raid1", children: [disk("sda"), disk("sdb")] }), { filesystem: { kind: "btrfs", uuid: "f00", mount: "/srv" } });
    const [pool] = stackOf(t).layers;
    expect(pool?.name).toBe("");
    expect(layerWords(pool!, 2)).toBe("raid1, mirrored · 2 parts");
  });

  it("ends at a leaf that is no disk, and at a network mount", () => {
    expect(stackOf(topology(node("network", "nas:/x"))).disk?.kind).toBe("network");
    expect(stackOf(topology(node("unknown", "dm-7"))).disk?.kind).toBe("unknown");
  });

  it("tells once what every disk of a wall carries", () => {
    const wall = stackOf(topology(node("md", "md0", { children: ["sda", "sdb"].map((n) => node("crypt", `luks-${n}`, { children: [part(`${n}1`, disk(n))] })) })));
    expect(commonSleeves(wall)).toEqual(["crypt", "partition"]);
    const odd = stackOf(topology(node("md", "md0", { children: [disk("sda"), part("sdb1", disk("sdb"))] })));
    expect(commonSleeves(odd)).toEqual([]);
  });
});

describe("words", () => {
  it("say how many disks a read uses, and how many copies there are", () => {
    const four = node("md", "md0", { level: "raid10", children: ["sda", "sdb", "sdc", "sdd"].map((n) => disk(n)) });
    expect(readingOf(topology(four, { columns: 2, copies: 2, layout: "mirror" })).text).toBe("A large read can use 2 of 4 disks at once; each byte has 2 copies.");
    expect(readingOf(topology(disk("sda"))).text).toBe("Everything lies on one disk, and a read is as fast as that disk; each byte has one copy.");
    expect(readingOf(topology(node("md", "md0", { children: [disk("sda"), disk("sdb")] }), { copies: 2 })).text).toBe("A large read uses one disk at a time, of 2; each byte has 2 copies.");
    expect(readingOf(topology(node("mergerfs", "/mnt/all", { children: [disk("sda"), disk("sdb")] }))).text).toBe("Each file lies whole on one of 2 disks, and a read uses that disk alone; each byte has one copy.");
  });

  it("count parity, and leave caches out of the disks", () => {
    const zfs = node("zfs", "tank", { children: [node("zfs", "raidz2-0", { level: "raidz2", children: ["sda", "sdb", "sdc", "sdd"].map((n) => disk(n)) }), node("zfs", "cache", { role: "cache", children: [disk("sde")] })] });
    const reading = readingOf(topology(zfs, { columns: 2, layout: "parity" }));
    expect(reading).toMatchObject({ parity: 2, text: "A large read can use 2 of 4 disks at once; each byte has one copy, and parity makes up for two lost disks." });
  });

  it("claim nothing about another machine's disks", () => {
    const far = readingOf(topology(node("network", "nas:/v", { server: "nas" }), { columns: 0, copies: 0, disks: [] }));
    expect(far.text).toBe("The files are on nas. Which disks it has cannot be seen from here.");
    expect(readingOf(topology(node("memory", "tmpfs"), { columns: 0, disks: [] })).text).toBe("It is in memory: no disk is read for it.");
    expect(readingOf(topology(node("btrfs", "pool", { children: [disk("sda"), node("unknown", "devid 2", { member_state: "missing" })] }), { copies: 2, disks: ["sda"] })).text).toContain("one disk at a time, of 2");
    expect(readingOf(topology(node("dm", "odd", { children: [disk("sda")] }), { columns: 0 })).text).toContain("not known");
  });

  it("do not say one thing twice", () => {
    expect(layerWords(node("zfs", "mirror-0", { level: "mirror" }), 2)).toBe("ZFS · mirror · 2 parts");
    expect(layerWords(node("md", "md0", { level: "raid10", columns: 2, chunk_bytes: 524_288 }), 4)).toBe("Linux RAID · raid10, mirrored and striped · pieces of 512 KiB · 4 parts");
  });
});

describe("troubles", () => {
  it("name the lost member at the layer that runs without it, worst first", () => {
    const md = node("md", "md0", {
      degraded: true,
      sync: { action: "recover", done: 0.5, remaining_s: 3600 },
      children: [disk("sda"), part("sdb1", disk("sdb", { member_state: "faulty" }))],
    });
    const troubles = troublesOf(topology(md));
    expect(troubles.map((t) => t.tone)).toEqual(["bad", "work"]);
    expect(troubles[0]?.text).toContain("1 member of 2 is gone (sdb)");
    expect(troubles[1]?.text).toContain("md0 is being rebuilt: 50 % done, 1 h left");
  });

  it("are told for a failing disk, a part that is not known and an odd state, and for nothing else", () => {
    expect(troublesOf(topology(node("md", "md0", { state: "clean", children: [disk("sda", { health: "ok" })] })))).toEqual([]);
    expect(troublesOf(topology(node("bcache", "bcache0", { state: "writeback, dirty", children: [disk("sda")] })))).toEqual([]);
    expect(troublesOf(topology(disk("sda", { health: "failing", health_why: "no spare sectors" })))[0]).toMatchObject({ tone: "bad", text: "sda says that it is failing: no spare sectors." });
    expect(troublesOf(topology(node("unknown", "dm-7", { why: "era target" })))[0]).toMatchObject({ tone: "warn", text: "dm-7: era target." });
    expect(troublesOf(topology(node("zfs", "tank", { state: "SUSPENDED", children: [disk("sda")] })))[0]?.tone).toBe("bad");
  });
});

describe("figures", () => {
  it("are newer than the tree where they are there, and leave the rest", () => {
    const old = disk("sda", { asleep: false, temperature_c: 30, health: "ok" });
    expect(withFigures(old, { disk: "sda", read_bytes_per_s: 0, asleep: true })).toMatchObject({ asleep: true, temperature_c: 30, health: "ok" });
    expect(withFigures(old, undefined)).toBe(old);
  });
});

describe("standing", () => {
  it("of a disk is that of the member which it alone carries", () => {
    const md = stackOf(topology(node("md", "md0", { children: [part("sda1", disk("sda"), { member_state: "in_sync" }), part("sdb1", disk("sdb"), { member_state: "faulty", role: "spare" })] })));
    const places = placesOf(md);
    const of = (name: string) => withStanding(places.get(name)![0]!.disk, places.get(name)!);
    expect(of("sda").member_state).toBe("in_sync");
    expect(of("sdb")).toMatchObject({ member_state: "faulty", role: "spare" });
  });
});

describe("pools", () => {
  it("join the folders of several libraries on one pool, not those of two", () => {
    const pool = topology(disk("sda"), { filesystem: { kind: "btrfs", uuid: "u", mount: "/srv" } });
    const other = topology(disk("sdb"));
    const pools = poolsOf([
      { library: "1", name: "Films", path: "/srv/films", topology: pool },
      { library: "2", name: "Shows", path: "/srv/shows", topology: pool },
      { library: "3", name: "Music", path: "/m", topology: other },
      { library: "4", name: "Gone", path: "", topology: null, error: "not there" },
    ]);
    expect(pools.map((p) => p.folders.map((f) => f.name))).toEqual([["Films", "Shows"], ["Music"], ["Gone"]]);
  });

  it("lay disks out in even rows", () => {
    expect(balanced(4, 700, 230, 12)).toBe(2);
    expect(balanced(4, 1000, 230, 12)).toBe(4);
    expect(balanced(24, 680, 78, 8)).toBe(8);
    expect(balanced(1, 0, 230, 12)).toBe(1);
  });
});
