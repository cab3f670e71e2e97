//! `zdb`, the one way by which ZFS says where a file's blocks lie. It reads the pool's disks itself, as they were when the
//! last transaction group was written. Two of its answers are understood: the block pointers of a file
//! (`zdb -Pdddddd DATASET OBJECT`) and a pool's vdevs (`zdb -C POOL`), both as of OpenZFS 0.8 to 2.3 (cmd/zdb/zdb.c
//! `snprintf_blkptr_compact`, `dump_nvlist`).

use std::io;
use std::time::Duration;

use super::program::{self, Bounds};

/// A file of 60 GiB in records of 128 KiB is 490,000 lines of about 130 bytes. It walks the file's tree on disk, and loads the pool
/// before: a second, on a pool of many disks that are busy many.
const BOUNDS: Bounds = Bounds { patience: Duration::from_secs(60), max_bytes: 96 << 20 };
/// Where distributions put it; no search path is trusted.
const PROGRAMS: [&str; 4] = ["/usr/sbin/zdb", "/sbin/zdb", "/usr/local/sbin/zdb", "/usr/bin/zdb"];
/// Records that are mapped, 64 bytes each: 1 TiB in records of 1 MiB, 128 GiB in those of 128 KiB.
const MAX_RECORDS: usize = 1 << 20;
/// Vdevs of a pool, and how deep they nest; ZFS itself nests four deep.
const MAX_VDEVS: usize = 4096;
const MAX_DEPTH: usize = 8;

/// Where a copy of a record lies (include/sys/spa.h `dva_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dva {
    /// Number of the top-level vdev.
    pub(crate) vdev: u32,
    /// Bytes that it takes there, parity and padding counted.
    pub(crate) asize: u32,
    /// First byte, behind the vdev's labels.
    pub(crate) offset: u64,
}

/// A record (level 0), or a block of the tree above records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// First byte of the file in it, or below it.
    pub(crate) offset: u64,
    /// Bytes of contents.
    pub(crate) len_bytes: u32,
    /// Bytes as stored: less where it is compressed.
    pub(crate) stored_bytes: u32,
    pub(crate) level: u8,
    pub(crate) dva: Dva,
    /// Further copies (the property `copies`; of trees, always).
    pub(crate) others: Vec<Dva>,
}

impl Record {
    /// Its copies.
    pub(crate) fn dvas(&self) -> impl Iterator<Item = &Dva> {
        std::iter::once(&self.dva).chain(&self.others)
    }

    /// Whether a copy is only the header of pieces that lie elsewhere (zio.c `zio_gang_tree`): nothing else takes less
    /// room than what is stored.
    pub(crate) fn is_gang(&self, dva: &Dva) -> bool {
        dva.asize < self.stored_bytes
    }

    /// Whether it is stored compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.stored_bytes != self.len_bytes
    }
}

/// What `zdb` says of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Object {
    /// Size of the file on disk, where that is not encrypted.
    pub(crate) size_bytes: Option<u64>,
    /// Records in order, then the tree's blocks.
    pub(crate) records: Vec<Record>,
    /// How many of them are records.
    pub(crate) level_0: usize,
    /// Stored within block pointers.
    pub(crate) embedded_bytes: u64,
    /// Past the limit of what is mapped.
    pub(crate) dropped_bytes: u64,
    pub(crate) is_encrypted: bool,
}

/// A vdev of a pool's configuration (include/sys/fs/zfs.h `ZPOOL_CONFIG_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Vdev {
    /// `root`, `disk`, `file`, `mirror`, `raidz`, `draid`, `replacing`, `spare`, `indirect`, `hole`, `missing`.
    pub(crate) kind: String,
    pub(crate) id: u64,
    /// Binary logarithm of the smallest block; of top-level vdevs.
    pub(crate) ashift: u32,
    /// Of a raidz: disks that may fail.
    pub(crate) parity: u32,
    pub(crate) path: Option<String>,
    /// `data`, `log`, `special`, `dedup`.
    pub(crate) class: String,
    /// Offline, faulted, removed or not there.
    pub(crate) is_gone: bool,
    /// A raidz to which disks were added later: older records have another width.
    pub(crate) is_expanded: bool,
    pub(crate) children: Vec<Vdev>,
}

/// Whether a name may be given to the program: `pool/dataset`, as zfsconcepts(7) has them.
pub(crate) fn is_dataset(name: &str) -> bool {
    let is_part = |p: &str| {
        !p.is_empty()
            && p.starts_with(|c: char| c.is_ascii_alphanumeric())
            && p.chars().all(|c| c.is_ascii_alphanumeric() || "-_.: ".contains(c))
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

/// The text of `zdb -Pdddddd DATASET INODE`.
pub(crate) fn object(dataset: &str, inode: u64) -> io::Result<String> {
    if !is_dataset(dataset) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a dataset"));
    }
    // Without a slash the name of a pool would mean its own objects, not those of its first dataset.
    let name = if dataset.contains('/') { dataset.to_owned() } else { format!("{dataset}/") };
    // Six: with five it tells only the first copy of each record.
    ask(dataset, &["-Pdddddd"], &[&name, &inode.to_string()])
}

/// What `zdb -C POOL` prints, or the part of `zdb -C` that is of this pool: the list of imported pools (zpool.cache), for which
/// no pool is loaded.
pub(crate) fn config(pool: &str) -> io::Result<String> {
    if !is_dataset(pool) || pool.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a pool"));
    }
    if let Some(text) = run(&["-C"]).ok().and_then(|all| section(&all, pool)) {
        return Ok(text);
    }
    ask(pool, &["-C"], &[pool])
}

/// The lines behind `POOL:` that stand deeper.
fn section(all: &str, pool: &str) -> Option<String> {
    let its = |l: &&str| l.strip_suffix(':') == Some(pool);
    let mut lines = all.lines().skip_while(|l| !its(l));
    lines.next()?;
    let mut out = String::new();
    for line in lines.take_while(|l| l.is_empty() || l.starts_with(' ')) {
        out.push_str(line);
        out.push('\n');
    }
    (!out.is_empty()).then_some(out)
}

/// Asks by the list of imported pools (zpool.cache); a pool that is not on it is found by its disks' labels.
fn ask(dataset: &str, options: &[&str], operands: &[&str]) -> io::Result<String> {
    let why = match run(&[options, operands].concat()) {
        Err(e) if e.kind() == io::ErrorKind::Other => e,
        other => return other,
    };
    let pool = dataset.split('/').next().unwrap_or_default();
    // Only its own disks are looked at: a look at all would wake those that sleep.
    let Ok(status) = super::zfs::status(pool) else { return Err(why) };
    let leaves = super::zfs::leaves(&super::zfs::parse(&status));
    let mut arguments = vec!["-e"];
    for leaf in &leaves {
        arguments.extend(["-p", leaf]);
    }
    arguments.extend(options);
    arguments.extend(operands);
    // What it said first is nearer to the cause.
    run(&arguments).map_err(|_| why)
}

fn run(arguments: &[&str]) -> io::Result<String> {
    program::output(&PROGRAMS, arguments, BOUNDS)
}

/// The block pointers in an answer of [`object`]. `None` if it holds none of `inode`.
pub(crate) fn parse_object(text: &str, inode: u64) -> Option<Object> {
    let mut out = Object::default();
    let mut trees = Vec::new();
    let (mut is_found, mut is_listed) = (false, false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("Object ") && line.contains("lvl") {
            // The next line begins with the object's number.
            let row = lines.next().unwrap_or_default();
            is_found = row.split_whitespace().next().and_then(|n| n.parse().ok()) == Some(inode);
            is_listed = false;
        } else if line.starts_with("Dataset ") {
            // The pointer to the dataset's own root (its `crypt` word, include/sys/spa.h `SNPRINTF_BLKPTR`).
            out.is_encrypted |= line.split(' ').any(|w| matches!(w, "encrypted" | "authenticated"));
        } else if !is_found {
            // Another object's.
        } else if line.starts_with("Indirect blocks:") {
            is_listed = true;
        } else if !is_listed {
            let mut words = line.split_whitespace();
            if words.next() == Some("size") {
                out.size_bytes = words.next().and_then(|n| n.parse().ok());
            }
            out.is_encrypted |= line.contains("(bonus encrypted)");
        } else {
            match pointer(line) {
                Some(Pointer::Record(r)) if r.level > 0 => trees.push(r),
                Some(Pointer::Record(r)) => {
                    let is_next = out.records.last().is_none_or(|p: &Record| p.offset < r.offset);
                    if !is_next || out.records.len() >= MAX_RECORDS {
                        out.dropped_bytes = out.dropped_bytes.saturating_add(u64::from(r.len_bytes));
                    } else {
                        out.records.push(r);
                    }
                }
                Some(Pointer::Embedded { level: 0, len_bytes }) => {
                    out.embedded_bytes = out.embedded_bytes.saturating_add(u64::from(len_bytes));
                }
                Some(Pointer::Embedded { .. } | Pointer::Hole) | None => {}
            }
        }
    }
    out.level_0 = out.records.len();
    trees.truncate(MAX_RECORDS);
    out.records.append(&mut trees);
    (is_listed || is_found).then_some(out)
}

enum Pointer {
    Record(Record),
    Embedded { level: u8, len_bytes: u32 },
    Hole,
}

/// `20000   L0 0:400000:20000 20000L/20000P F=1 B=10/10`, `.. EMBEDDED et=0 200L/1eP B=10`, `.. 20000L B=10` (a hole); with
/// the whole pointer `DVA[0]=<0:400000:20000> [L0 ZFS plain file] .. size=20000L/20000P ..`. Hexadecimal, but vdevs.
fn pointer(line: &str) -> Option<Pointer> {
    let mut words = line.split_whitespace();
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let level: u8 = words.next()?.strip_prefix('L')?.parse().ok()?;
    let mut dvas = Vec::new();
    let mut is_embedded = false;
    for word in words {
        if word == "EMBEDDED" {
            is_embedded = true;
        } else if let Some(dva) = dva(word) {
            dvas.push(dva);
        } else if let Some((len_bytes, stored)) = sizes(word) {
            if is_embedded {
                return Some(Pointer::Embedded { level, len_bytes });
            }
            let Some(stored_bytes) = stored else { return Some(Pointer::Hole) };
            dvas.retain(|d| d.asize > 0);
            if dvas.is_empty() || len_bytes == 0 {
                return None;
            }
            let first = dvas.remove(0);
            dvas.truncate(2);
            offset.checked_add(u64::from(len_bytes))?;
            return Some(Pointer::Record(Record {
                offset,
                len_bytes,
                stored_bytes,
                level,
                dva: first,
                others: dvas,
            }));
        }
    }
    None
}

/// `0:400000:20000`, `DVA[0]=<0:400000:20000>`.
fn dva(word: &str) -> Option<Dva> {
    let word = match word.strip_prefix("DVA[") {
        Some(rest) => rest.split_once("=<")?.1.strip_suffix('>')?,
        None => word,
    };
    let mut parts = word.split(':');
    let vdev = parts.next()?.parse().ok()?;
    let offset = u64::from_str_radix(parts.next()?, 16).ok()?;
    let asize = u32::from_str_radix(parts.next()?, 16).ok()?;
    // Nothing above 2^62 is an address; sums of such are not made.
    (parts.next().is_none() && offset < 1 << 62).then_some(Dva { vdev, asize, offset })
}

/// `20000L/1000P`, `20000L`, with or without `size=`.
fn sizes(word: &str) -> Option<(u32, Option<u32>)> {
    let word = word.strip_prefix("size=").unwrap_or(word);
    let hex = |text: &str, unit: char| u32::from_str_radix(text.strip_suffix(unit)?, 16).ok();
    match word.split_once('/') {
        Some((logical, physical)) => Some((hex(logical, 'L')?, Some(hex(physical, 'P')?))),
        None => Some((hex(word, 'L')?, None)),
    }
}

/// The top-level vdevs in an answer of [`config`]: of the pool itself where it tells, else as the list of imported pools has
/// them.
pub(crate) fn parse_config(text: &str) -> Vec<Vdev> {
    let mut best = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "vdev_tree:" {
            continue;
        }
        let mut count = 0;
        let root = vdev(&mut lines, indent(line), 0, &mut count);
        if !root.children.is_empty() {
            // The last one told is the pool's own ("MOS Configuration").
            best = root.children;
        }
    }
    best
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines that stand deeper than `above`.
fn vdev<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    above: usize,
    depth: usize,
    count: &mut usize,
) -> Vdev {
    let mut out = Vdev { class: "data".to_owned(), ..Vdev::default() };
    while let Some(line) = lines.next_if(|l| l.trim().is_empty() || indent(l) > above) {
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let value = value.trim();
        let text = || value.trim_matches('\'').to_owned();
        let is_set = || value.parse::<u64>().is_ok_and(|n| n > 0);
        match key {
            _ if key.starts_with("children[") => {
                let child = vdev(lines, indent(line), depth + 1, count);
                *count += 1;
                if *count <= MAX_VDEVS && depth < MAX_DEPTH {
                    out.children.push(child);
                }
            }
            "type" => out.kind = text(),
            "id" => out.id = value.parse().unwrap_or(0),
            "ashift" => out.ashift = value.parse().unwrap_or(0),
            "nparity" => out.parity = value.parse().unwrap_or(0),
            "path" => out.path = Some(text()),
            "is_log" if is_set() => "log".clone_into(&mut out.class),
            "alloc_bias" => out.class = text(),
            "offline" | "faulted" | "removed" | "not_present" => out.is_gone |= is_set(),
            "raidz_expanding" => out.is_expanded = true,
            _ if key.starts_with("raidz_expand_txgs") => out.is_expanded = true,
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_datasets_reach_the_program() {
        for name in ["tank", "tank/media", "tank/My Films.2024", "a-b_c:d"] {
            assert!(is_dataset(name), "{name}");
        }
        for name in ["", "-e", "tank/", "tank//x", "../etc", "tank/-x", "tank;x", "tank\n", "tank@snap"] {
            assert!(!is_dataset(name), "{name}");
        }
        assert!(config("tank/media").is_err());
    }

    fn record(line: &str) -> Option<Record> {
        match pointer(line)? {
            Pointer::Record(r) => Some(r),
            Pointer::Embedded { .. } | Pointer::Hole => None,
        }
    }

    fn at(vdev: u32, offset: u64, asize: u32) -> Dva {
        Dva { vdev, asize, offset }
    }

    #[test]
    fn both_ways_of_writing_a_block_pointer_are_read() {
        let compact =
            "           20000   L0 1:4a0000:21000 0:c0000:21000 20000L/1f000P F=1 B=14/14 cksum=1:2:3:4";
        let whole = "20000 L0 DVA[0]=<1:4a0000:21000> DVA[1]=<0:c0000:21000> [L0 ZFS plain file] fletcher4 lz4 unencrypted LE contiguous unique double size=20000L/1f000P birth=14L/14P fill=1 cksum=1:2:3:4";
        let want = Record {
            offset: 0x20000,
            len_bytes: 0x20000,
            stored_bytes: 0x1f000,
            level: 0,
            dva: at(1, 0x4a_0000, 0x21000),
            others: vec![at(0, 0xc_0000, 0x21000)],
        };
        assert_eq!(record(compact), Some(want.clone()));
        assert_eq!(record(whole), Some(want.clone()));
        assert!(want.is_compressed() && !want.is_gang(&want.dva));
    }

    #[test]
    fn of_the_list_of_pools_one_is_taken() {
        let all = "dr:\n    name: 'dr'\n    vdev_tree:\n        type: 'root'\ntank:\n    name: 'tank'\n";
        assert_eq!(section(all, "tank").as_deref(), Some("    name: 'tank'\n"));
        assert!(section(all, "dr").is_some_and(|t| t.contains("root") && !t.contains("tank")));
        assert_eq!(section(all, "name"), None);
        assert_eq!(section("", "tank"), None);
    }

    #[test]
    fn holes_embedded_and_nonsense_are_no_records() {
        for line in [
            "0 L0 EMBEDDED et=0 200L/1eP B=10",
            "0 L0 0:0:0 20000L B=12",
            "0 L0 20000L B=12",
            "0 L0 0:0:0 20000L/20000P F=1",
            "x L0 0:0:200 200L/200P",
            "\t\tsegment [0000000000000000, 0000000000b80000) size 11.5M",
            "ffffffffffffffff L0 0:0:200 200L/200P",
            "0 L0 0:ffffffffffffffff:200 200L/200P",
            "",
        ] {
            assert_eq!(record(line), None, "{line}");
        }
        assert!(matches!(
            pointer("0 L0 EMBEDDED et=0 200L/1eP B=10"),
            Some(Pointer::Embedded { level: 0, len_bytes: 0x200 })
        ));
        let gang = record("0 L0 0:4000:1000 20000L/20000P F=1 B=9/9").unwrap();
        assert!(gang.is_gang(&gang.dva));
    }
}
