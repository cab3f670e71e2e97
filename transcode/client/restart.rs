//! Recordings in one transport stream: a recorder that restarts begins its clock anew in mid-file.
//! Found by a few looks at clocks, and mended in the bytes as they are read, so that every reader sees one
//! clock and can search in it. Pure: bytes in, bytes out.

use spindle_media::info::ClockRestart;

/// Bytes that one look reads.
const LOOK: usize = 64 << 10;
/// Looks over a file. A recording shorter than the space between two of them may stay unseen.
const LOOKS: u64 = 16;
/// Restarts in one file; more is damage of another kind.
const MOST: usize = 8;
/// A clock that goes back by more than this has restarted: half a second, in ticks of 90 kHz. Streams
/// that are reordered go back by less.
const BACK: i64 = 45_000;
/// What a picture lasts, between the last of one recording and the first of the next.
const PICTURE: i64 = 3_600;
const WRAP: i64 = 1 << 33;

/// How packets lie in a file: their distance, 188 or 192 bytes, and where the first begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Bytes from one packet to the next.
    pub step: usize,
    /// Bytes before the first sync byte.
    pub first: usize,
}

impl Grid {
    /// By the head of a file; `None` where it is no transport stream.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        let fits = |step: usize, first: usize| (0..5).all(|n| head.get(first + n * step) == Some(&0x47));
        [188, 192]
            .into_iter()
            .find_map(|step| (0..step).find(|first| fits(step, *first)).map(|first| Self { step, first }))
    }

    /// The first sync byte at or after `at`.
    #[must_use]
    pub fn next(self, at: u64) -> u64 {
        let (step, first) = (self.step as u64, self.first as u64);
        if at <= first { first } else { first + (at - first).div_ceil(step) * step }
    }
}

/// Times of one packet, in ticks of 90 kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Times {
    pid: u16,
    clock: Option<i64>,
    shown: Option<i64>,
}

/// Where the fields of times stand in a packet of 188 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    clock: Option<usize>,
    /// Presentation time, and decode time behind it.
    times: [Option<usize>; 2],
}

fn places(packet: &[u8]) -> Option<Places> {
    if packet.first() != Some(&0x47) {
        return None;
    }
    let mut out = Places::default();
    let control = *packet.get(3)?;
    let mut at = 4;
    if control & 0x20 != 0 {
        let len = usize::from(*packet.get(4)?);
        if len >= 7 && packet.get(5)? & 0x10 != 0 {
            out.clock = Some(6);
        }
        at = 5 + len;
    }
    let begins = packet.get(1)? & 0x40 != 0 && control & 0x10 != 0;
    if begins && packet.get(at..at + 3) == Some(&[0, 0, 1]) {
        let id = *packet.get(at + 3)?;
        // Those without a head of this form (table 2-21).
        let headless = matches!(id, 0xbc | 0xbe | 0xbf | 0xf0 | 0xf1 | 0xf2 | 0xf8 | 0xff);
        let flags = packet.get(at + 7).copied().unwrap_or(0);
        if !headless && flags & 0x80 != 0 && packet.get(at + 13).is_some() {
            out.times[0] = Some(at + 9);
            if flags & 0x40 != 0 && packet.get(at + 18).is_some() {
                out.times[1] = Some(at + 14);
            }
        }
    }
    Some(out)
}

fn clock_at(packet: &[u8], at: usize) -> i64 {
    let b = |n: usize| i64::from(packet[at + n]);
    b(0) << 25 | b(1) << 17 | b(2) << 9 | b(3) << 1 | b(4) >> 7
}

fn time_at(packet: &[u8], at: usize) -> i64 {
    let b = |n: usize| i64::from(packet[at + n]);
    (b(0) >> 1 & 7) << 30 | b(1) << 22 | (b(2) >> 1) << 15 | b(3) << 7 | b(4) >> 1
}

fn times(packet: &[u8]) -> Option<Times> {
    let places = places(packet)?;
    Some(Times {
        pid: u16::from_be_bytes([packet[1] & 0x1f, packet[2]]),
        clock: places.clock.map(|at| clock_at(packet, at)),
        shown: places.times[0].map(|at| time_at(packet, at)),
    })
}

/// How far `to` is after `from`, on a clock of 33 bits.
fn after(from: i64, to: i64) -> i64 {
    (to - from + WRAP / 2).rem_euclid(WRAP) - WRAP / 2
}

/// Packets of some bytes, which begin at a sync byte, with their offsets.
fn packets(data: &[u8], grid: Grid) -> impl Iterator<Item = (usize, &[u8])> {
    (0..data.len()).step_by(grid.step).filter_map(move |at| data.get(at..at + 188).map(|p| (at, p)))
}

/// A clock that was found.
#[derive(Debug, Clone, Copy)]
struct Found {
    at: u64,
    clock: i64,
}

struct Looker<R> {
    grid: Grid,
    pid: u16,
    read: R,
}

impl<R: FnMut(u64, usize) -> Option<Vec<u8>>> Looker<R> {
    /// The first clock at or after `from`, before `to`.
    fn clock(&mut self, from: u64, to: u64) -> Option<Found> {
        let begin = self.grid.next(from);
        let data = (self.read)(begin, LOOK)?;
        packets(&data, self.grid).find_map(|(at, p)| {
            let at = begin + at as u64;
            let t = times(p)?;
            (at < to && t.pid == self.pid).then_some(Found { at, clock: t.clock? })
        })
    }

    /// The packet with which the next recording begins, between a clock of the one before and one of it.
    fn border(&mut self, mut low: Found, mut high: Found) -> Option<u64> {
        while high.at - low.at > LOOK as u64 / 2 {
            let middle = low.at + (high.at - low.at) / 2;
            let Some(found) = self.clock(middle, high.at) else {
                // No clock in the upper half: what is left is searched packet by packet.
                break;
            };
            if after(low.clock, found.clock) < -BACK { high = found } else { low = found }
        }
        let span = usize::try_from(high.at - low.at).ok()?.min(4 << 20);
        let data = (self.read)(low.at, span + 188)?;
        packets(&data, self.grid)
            .find(|(_, p)| {
                let Some(t) = times(p) else { return false };
                let back = |time: Option<i64>| time.is_some_and(|t| after(low.clock, t) < -BACK);
                back(t.clock) || back(t.shown)
            })
            .map(|(at, _)| low.at + at as u64)
    }

    /// What has to be added to every time from `border` on, as seen by the recording before, which
    /// begins at `floor`.
    fn shift(&mut self, floor: u64, border: u64, clock: i64) -> Option<i64> {
        const BEFORE: u64 = 1 << 20;
        let from = self.grid.next(border.saturating_sub(BEFORE).max(floor));
        let before = (self.read)(from, usize::try_from(border - from).ok()?)?;
        let shown = |data: &[u8], near: i64| -> Vec<i64> {
            let all = packets(data, self.grid).filter_map(|(_, p)| times(p)?.shown);
            all.map(|t| after(near, t)).collect()
        };
        let end = shown(&before, clock).into_iter().max()?;
        let behind = (self.read)(border, LOOK)?;
        let first = packets(&behind, self.grid).find_map(|(_, p)| times(p)?.shown)?;
        let start = shown(&behind, first).into_iter().min()?;
        Some(clock + end + PICTURE - (first + start))
    }
}

/// The restarts of a transport stream of `size` bytes; `read` gives up to so many bytes at a place.
pub fn find(size: u64, mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Vec<ClockRestart> {
    let Some(head) = read(0, LOOK) else { return Vec::new() };
    let Some(grid) = Grid::of(&head) else { return Vec::new() };
    let first = packets(head.get(grid.first..).unwrap_or(&[]), grid)
        .find_map(|(at, p)| times(p).and_then(|t| Some((at, t.pid, t.clock?))));
    let Some((at, pid, clock)) = first else { return Vec::new() };
    let mut looker = Looker { grid, pid, read };
    let mut last = Found { at: (grid.first + at) as u64, clock };
    let mut out: Vec<ClockRestart> = Vec::new();
    for look in 1..=LOOKS {
        // The last look is near the end, where a clock still follows.
        let place = (size / LOOKS * look).min(size.saturating_sub(LOOK as u64));
        if place <= last.at {
            continue;
        }
        let Some(found) = looker.clock(place, size) else { continue };
        if after(last.clock, found.clock) < -BACK {
            let restart = looker.border(last, found).and_then(|border| {
                let floor = out.last().map_or(0, |r| r.at_byte);
                let shift = looker.shift(floor, border, last.clock)?;
                Some(ClockRestart { at_byte: border, shift_ticks: shift })
            });
            // What cannot be placed is left as it is.
            let Some(restart) = restart else { return out };
            let sum = out.last().map_or(0, |r: &ClockRestart| r.shift_ticks);
            out.push(ClockRestart { shift_ticks: restart.shift_ticks + sum, ..restart });
            if out.len() == MOST {
                return out;
            }
        }
        last = found;
    }
    out
}

/// Mends the times in `data`, which lies at `at` in the file: every whole packet in it.
pub fn mend(data: &mut [u8], at: u64, grid: Grid, restarts: &[ClockRestart]) {
    let begin = grid.next(at);
    let Ok(mut offset) = usize::try_from(begin - at) else { return };
    while let Some(packet) = data.get_mut(offset..offset + 188) {
        let place = at + offset as u64;
        let shift = restarts.iter().rev().find(|r| r.at_byte <= place).map_or(0, |r| r.shift_ticks);
        if shift != 0
            && let Some(places) = places(packet)
        {
            if let Some(at) = places.clock {
                let clock = (clock_at(packet, at) + shift).rem_euclid(WRAP);
                // 33 bits, of which the last shares its byte.
                for n in 0..4 {
                    packet[at + n] = (clock >> (25 - 8 * n)) as u8;
                }
                packet[at + 4] = packet[at + 4] & 0x7f | ((clock & 1) << 7) as u8;
            }
            for at in places.times.into_iter().flatten() {
                let t = (time_at(packet, at) + shift).rem_euclid(WRAP);
                packet[at] = packet[at] & 0xf1 | ((t >> 30 & 7) << 1) as u8;
                packet[at + 1] = (t >> 22) as u8;
                packet[at + 2] = packet[at + 2] & 1 | ((t >> 15 & 0x7f) << 1) as u8;
                packet[at + 3] = (t >> 7) as u8;
                packet[at + 4] = packet[at + 4] & 1 | ((t & 0x7f) << 1) as u8;
            }
        }
        offset += grid.step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with a clock and a time, on the picture's identifier.
    fn packet(clock: i64, shown: i64) -> Vec<u8> {
        let mut p = vec![0x47, 0x41, 0, 0x30, 7, 0x10];
        let c = clock.rem_euclid(WRAP);
        p.extend_from_slice(&((c as u64) << 15 | 0x3f << 9).to_be_bytes()[2..]);
        p.extend_from_slice(&[0, 0, 1, 0xe0, 0, 0, 0x84, 0x80, 5]);
        let t = shown.rem_euclid(WRAP);
        p.extend_from_slice(&[
            0x21 | ((t >> 30 & 7) << 1) as u8,
            (t >> 22) as u8,
            ((t >> 15 & 0x7f) << 1) as u8 | 1,
            (t >> 7) as u8,
            ((t & 0x7f) << 1) as u8 | 1,
        ]);
        p.resize(188, 0xaa);
        p
    }

    /// Recordings of so many packets, each packet 40 ms after the one before, from these clocks.
    fn file(parts: &[(usize, i64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (count, start) in parts {
            for n in 0..*count as i64 {
                out.extend(packet(start + n * 3_600, start + n * 3_600 + 7_200));
            }
        }
        out
    }

    fn found(bytes: &[u8]) -> Vec<ClockRestart> {
        find(bytes.len() as u64, |at, len| {
            let at = usize::try_from(at).ok()?;
            Some(bytes.get(at..)?.iter().take(len).copied().collect())
        })
    }

    fn shown(bytes: &[u8]) -> Vec<i64> {
        let grid = Grid { step: 188, first: 0 };
        packets(bytes, grid).filter_map(|(_, p)| times(p)?.shown).collect()
    }

    #[test]
    fn a_clock_that_restarts_is_found_at_its_packet_and_goes_on() {
        for parts in [
            &[(5_000, 900_000), (5_000, 0)][..],
            &[(300, 9_000_000), (9_000, 100)],
            &[(4_000, 900_000), (3_000, 0), (4_000, 500)],
            // The first wraps before the second begins.
            &[(6_000, WRAP - 900_000), (6_000, WRAP - 300_000_000)],
        ] {
            let mut bytes = file(parts);
            let restarts = found(&bytes);
            let mut at = 0;
            let borders: Vec<u64> = parts[..parts.len() - 1]
                .iter()
                .map(|(count, _)| {
                    at += *count as u64 * 188;
                    at
                })
                .collect();
            assert_eq!(restarts.iter().map(|r| r.at_byte).collect::<Vec<_>>(), borders, "{parts:?}");
            mend(&mut bytes, 0, Grid { step: 188, first: 0 }, &restarts);
            let times = shown(&bytes);
            assert!(times.windows(2).all(|w| after(w[0], w[1]) == 3_600), "{parts:?}");
        }
    }

    #[test]
    fn one_recording_is_left_alone_whatever_its_clock() {
        for start in [0, 4_500_000_000, WRAP - 900_000] {
            assert_eq!(found(&file(&[(9_000, start)])), [], "{start}");
        }
        assert_eq!(found(b"no transport stream at all"), []);
        assert_eq!(found(&[0x47; 4_000]), []);
    }

    #[test]
    fn pieces_are_mended_as_the_whole_is() {
        let bytes = file(&[(3_000, 900_000), (3_000, 0)]);
        let restarts = found(&bytes);
        let grid = Grid { step: 188, first: 0 };
        let mut whole = bytes.clone();
        mend(&mut whole, 0, grid, &restarts);
        for (from, len) in [(0, 188), (188 * 2_999, 188 * 2), (188 * 4_000, 188 * 100)] {
            let mut piece = bytes[from..from + len].to_vec();
            mend(&mut piece, from as u64, grid, &restarts);
            assert_eq!(piece, whole[from..from + len]);
        }
    }
}
