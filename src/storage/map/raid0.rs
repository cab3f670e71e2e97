//! raid0 over members of any size, and dm-striped, which is its simplest case. Formula: drivers/md/raid0.c
//! `create_strip_zones`, `map_sector`; bytes throughout.

/// By which count the members of a later zone take turns: `RAID0_ORIG_LAYOUT` (1) and `RAID0_ALT_MULTIZONE_LAYOUT` (2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turns {
    /// By chunks from the start of the array.
    OfArray,
    /// By chunks from the start of the zone.
    OfZone,
}

/// A place on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) slot: usize,
    pub(crate) offset: u64,
    /// Bytes until the next member's turn.
    pub(crate) run_bytes: u64,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zones {
    chunk_bytes: u64,
    turns: Turns,
    zones: Vec<Zone>,
}

/// A stretch that is striped over the same members.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Zone {
    start: u64,
    end: u64,
    /// Where it begins on each of them.
    member_start: u64,
    /// In order of turns.
    slots: Vec<usize>,
}

impl Zones {
    /// Over members of these sizes; `None` for a chunk of 0 or no members.
    pub(crate) fn new(chunk_bytes: u64, sizes: &[u64], turns: Turns) -> Option<Self> {
        if chunk_bytes == 0 || sizes.is_empty() {
            return None;
        }
        let sizes: Vec<u64> = sizes.iter().map(|s| s / chunk_bytes * chunk_bytes).collect();
        let (mut zones, mut start, mut member_start) = (Vec::new(), 0_u64, 0_u64);
        loop {
            let slots: Vec<usize> = (0..sizes.len()).filter(|i| sizes[*i] > member_start).collect();
            let Some(smallest) = slots.iter().map(|i| sizes[*i]).min() else { break };
            let end = start.checked_add((smallest - member_start).checked_mul(slots.len() as u64)?)?;
            zones.push(Zone { start, end, member_start, slots });
            (start, member_start) = (end, smallest);
        }
        (!zones.is_empty()).then_some(Self { chunk_bytes, turns, zones })
    }

    /// Whether the two ways of taking turns differ.
    pub(crate) fn has_several(&self) -> bool {
        self.zones.len() > 1
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.zones.last().map_or(0, |z| z.end)
    }

    pub(crate) fn place(&self, offset: u64) -> Option<At> {
        let zone = self.zones.get(self.zones.partition_point(|z| z.end <= offset))?;
        let (within, n) = (offset - zone.start, zone.slots.len() as u64);
        let (number, rest) = (within / self.chunk_bytes, within % self.chunk_bytes);
        let turn = match self.turns {
            Turns::OfArray => offset / self.chunk_bytes % n,
            Turns::OfZone => number % n,
        };
        Some(At {
            slot: *zone.slots.get(usize::try_from(turn).ok()?)?,
            offset: zone.member_start + number / n * self.chunk_bytes + rest,
            run_bytes: self.chunk_bytes - rest,
        })
    }

    /// The byte of the array at `offset` of a member.
    pub(crate) fn back(&self, slot: usize, offset: u64) -> Option<u64> {
        let after = self.zones.partition_point(|z| z.member_start <= offset);
        let zone = self.zones.get(after.checked_sub(1)?)?;
        let (within, n) = (offset - zone.member_start, zone.slots.len() as u64);
        let turn = zone.slots.iter().position(|s| *s == slot)? as u64;
        let (row, rest) = (within / self.chunk_bytes, within % self.chunk_bytes);
        let first = match self.turns {
            Turns::OfArray => zone.start / self.chunk_bytes % n,
            Turns::OfZone => 0,
        };
        let number = row.checked_mul(n)?.checked_add((turn + n - first) % n)?;
        let out = zone.start.checked_add(number.checked_mul(self.chunk_bytes)?)?.checked_add(rest)?;
        (out < zone.end).then_some(out)
    }
}
