//! Which copy a read goes to: as each implementation chooses, with what it remembers of each disk.

use crate::layout::Copies;

/// How the copy is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The first, always.
    First,
    /// One after the other, request by request of a reader.
    Rotate,
    /// The one on the disk with fewest requests, the first of equals. For Storage Spaces: how Windows chooses is not
    /// documented; its vendors write "either copy, the other one if busy", and one reader was seen on one copy alone.
    Idle,
    /// btrfs, `find_live_mirror` with the policy `pid`: the reading thread's number, modulo the copies.
    Pid,
    /// md raid1, `choose_best_rdev`.
    MdRaid1,
    /// md raid10, `read_balance`.
    MdRaid10 {
        /// More than one near copy.
        is_near: bool,
        /// More than one far set.
        is_far: bool,
    },
    /// ZFS, `vdev_mirror_child_select`.
    ZfsMirror,
}

impl Policy {
    /// In words, for people.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::First => "the one place, or the first copy",
            Self::Rotate => "the copies in turn",
            Self::Idle => "the copy whose disk has less to do, else the first",
            Self::Pid => "by the reading thread's number (btrfs)",
            Self::MdRaid1 => "where the last read ended, else an idle disk, else the nearest head (md)",
            Self::MdRaid10 { is_near: true, .. } => "an idle disk, else the nearest head (md)",
            Self::MdRaid10 { is_far: true, .. } => "the copy nearest to the disks' outer edge (md)",
            Self::MdRaid10 { .. } => "the nearest head (md)",
            Self::ZfsMirror => "fewest requests, weighed by distance from the last one (ZFS)",
        }
    }
}

/// What is remembered of a disk.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    /// Pieces on their way to it.
    pending: u32,
    /// md: where the last one that is over ended (`head_position`).
    head: u64,
    /// md raid1: where the last one that was sent ends (`next_seq_sect`). ZFS: the same (`vq_last_offset`).
    next: u64,
}

/// The state of a chooser.
#[derive(Debug, Clone)]
pub struct Chooser {
    policy: Policy,
    is_rotating: bool,
    disks: Vec<Memory>,
}

/// Who reads, for the policies that go by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reader {
    /// The reading thread's number.
    pub thread: u64,
    /// Requests that it has made.
    pub request: u64,
}

impl Chooser {
    /// For so many disks.
    #[must_use]
    pub fn new(policy: Policy, disks: usize, is_rotating: bool) -> Self {
        Self { policy, is_rotating, disks: vec![Memory::default(); disks] }
    }

    /// Chooses a copy for a piece, and counts it as on its way.
    pub fn send(&mut self, copies: &Copies, len_bytes: u64, reader: Reader) -> usize {
        let chosen = if copies.len() < 2 { 0 } else { self.choose(copies, reader) };
        if let Some(place) = copies.get(chosen)
            && let Some(memory) = self.disks.get_mut(place.disk)
        {
            memory.pending += 1;
            memory.next = place.offset + len_bytes;
        }
        chosen
    }

    /// A piece that was sent is over; it ended at byte `end` of its disk.
    pub fn done(&mut self, disk: usize, end: u64) {
        if let Some(memory) = self.disks.get_mut(disk) {
            memory.pending = memory.pending.saturating_sub(1);
            memory.head = end;
        }
    }

    fn choose(&self, copies: &Copies, reader: Reader) -> usize {
        let of = |copy: usize| self.disks.get(copies[copy].disk).copied().unwrap_or_default();
        let all = 0..copies.len();
        let modulo = |n: u64| usize::try_from(n % copies.len() as u64).unwrap_or(0);
        match self.policy {
            Policy::First => 0,
            Policy::Rotate => modulo(reader.request),
            Policy::Pid => modulo(reader.thread),
            // The first of equals: `min_by_key` keeps it.
            Policy::Idle => all.min_by_key(|c| of(*c).pending).unwrap_or(0),
            Policy::MdRaid1 => {
                let at = |copy: usize| copies[copy].offset;
                let is_sequential = |copy: &usize| of(*copy).next == at(*copy) || of(*copy).head == at(*copy);
                // `should_choose_next` changes disks in a sequence only on solid state with an optimal size of its own: nowhere here.
                if let Some(copy) = all.clone().find(is_sequential) {
                    return copy;
                }
                let least = all.clone().min_by_key(|c| of(*c).pending).unwrap_or(0);
                if !self.is_rotating || of(least).pending == 0 {
                    return least;
                }
                all.min_by_key(|c| of(*c).head.abs_diff(at(*c))).unwrap_or(0)
            }
            Policy::MdRaid10 { is_near, is_far } => {
                if !self.is_rotating {
                    return all.min_by_key(|c| of(*c).pending).unwrap_or(0);
                }
                let distance = |copy: &usize| match of(*copy) {
                    Memory { pending: 0, .. } if is_near => 0,
                    // Far copies: the lowest address, which is the faster edge and goes on from disk to disk.
                    _ if is_far => copies[*copy].offset,
                    memory => memory.head.abs_diff(copies[*copy].offset),
                };
                all.min_by_key(distance).unwrap_or(0)
            }
            Policy::ZfsMirror => self.zfs(copies),
        }
    }

    /// `vdev_mirror_load`: the queue's length, more by what the head has to move; of equals by 2 MiB of the offset
    /// (`vdev_mirror_shift`).
    fn zfs(&self, copies: &Copies) -> usize {
        /// `zfs_vdev_mirror_rotating_seek_offset`.
        const NEAR: u64 = 1 << 20;
        let load = |place: &crate::layout::Place| {
            let memory = self.disks.get(place.disk).copied().unwrap_or_default();
            let away = memory.next.abs_diff(place.offset);
            let seek = match (self.is_rotating, away) {
                (_, 0) => 0,
                (false, _) => 1,
                (true, away) if away < NEAR => 2,
                (true, _) => 5,
            };
            memory.pending + seek
        };
        let least = copies.iter().map(load).min().unwrap_or(0);
        let equal: Vec<usize> = (0..copies.len()).filter(|c| load(&copies[*c]) == least).collect();
        let pick = copies.first().map_or(0, |p| p.offset >> 21) % equal.len().max(1) as u64;
        equal.get(usize::try_from(pick).unwrap_or(0)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Place;

    fn mirror(offset: u64) -> Copies {
        Copies::of(2, |disk| Place { disk, offset })
    }

    fn at(thread: u64) -> Reader {
        Reader { thread, request: 0 }
    }

    #[test]
    fn md_raid1_stays_with_a_sequence_and_gives_others_the_idle_disk_and_then_the_nearest_head() {
        let mut c = Chooser::new(Policy::MdRaid1, 2, true);
        // Both idle: the first. It goes on there while it is busy.
        assert_eq!(c.send(&mirror(1000), 100, at(0)), 0);
        assert_eq!(c.send(&mirror(1100), 100, at(0)), 0);
        // Another place: the idle disk.
        assert_eq!(c.send(&mirror(9000), 100, at(1)), 1);
        // Both busy: the nearer head (of what is over).
        c.done(0, 1100);
        c.done(1, 9100);
        assert_eq!(c.send(&mirror(9500), 100, at(2)), 1);
        assert_eq!(c.send(&mirror(1500), 100, at(2)), 0);
    }

    #[test]
    fn md_raid1_of_solid_disks_goes_by_what_is_on_its_way() {
        let mut c = Chooser::new(Policy::MdRaid1, 2, false);
        let chosen: Vec<usize> = (1..5_u64).map(|i| c.send(&mirror(i * 5000), 100, at(0))).collect();
        assert_eq!(chosen, [0, 1, 0, 1]);
    }

    #[test]
    fn md_raid10_near_takes_an_idle_disk_and_far_the_lowest_address() {
        let mut near = Chooser::new(Policy::MdRaid10 { is_near: true, is_far: false }, 2, true);
        let chosen: Vec<usize> = (0..3).map(|_| near.send(&mirror(4000), 100, at(0))).collect();
        assert_eq!(chosen, [0, 1, 0]);
        let mut far = Chooser::new(Policy::MdRaid10 { is_near: false, is_far: true }, 2, true);
        let copies = Copies::of(2, |disk| Place { disk, offset: if disk == 0 { 9000 } else { 10 } });
        assert_eq!((far.send(&copies, 10, at(0)), far.send(&copies, 10, at(0))), (1, 1));
    }

    #[test]
    fn btrfs_goes_by_the_thread_and_nothing_else() {
        let mut c = Chooser::new(Policy::Pid, 2, true);
        let chosen: Vec<usize> = [0, 2, 4, 1, 3].iter().map(|t| c.send(&mirror(7), 1, at(*t))).collect();
        assert_eq!(chosen, [0, 0, 0, 1, 1]);
    }

    #[test]
    fn zfs_weighs_the_queue_against_the_distance() {
        let mut c = Chooser::new(Policy::ZfsMirror, 2, true);
        // Equal loads: by the offset, 2 MiB each.
        assert_eq!(c.send(&mirror(5 << 21), 1 << 20, at(0)), 1);
        // It goes on where it ended although one is on its way there: 1 + 0 against 0 + 5.
        assert_eq!(c.send(&mirror((5 << 21) + (1 << 20)), 1 << 20, at(0)), 1);
        // Somewhere else: 2 + 5 against 0 + 5.
        assert_eq!(c.send(&mirror(900 << 21), 1 << 20, at(0)), 0);
    }

    #[test]
    fn spaces_read_the_first_copy_while_it_is_idle() {
        let mut c = Chooser::new(Policy::Idle, 2, true);
        assert_eq!(c.send(&mirror(0), 1, at(0)), 0);
        assert_eq!(c.send(&mirror(0), 1, at(0)), 1);
        c.done(0, 1);
        assert_eq!(c.send(&mirror(0), 1, at(0)), 0);
    }
}
