import { describe, expect, it } from "vitest";
import { byDisk, diskColours, hue } from "./hue";

describe("hue", () => {
  it("is the same for the same id and spreads over neighbours", () => {
    expect(hue("42")).toBe(hue("42"));
    const hues = new Set(Array.from({ length: 100 }, (_, i) => Math.floor(hue(`item-${i}`) / 30)));
    expect(hues.size).toBe(12);
  });

  it("sorts disks as the kernel names them", () => {
    expect(["sdaa", "sdb", "sda", "nvme10n1", "nvme2n1"].sort(byDisk)).toEqual([
      "nvme2n1",
      "nvme10n1",
      "sda",
      "sdb",
      "sdaa",
    ]);
  });

  it("gives disks of one machine different colours, whatever order they come in", () => {
    const a = diskColours(["sdc", "sda", "sdb"]);
    const b = diskColours(["sda", "sdb", "sdc", "sdc"]);
    expect([...a]).toEqual([...b]);
    expect(new Set(a.values()).size).toBe(3);
  });

  it("keeps a disk's colour whichever other disks are shown beside it", () => {
    expect(diskColours(["sdd"]).get("sdd")).toBe(diskColours(["sda", "sdb", "sdd", "nvme0n1"]).get("sdd"));
    expect(diskColours(["loop7"]).get("loop7")).toBe(diskColours(["loop5", "loop6", "loop7"]).get("loop7"));
  });

  it("tells disks apart whose names would share a colour, as far as colours go", () => {
    expect(new Set(diskColours(["sda", "sdm", "nvme0n1", "loop12"]).values()).size).toBe(4);
    expect(diskColours(Array.from({ length: 40 }, (_, i) => `loop${i}`)).size).toBe(40);
  });
});
