//! The texts of dm targets (`STATUSTYPE_TABLE` of each drivers/md/dm-*.c). Pure. What is not understood is kept
//! as text, and every list is bounded by the words that are there.

use serde::{Deserialize, Serialize};

/// A place on another block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Region {
    /// `major:minor`.
    pub(crate) device: (u32, u32),
    pub(crate) offset_bytes: u64,
}

/// A target and what of its arguments tells where bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Linear(Region),
    Striped {
        chunk_bytes: u64,
        stripes: Vec<Region>,
    },
    Raid(Raid),
    /// The old mirror, before `raid`.
    Mirror {
        legs: Vec<Region>,
    },
    Crypt {
        cipher: String,
        below: Region,
    },
    Writecache {
        origin: (u32, u32),
        cache: (u32, u32),
        is_pmem: bool,
    },
    Cache {
        metadata: (u32, u32),
        cache: (u32, u32),
        origin: (u32, u32),
        block_bytes: u64,
    },
    Thin {
        pool: (u32, u32),
        id: u32,
        external_origin: Option<(u32, u32)>,
    },
    ThinPool {
        metadata: (u32, u32),
        data: (u32, u32),
        block_bytes: u64,
    },
    Delay(Region),
    /// Fails on purpose from time to time.
    Flakey(Region),
    Error,
    Zero,
    Multipath {
        paths: Vec<(u32, u32)>,
    },
    /// `apart`: the tags have a device of their own, so that the data lie as they come.
    Integrity {
        below: Region,
        apart: bool,
    },
    Verity {
        data: (u32, u32),
    },
    SnapshotOrigin {
        origin: (u32, u32),
    },
    Snapshot {
        origin: (u32, u32),
        store: (u32, u32),
    },
    /// Anything else, or arguments that are not understood; long hexadecimal words, which may be keys, left out.
    Unknown {
        word: String,
        text: String,
    },
}

/// A `raid` target: an md array over pairs of devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Raid {
    /// `raid1`, `raid5_ls`, `raid10`, ..
    pub(crate) level: String,
    pub(crate) chunk_bytes: u64,
    /// For raid10.
    pub(crate) copies: u32,
    /// For the word `raid10`: near (the default), far or offset.
    pub(crate) format: Option<String>,
    /// raid10 far and offset without far sets.
    pub(crate) near_sets: bool,
    /// Slots that reads avoid.
    pub(crate) write_mostly: Vec<u32>,
    /// Slots that are being rebuilt.
    pub(crate) rebuild: Vec<u32>,
    /// Where data begin on each member.
    pub(crate) data_offset_bytes: u64,
    /// Members that a reshape adds or takes away.
    pub(crate) delta_disks: i32,
    /// Data devices by slot; `None` for one that is gone.
    pub(crate) members: Vec<Option<(u32, u32)>>,
}

/// Of a target that is not understood.
const MAX_TEXT_CHARS: usize = 512;

/// Parses the arguments of a target of type `word`.
pub(crate) fn parse(word: &str, text: &str) -> Kind {
    let mut w = Words(text.split_ascii_whitespace());
    known(word, &mut w).unwrap_or_else(|| Kind::Unknown { word: word.to_owned(), text: shown(text) })
}

fn known(word: &str, w: &mut Words<'_>) -> Option<Kind> {
    Some(match word {
        "linear" => Kind::Linear(w.region()?),
        "striped" => {
            let n = w.u32()?;
            let chunk_bytes = w.sectors()?;
            Kind::Striped { chunk_bytes, stripes: w.times(n, Words::region)? }
        }
        "raid" => Kind::Raid(raid(w)?),
        "mirror" => {
            w.word()?;
            let log_arguments = w.u32()?;
            w.times(log_arguments, |w| w.word().map(drop))?;
            let n = w.u32()?;
            Kind::Mirror { legs: w.times(n, Words::region)? }
        }
        "crypt" => {
            let cipher = w.word()?.chars().take(64).collect();
            // The key, and the sector that its counter begins with.
            w.word()?;
            w.word()?;
            Kind::Crypt { cipher, below: w.region()? }
        }
        "writecache" => {
            let is_pmem = w.word()? == "p";
            Kind::Writecache { is_pmem, origin: w.device()?, cache: w.device()? }
        }
        "cache" => Kind::Cache {
            metadata: w.device()?,
            cache: w.device()?,
            origin: w.device()?,
            block_bytes: w.sectors()?,
        },
        "thin" => Kind::Thin { pool: w.device()?, id: w.u32()?, external_origin: w.device() },
        "thin-pool" => Kind::ThinPool { metadata: w.device()?, data: w.device()?, block_bytes: w.sectors()? },
        // The first region is that of reads.
        "delay" => Kind::Delay(w.region()?),
        "flakey" => Kind::Flakey(w.region()?),
        "error" => Kind::Error,
        "zero" => Kind::Zero,
        "multipath" => Kind::Multipath { paths: multipath(w)? },
        "integrity" => {
            let below = w.region()?;
            Kind::Integrity { below, apart: w.0.any(|a| a.starts_with("meta_device:")) }
        }
        "verity" => {
            w.word()?;
            Kind::Verity { data: w.device()? }
        }
        "snapshot-origin" => Kind::SnapshotOrigin { origin: w.device()? },
        "snapshot" => Kind::Snapshot { origin: w.device()?, store: w.device()? },
        _ => return None,
    })
}

/// `LEVEL #PARAMS CHUNK [FLAG [VALUE]]… #DEVS [META DATA]…` (dm-raid.c `raid_status`).
fn raid(w: &mut Words<'_>) -> Option<Raid> {
    let level = w.word()?.chars().take(32).collect();
    let n = w.u32()?;
    let mut parameters = Words::owned(w.times(n, Words::word)?);
    let mut out = Raid {
        level,
        chunk_bytes: parameters.next()?.parse::<u64>().ok()?.checked_mul(512)?,
        copies: 2,
        format: None,
        near_sets: false,
        write_mostly: Vec::new(),
        rebuild: Vec::new(),
        data_offset_bytes: 0,
        delta_disks: 0,
        members: Vec::new(),
    };
    while let Some(flag) = parameters.next() {
        match flag {
            "sync" | "nosync" => {}
            "raid10_use_near_sets" => out.near_sets = true,
            "rebuild" => out.rebuild.push(parameters.next()?.parse().ok()?),
            "write_mostly" => out.write_mostly.push(parameters.next()?.parse().ok()?),
            "raid10_copies" => out.copies = parameters.next()?.parse().ok()?,
            "raid10_format" => out.format = Some(parameters.next()?.chars().take(16).collect()),
            "data_offset" => {
                out.data_offset_bytes = parameters.next()?.parse::<u64>().ok()?.checked_mul(512)?
            }
            "delta_disks" => out.delta_disks = parameters.next()?.parse().ok()?,
            // Every other has one value, which moves no byte.
            _ => drop(parameters.next()?),
        }
    }
    let devices = w.u32()?;
    out.members = w.times(devices, |w| {
        w.word()?;
        let data = w.word()?;
        if data == "-" { Some(None) } else { number(data).map(Some) }
    })?;
    Some(out)
}

/// `#FEATURES f… #HANDLER h… #GROUPS NEXT (SELECTOR #ARGS a… #PATHS #PATHARGS (DEV a…)…)…`
fn multipath(w: &mut Words<'_>) -> Option<Vec<(u32, u32)>> {
    for _ in 0..2 {
        let n = w.u32()?;
        w.times(n, |w| w.word().map(drop))?;
    }
    let groups = w.u32()?;
    w.u32()?;
    let mut out = Vec::new();
    for _ in 0..groups {
        w.word()?;
        let n = w.u32()?;
        w.times(n, |w| w.word().map(drop))?;
        let (paths, arguments) = (w.u32()?, w.u32()?);
        for _ in 0..paths {
            out.push(w.device()?);
            w.times(arguments, |w| w.word().map(drop))?;
        }
    }
    Some(out)
}

struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn owned(list: Vec<&'a str>) -> std::vec::IntoIter<&'a str> {
        list.into_iter()
    }

    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn u32(&mut self) -> Option<u32> {
        self.word()?.parse().ok()
    }

    fn sectors(&mut self) -> Option<u64> {
        self.word()?.parse::<u64>().ok()?.checked_mul(512)
    }

    fn device(&mut self) -> Option<(u32, u32)> {
        number(self.word()?)
    }

    fn region(&mut self) -> Option<Region> {
        Some(Region { device: self.device()?, offset_bytes: self.sectors()? })
    }

    /// `n` things, `None` if the words end before: nothing is set aside for a number that the text only claims.
    fn times<T>(&mut self, n: u32, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut out = Vec::new();
        for _ in 0..n {
            out.push(one(self)?);
        }
        Some(out)
    }
}

/// `254:32`, as `format_dev_t` writes it.
fn number(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn shown(text: &str) -> String {
    let may_be_key =
        |w: &str| w.len() >= 32 && w.bytes().filter(u8::is_ascii_hexdigit).count() >= w.len() / 2;
    let words: Vec<&str> =
        text.split_ascii_whitespace().map(|w| if may_be_key(w) { "…" } else { w }).collect();
    let text = words.join(" ");
    text.chars().take(MAX_TEXT_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(major: u32, minor: u32, sectors: u64) -> Region {
        Region { device: (major, minor), offset_bytes: sectors * 512 }
    }

    #[test]
    fn tables_as_lvm_and_cryptsetup_make_them() {
        let stripes = vec![at(254, 32, 2048), at(254, 48, 2048), at(254, 64, 2048)];
        assert_eq!(
            parse("striped", "3 128 254:32 2048 254:48 2048 254:64 2048"),
            Kind::Striped { chunk_bytes: 65536, stripes }
        );
        assert_eq!(
            parse("crypt", "aes-xts-plain64 :64:logon:cryptsetup:x-d0 0 254:16 32768 1 allow_discards"),
            Kind::Crypt { cipher: "aes-xts-plain64".into(), below: at(254, 16, 32768) }
        );
        assert_eq!(
            parse("writecache", "s 252:0 252:1 4096 0"),
            Kind::Writecache { origin: (252, 0), cache: (252, 1), is_pmem: false }
        );
        assert_eq!(
            parse("cache", "252:1 252:2 252:3 128 2 metadata2 writethrough smq 0"),
            Kind::Cache { metadata: (252, 1), cache: (252, 2), origin: (252, 3), block_bytes: 65536 }
        );
        assert_eq!(parse("thin", "252:4 7"), Kind::Thin { pool: (252, 4), id: 7, external_origin: None });
        assert_eq!(
            parse("thin-pool", "252:1 252:2 128 0 1 skip_block_zeroing"),
            Kind::ThinPool { metadata: (252, 1), data: (252, 2), block_bytes: 65536 }
        );
        assert_eq!(
            parse("mirror", "core 2 1024 nosync 2 253:0 10 253:1 20 1 handle_errors"),
            Kind::Mirror { legs: vec![at(253, 0, 10), at(253, 1, 20)] }
        );
        assert_eq!(parse("delay", "8:1 0 8"), Kind::Delay(at(8, 1, 0)));
        assert_eq!(
            parse(
                "multipath",
                "1 queue_if_no_path 0 2 1 service-time 0 1 1 8:16 1 service-time 0 1 1 8:32 1"
            ),
            Kind::Multipath { paths: vec![(8, 16), (8, 32)] }
        );
        assert_eq!(
            parse("integrity", "8:1 0 4 J 2 meta_device:8:2 block_size:512"),
            Kind::Integrity { below: at(8, 1, 0), apart: true }
        );
        assert_eq!(parse("error", ""), Kind::Error);
    }

    #[test]
    fn a_raid_target_names_its_data_devices_by_slot() {
        let text = "raid10 6 512 nosync region_size 4096 raid10_copies 2 4 1:0 1:1 1:2 1:3 - - 1:6 1:7";
        let Kind::Raid(raid) = parse("raid", text) else { panic!("not raid") };
        assert_eq!((raid.level.as_str(), raid.chunk_bytes, raid.copies), ("raid10", 256 << 10, 2));
        assert_eq!(raid.members, [Some((1, 1)), Some((1, 3)), None, Some((1, 7))]);
        let text = "raid1 7 0 nosync write_mostly 1 rebuild 0 data_offset 2048 2 1:0 1:1 1:2 1:3";
        assert!(
            matches!(parse("raid", text), Kind::Unknown { .. }),
            "a count that does not fit is not guessed at"
        );
        let text = "raid1 8 0 nosync write_mostly 1 rebuild 0 data_offset 2048 2 1:0 1:1 1:2 1:3";
        let Kind::Raid(raid) = parse("raid", text) else { panic!("not raid") };
        assert_eq!((raid.write_mostly, raid.rebuild, raid.data_offset_bytes), (vec![1], vec![0], 1 << 20));
    }

    #[test]
    fn what_is_not_known_is_text_without_keys() {
        let key = "00112233445566778899aabbccddeeff";
        assert_eq!(
            parse("default-key", &format!("aes {key} 0 8:1 0")),
            Kind::Unknown { word: "default-key".into(), text: "aes … 0 8:1 0".into() }
        );
        assert!(matches!(parse("linear", "sda 0"), Kind::Unknown { .. }));
        assert!(
            matches!(parse("crypt", &format!("aes {key} 0")), Kind::Unknown { text, .. } if !text.contains(key))
        );
    }

    #[test]
    fn numbers_that_the_text_does_not_hold_reserve_nothing() {
        for (word, text) in [
            ("striped", "4294967295 128 1:1 0"),
            ("mirror", "core 4294967295 x"),
            ("raid", "raid5_ls 4294967295 128"),
            ("raid", "raid5_ls 1 128 4294967295 1:1 1:2"),
            ("multipath", "4294967295 0 4294967295"),
            ("linear", "1:2 18446744073709551615"),
        ] {
            assert!(matches!(parse(word, text), Kind::Unknown { .. }), "{word} {text}");
        }
        let long = "x".repeat(1 << 20);
        assert!(matches!(parse("new", &long), Kind::Unknown { text, .. } if text.len() <= MAX_TEXT_CHARS));
    }
}
