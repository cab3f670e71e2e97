/// Pools of every kind that the storage page has to show, in the shape of `GET /storage`.

const TB = 1_000_000_000_000;
const size8 = 8_001_563_222_016;
const letters = "abcdefghijklmnopqrstuvwxyz";

let serial = 0;
function disk(name, more = {}) {
  serial += 1;
  return {
    kind: "disk",
    name,
    size_bytes: size8,
    rotational: true,
    model: "WDC WD80EFZX-68U",
    serial: `VK${(serial * 7_919_131).toString(36).toUpperCase().padStart(8, "0")}`,
    transport: "sata",
    queue_depth: 32,
    asleep: false,
    asleep_source: "the drive's power state, asked without waking it",
    temperature_c: 33 + (serial % 5),
    health: "ok",
    path: `/dev/${name}`,
    children: [],
    ...more,
  };
}
const nvme = (name, more = {}) => disk(name, { size_bytes: 1_000_204_886_016, rotational: false, model: "Samsung SSD 980 PRO 1TB", transport: "nvme", queue_depth: 1023, temperature_c: 44, asleep: undefined, asleep_source: undefined, ...more });
const part = (name, child, start = 1_048_576, size = child.size_bytes - start, more = {}) => ({ kind: "partition", name, size_bytes: size, start_bytes: start, children: [child], ...more });
const crypt = (name, child, more = {}) => ({ kind: "crypt", name, size_bytes: child.size_bytes - 16_777_216, children: [child], ...more });
const lost = (name, more = {}) => ({ kind: "disk", name, size_bytes: size8, member_state: "missing", why: "no device answers to its identity", children: [], ...more });

const volume = (kind, path, node, shape, more = {}) => ({
  path,
  filesystem: { kind, uuid: "6f0c3b9e-55a1-4b4e-9d1c-0f31a2c5d7aa", mount: path.split("/").slice(0, 3).join("/") },
  node,
  columns: 1,
  copies: 1,
  layout: "simple",
  advice: [],
  ...shape,
  ...more,
});

/** By name: rows of `GET /storage` and the disks that streams read from. */
export const pools = {
  single: () => [
    volume("ext4", "/srv/films", part("sdb1", disk("sdb")), { disks: ["sdb"], advice: [{ code: "one_disk", text: "Every stream shares one disk, and nothing is left if it fails. A second disk as a mirror would protect the library and let two viewers read from different disks." }] }),
  ],
  raid10: () => [
    volume(
      "xfs",
      "/srv/pool/films",
      {
        kind: "md",
        name: "md0",
        level: "raid10",
        columns: 2,
        copies: 2,
        chunk_bytes: 524_288,
        size_bytes: 2 * size8,
        degraded: true,
        state: "clean, degraded, recovering",
        sync: { action: "recover", done: 0.424, speed_bytes_s: 118_000_000, remaining_s: 4320 },
        children: [
          part("sdb1", disk("sdb"), undefined, undefined, { member_state: "in_sync", role: "mirror" }),
          part("sdc1", disk("sdc", { health: "failing", health_why: "412 sectors were given up, 38 wait", temperature_c: 51 }), undefined, undefined, { member_state: "faulty", role: "mirror" }),
          part("sdd1", disk("sdd", { model: "TOSHIBA HDWG480" }), undefined, undefined, { member_state: "in_sync", role: "mirror" }),
          part("sde1", disk("sde", { model: "TOSHIBA HDWG480" }), undefined, undefined, { member_state: "rebuilding", role: "mirror" }),
        ],
      },
      { columns: 2, copies: 2, disks: ["sdb", "sdc", "sdd", "sde"], layout: "mirror", advice: [{ code: "degraded", text: "Replace sdc. Until the rebuild onto sde has finished, the bytes that sdc held have one copy." }] },
    ),
  ],
  shr: () => {
    const disks = [disk("sda", { size_bytes: 4 * TB }), disk("sdb", { size_bytes: 4 * TB }), disk("sdc", { model: "ST8000VN004" }), disk("sdd", { model: "ST8000VN004", asleep: true, temperature_c: undefined })];
    const slice = (d, n, start, size) => part(`${d.name}${n}`, d, start, size);
    const start = 5_100_273_664;
    return [
      volume(
        "btrfs",
        "/volume1/video",
        {
          kind: "lvm",
          name: "vg1-volume_1",
          level: "linear",
          size_bytes: 16 * TB - 4 * start,
          children: [
            { kind: "md", name: "md2", level: "raid5", columns: 3, copies: 1, chunk_bytes: 65_536, size_bytes: 3 * (4 * TB - start), children: disks.map((d) => slice(d, 5, start, 4 * TB - start)) },
            { kind: "md", name: "md3", level: "raid1", columns: 1, copies: 2, size_bytes: 4 * TB, state: "clean", sync: { action: "check", done: 0.07, speed_bytes_s: 90_000_000, remaining_s: 41_000 }, children: disks.slice(2).map((d) => slice(d, 6, 4 * TB, 4 * TB)) },
          ],
        },
        { columns: 3, copies: 1, disks: ["sda", "sdb", "sdc", "sdd"], layout: "mixed", advice: [{ code: "mixed", text: "The first 12 TB are striped over four disks with parity, the rest is a mirror of two: where a file lies decides how fast it can be read." }] },
      ),
    ];
  },
  btrfs: () => [
    volume(
      "btrfs",
      "/srv/vault/films",
      {
        kind: "btrfs",
        name: "vault",
        level: "raid1",
        columns: 1,
        copies: 2,
        size_bytes: 3 * size8,
        degraded: true,
        children: [crypt("luks-sdb", part("sdb1", disk("sdb"))), crypt("luks-sdc", part("sdc1", disk("sdc"))), lost("devid 3")],
      },
      { columns: 1, copies: 2, disks: ["sdb", "sdc"], layout: "mirror", advice: [{ code: "mirror_reads_one_copy", text: "A btrfs mirror serves one reader from one disk. raid10 on four disks would let one stream use two at once." }] },
    ),
  ],
  zfs: () => [
    volume(
      "zfs",
      "/tank/media",
      {
        kind: "zfs",
        name: "tank",
        size_bytes: 64 * TB,
        state: "ONLINE",
        children: [
          { kind: "zfs", name: "raidz2-0", level: "raidz2", role: "data", columns: 6, copies: 1, state: "ONLINE", size_bytes: 8 * size8, children: [...letters.slice(0, 8)].map((c) => part(`sd${c}1`, disk(`sd${c}`, { asleep: c > "e", temperature_c: c > "e" ? undefined : 36 }))) },
          { kind: "zfs", name: "mirror-1", level: "mirror", role: "special", copies: 2, state: "ONLINE", size_bytes: TB, children: [nvme("nvme0n1"), nvme("nvme1n1")] },
          { kind: "zfs", name: "cache", role: "cache", state: "ONLINE", size_bytes: TB, children: [nvme("nvme2n1", { health: "unknown", health_why: "the drive does not answer without privilege" })] },
        ],
      },
      { columns: 6, copies: 1, disks: [...[...letters.slice(0, 8)].map((c) => `sd${c}`), "nvme0n1", "nvme1n1", "nvme2n1"], layout: "parity", advice: [{ code: "zfs_record", text: "Records of 128 KiB are split over six disks in pieces of about 21 KiB. For films, `recordsize=1M` gives each disk larger reads." }] },
      { filesystem: { kind: "zfs", mount: "/tank/media" } },
    ),
  ],
  mergerfs: () => [
    volume(
      "mergerfs",
      "/mnt/all/films",
      {
        kind: "mergerfs",
        name: "/mnt/all",
        size_bytes: 5 * size8,
        children: [...letters.slice(1, 6)].map((c, i) => ({
          kind: "ext4",
          name: `/mnt/disk${i + 1}`,
          path: `/mnt/disk${i + 1}`,
          size_bytes: size8,
          children: [part(`sd${c}1`, disk(`sd${c}`, { asleep: i > 1, temperature_c: i > 1 ? undefined : 34, transport: i === 4 ? "usb" : "sata", queue_depth: i === 4 ? 1 : 32, model: i === 4 ? "Elements 25A3" : "ST8000DM004-2U9" }))],
        })),
      },
      { disks: [...letters.slice(1, 6)].map((c) => `sd${c}`), advice: [{ code: "usb_one_request", text: "sdf is attached by USB and takes one request at a time: keep what several people watch at once elsewhere." }] },
      { filesystem: { kind: "mergerfs", mount: "/mnt/all" } },
    ),
  ],
  bcache: () => [
    volume(
      "ext4",
      "/srv/films",
      { kind: "bcache", name: "bcache0", size_bytes: size8, state: "dirty: 1.2 GB wait to be written back", children: [part("sdb1", disk("sdb"), undefined, undefined, { role: "origin" }), { ...nvme("nvme0n1"), role: "cache" }] },
      { disks: ["sdb", "nvme0n1"] },
    ),
  ],
  nfs: () => [
    volume(
      "nfs4",
      "/mnt/nas/films",
      { kind: "network", name: "nas.lan:/volume1/films", server: "nas.lan", export: "/volume1/films", why: "the disks are the server's own business: what they do cannot be attributed from here", children: [] },
      { columns: 0, copies: 0, disks: [] },
      { filesystem: { kind: "nfs4", mount: "/mnt/nas" } },
    ),
    { library: "lib-old", name: "Old films", why: "the folder /mnt/gone is not there" },
  ],
  unknown: () => [
    volume(
      "ext4",
      "/srv/odd",
      { kind: "dm", name: "odd-target", size_bytes: size8, children: [{ kind: "unknown", name: "dm-7", size_bytes: size8, why: "the device mapper target `era` is not known to Spindle", children: [] }, disk("sdb", { model: undefined, serial: undefined, rotational: undefined, transport: undefined, queue_depth: undefined, asleep: undefined, asleep_source: "the drive gives no answer to an unprivileged question", temperature_c: undefined, health: undefined, size_bytes: undefined })] },
      { columns: 0, copies: 1, disks: ["sdb"] },
    ),
  ],
  wall: () => {
    const names = [...letters].slice(0, 24).map((c) => `sd${c}`);
    const set = (n) => ({
      kind: "md",
      name: `md${n}`,
      level: "raid6",
      columns: 6,
      copies: 1,
      chunk_bytes: 262_144,
      size_bytes: 6 * size8,
      degraded: n === 1,
      children: names.slice(n * 8, n * 8 + 8).map((name, i) => crypt(`luks-${name}`, part(`${name}1`, disk(name, { asleep: n === 2, temperature_c: n === 2 ? undefined : 31 + i, ...(n === 1 && i === 5 ? { health: "failing", health_why: "it does not answer" } : {}) })), n === 1 && i === 5 ? { member_state: "faulty" } : { member_state: "in_sync" })),
    });
    return [
      volume(
        "xfs",
        "/srv/wall/films",
        { kind: "lvm", name: "vault-media", level: "striped", columns: 18, chunk_bytes: 1_048_576, size_bytes: 18 * size8, children: [0, 1, 2].map(set) },
        { columns: 18, copies: 1, disks: names, layout: "parity", advice: [] },
      ),
    ];
  },
};

/** Leaf disks of a volume that a stream may read from. */
export function readable(volumes) {
  const out = [];
  const visit = (node, helper) => {
    const aside = helper || ["cache", "special", "log"].includes(node.role) || /missing|faulty|rebuilding/.test(node.member_state ?? "");
    if (node.children.length === 0) {
      if (!aside && node.kind === "disk" && !node.asleep) out.push(node.name);
    } else node.children.forEach((child) => visit(child, aside));
  };
  for (const v of volumes) if (v.node) visit(v.node, false);
  return [...new Set(out)];
}
