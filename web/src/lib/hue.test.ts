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
});
