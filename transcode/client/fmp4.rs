//! Fragments of ISO base media (ISO/IEC 14496-12, section 8.8), written; the track list of an
//! init segment, read. Pure: values in, bytes out.
//!
//! A segment is one `moof` and one `mdat`. Nothing in it depends on the run that wrote it: the
//! sequence number is the segment's number, times are times of the presentation.

/// One sample of a fragment, in decode order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Length in bytes.
    pub len_bytes: u32,
    /// Duration in ticks of the track.
    pub duration: u32,
    /// Presentation time less decode time, in ticks; may be negative (`trun` version 1).
    pub composition_offset: i32,
    /// Whether it needs no other sample.
    pub sync: bool,
}

/// The samples of one track in a fragment.
#[derive(Debug, Clone, Copy)]
pub struct TrackRun<'a> {
    /// `track_ID` of the init segment.
    pub track_id: u32,
    /// Decode time of the first sample, in ticks.
    pub decode_time: u64,
    /// In decode order; their bytes follow each other in the `mdat`.
    pub samples: &'a [Sample],
}

impl TrackRun<'_> {
    fn data_bytes(&self) -> u64 {
        self.samples.iter().map(|s| u64::from(s.len_bytes)).sum()
    }
}

/// `sample_depends_on = 2`: needs no other (section 8.8.3.1).
const SYNC: u32 = 0x0200_0000;
/// `sample_depends_on = 1`, `sample_is_non_sync_sample = 1`.
const NON_SYNC: u32 = 0x0101_0000;

/// The `moof` and the head of the `mdat` of one segment. The bytes of the samples follow: all of
/// the first run, then all of the second.
#[must_use]
pub fn fragment_head(sequence: u32, runs: &[TrackRun<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + runs.iter().map(|r| r.samples.len() * 16).sum::<usize>());
    let mut offsets = Vec::with_capacity(runs.len());
    boxed(&mut out, *b"moof", |out| {
        boxed(out, *b"mfhd", |out| {
            u32s(out, &[0, sequence]);
        });
        for run in runs {
            boxed(out, *b"traf", |out| offsets.push(traf(out, run)));
        }
    });
    let payload: u64 = runs.iter().map(TrackRun::data_bytes).sum();
    let moof = out.len() as u64;
    let head = match u32::try_from(payload + 8) {
        Ok(size) => {
            u32s(&mut out, &[size]);
            out.extend_from_slice(b"mdat");
            8
        }
        // `size == 1`: a 64-bit size follows the type (section 4.2).
        Err(_) => {
            u32s(&mut out, &[1]);
            out.extend_from_slice(b"mdat");
            out.extend_from_slice(&(payload + 16).to_be_bytes());
            16
        }
    };
    let mut at = moof + head;
    for (place, run) in offsets.into_iter().zip(runs) {
        // `data_offset` counts from the first byte of the moof (default-base-is-moof).
        let offset = u32::try_from(at).unwrap_or(u32::MAX);
        out[place..place + 4].copy_from_slice(&offset.to_be_bytes());
        at += run.data_bytes();
    }
    out
}

/// Writes the content of a `traf`; returns where its `data_offset` stands.
fn traf(out: &mut Vec<u8>, run: &TrackRun<'_>) -> usize {
    boxed(out, *b"tfhd", |out| {
        // default-base-is-moof (0x020000).
        u32s(out, &[0x0002_0000, run.track_id]);
    });
    boxed(out, *b"tfdt", |out| {
        u32s(out, &[0x0100_0000]);
        out.extend_from_slice(&run.decode_time.to_be_bytes());
    });
    let plain = run.samples.iter().all(|s| s.sync && s.composition_offset == 0);
    let mut place = 0;
    boxed(out, *b"trun", |out| {
        // data-offset, duration, size, flags; composition offsets where there are any.
        let flags = 0x0100_0001 | 0x100 | 0x200 | 0x400 | if plain { 0 } else { 0x800 };
        let count = u32::try_from(run.samples.len()).unwrap_or(u32::MAX);
        u32s(out, &[flags, count]);
        place = out.len();
        u32s(out, &[0]);
        for sample in run.samples {
            let flags = if sample.sync { SYNC } else { NON_SYNC };
            u32s(out, &[sample.duration, sample.len_bytes, flags]);
            if !plain {
                out.extend_from_slice(&sample.composition_offset.to_be_bytes());
            }
        }
    });
    place
}

fn boxed(out: &mut Vec<u8>, name: [u8; 4], content: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    u32s(out, &[0]);
    out.extend_from_slice(&name);
    content(out);
    let size = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

fn u32s(out: &mut Vec<u8>, values: &[u32]) {
    for value in values {
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Decode times made from presentation times: the k-th sample in decode order gets the k-th
/// smallest presentation time of its segment.
///
/// So decode times rise strictly, the first is the presentation time of the first picture, and
/// they do not depend on what a demuxer guessed. `next` is the smallest presentation time after
/// the segment, which ends the last duration; without one `last_duration` is taken.
///
/// `media_time` is what the track's edit list takes off again ([`with_edit`]).
///
/// Presentation times that are doubled (broken files) are pushed one tick apart.
#[must_use]
pub fn decode_times(
    presentation: &[i64],
    next: Option<i64>,
    last_duration: i64,
    media_time: i64,
) -> Vec<Timed> {
    let mut sorted = presentation.to_vec();
    sorted.sort_unstable();
    for i in 1..sorted.len() {
        if sorted[i] <= sorted[i - 1] {
            sorted[i] = sorted[i - 1] + 1;
        }
    }
    let end = match (next, sorted.last()) {
        (Some(next), Some(last)) if next > *last => next,
        (_, Some(last)) => last + last_duration.max(1),
        (_, None) => return Vec::new(),
    };
    // Where pictures last longer than the bound foresaw, they are decoded earlier: no offset may be
    // negative. The first keeps its time, so that segments still meet.
    let mut decode = sorted;
    let mut latest = i64::MAX;
    for i in (1..decode.len()).rev() {
        latest = latest.saturating_sub(1).min(presentation[i] + media_time);
        decode[i] = decode[i].min(latest);
    }
    for i in 1..decode.len() {
        decode[i] = decode[i].max(decode[i - 1] + 1);
    }
    (0..decode.len())
        .map(|i| {
            let until = decode.get(i + 1).copied().unwrap_or(end);
            Timed {
                decode_time: decode[i],
                duration: u32::try_from(until - decode[i]).unwrap_or(u32::MAX),
                composition_offset: i32::try_from(presentation[i] + media_time - decode[i]).unwrap_or(0),
            }
        })
        .collect()
}

/// When a sample is decoded and shown, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// Decode time.
    pub decode_time: i64,
    /// Time until the next sample is decoded.
    pub duration: u32,
    /// Presentation time less decode time.
    pub composition_offset: i32,
}

/// A track of an init segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// `track_ID` (section 8.3.2).
    pub id: u32,
    /// Ticks a second (`mdhd`, section 8.4.2).
    pub timescale: u32,
}

/// Puts an edit list (section 8.6.6) into a track of an init segment, which begins the
/// presentation at `media_time`, in ticks of the track.
///
/// With it composition offsets need not be negative: decode times are presentation times, and
/// every picture is composed `media_time` later than it is shown. Readers of FFmpeg's kind would
/// take a negative offset for a shift of the whole track. `None` if there is no such track.
#[must_use]
pub fn with_edit(init: &[u8], track_id: u32, media_time: u32) -> Option<Vec<u8>> {
    let mut edit = Vec::new();
    boxed(&mut edit, *b"edts", |out| {
        boxed(out, *b"elst", |out| {
            // One entry; duration 0: all that follows in fragments. Rate 1.0.
            u32s(out, &[0, 1, 0, media_time, 0x0001_0000]);
        });
    });
    let grow = |out: &mut Vec<u8>, at: usize| {
        let size = be32(out, at)?.checked_add(u32::try_from(edit.len()).ok()?)?;
        out.get_mut(at..at + 4)?.copy_from_slice(&size.to_be_bytes());
        Some(())
    };
    let moov_at = position(init, 0, init.len(), *b"moov", 0)?;
    let moov_end = moov_at + be32(init, moov_at)? as usize;
    for nth in 0.. {
        let trak_at = position(init, moov_at + 8, moov_end, *b"trak", nth)?;
        let trak_end = trak_at + be32(init, trak_at)? as usize;
        let tkhd_at = position(init, trak_at + 8, trak_end, *b"tkhd", 0)?;
        let tkhd_end = tkhd_at + be32(init, tkhd_at)? as usize;
        let body = init.get(tkhd_at + 8..tkhd_end)?;
        if be32(body, if body.first() == Some(&1) { 20 } else { 12 })? == track_id {
            let mut out = init.to_vec();
            grow(&mut out, moov_at)?;
            grow(&mut out, trak_at)?;
            out.splice(tkhd_end..tkhd_end, edit);
            return Some(out);
        }
    }
    None
}

/// Offset of the `nth` box of this name among those in `from..to`.
fn position(bytes: &[u8], from: usize, to: usize, name: [u8; 4], nth: usize) -> Option<usize> {
    let mut at = from;
    let mut seen = 0;
    while at < to {
        let size = be32(bytes, at)? as usize;
        if bytes.get(at + 4..at + 8)? == name {
            if seen == nth {
                return (at.checked_add(size)? <= to && size >= 8).then_some(at);
            }
            seen += 1;
        }
        at = at.checked_add(size.max(8))?;
    }
    None
}

/// Reads the tracks of an init segment, in order. `None` if it holds no whole `moov`.
#[must_use]
pub fn tracks(init: &[u8]) -> Option<Vec<Track>> {
    let moov = child(init, *b"moov")?;
    let mut out = Vec::new();
    for (name, body) in Boxes(moov) {
        if name == *b"trak" {
            let tkhd = child(body, *b"tkhd")?;
            let mdhd = child(child(body, *b"mdia")?, *b"mdhd")?;
            // Both begin with version and flags, then two times of 4 or 8 bytes.
            let after_times = |b: &[u8]| if b.first() == Some(&1) { 20 } else { 12 };
            out.push(Track { id: be32(tkhd, after_times(tkhd))?, timescale: be32(mdhd, after_times(mdhd))? });
        }
    }
    (!out.is_empty()).then_some(out)
}

/// A track of an init segment with the head of its first sample entry.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Number and clock.
    pub track: Track,
    /// What its edit list takes off composition times, in ticks of the track.
    pub media_time: i64,
    /// Four characters of the sample entry.
    pub kind: [u8; 4],
    boxes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The body of a configuration box in the sample entry.
    #[must_use]
    pub fn config(&self, name: [u8; 4]) -> Option<&'a [u8]> {
        child(self.boxes, name)
    }
}

/// Bytes of a visual (section 12.1.3) and an audio sample entry (section 12.2.3) before their boxes.
const VISUAL_ENTRY: usize = 78;
const AUDIO_ENTRY: usize = 28;

/// Reads what an init segment says of its tracks, in order. `None` if it is not whole.
#[must_use]
pub fn entries(init: &[u8]) -> Option<Vec<Entry<'_>>> {
    let moov = child(init, *b"moov")?;
    let traks = Boxes(moov).filter(|(name, _)| name == b"trak").map(|(_, body)| body);
    tracks(init)?
        .into_iter()
        .zip(traks)
        .map(|(track, trak)| {
            let mdia = child(trak, *b"mdia")?;
            let handler = child(mdia, *b"hdlr")?.get(8..12)?;
            let stsd = child(child(child(mdia, *b"minf")?, *b"stbl")?, *b"stsd")?;
            let (kind, body) = Boxes(stsd.get(8..)?).next()?;
            let fixed = if handler == b"vide" { VISUAL_ENTRY } else { AUDIO_ENTRY };
            let elst = child(trak, *b"edts").and_then(|e| child(e, *b"elst"));
            let media_time = match elst {
                Some(e) if e.first() == Some(&1) => i64::from_be_bytes(*e.get(16..)?.first_chunk()?),
                Some(e) => i64::from(i32::from_be_bytes(*e.get(12..)?.first_chunk()?)),
                None => 0,
            };
            Some(Entry { track, media_time: media_time.max(0), kind, boxes: body.get(fixed..)? })
        })
        .collect()
}

/// A run of a fragment with its bytes.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// `track_ID` of the init segment.
    pub track_id: u32,
    /// Decode time of the first sample, in ticks.
    pub decode_time: u64,
    /// In decode order.
    pub samples: Vec<Sample>,
    /// The bytes of the samples, and what follows them.
    pub data: &'a [u8],
}

/// Reads the runs of a fragment that [`fragment_head`] began. `None` if it is not one.
#[must_use]
pub fn runs(fragment: &[u8]) -> Option<Vec<Run<'_>>> {
    let moof = child(fragment, *b"moof")?;
    let mut out = Vec::new();
    for (_, traf) in Boxes(moof).filter(|(name, _)| name == b"traf") {
        let track_id = be32(child(traf, *b"tfhd")?, 4)?;
        let tfdt = child(traf, *b"tfdt")?;
        let decode_time = u64::from_be_bytes(*tfdt.get(4..)?.first_chunk()?);
        let trun = child(traf, *b"trun")?;
        let (flags, count) = (be32(trun, 0)?, be32(trun, 4)? as usize);
        let data = fragment.get(be32(trun, 8)? as usize..)?;
        let width = if flags & 0x800 == 0 { 12 } else { 16 };
        let table = trun.get(12..)?;
        // The table is there: a count that it does not hold is damage.
        if table.len() / width < count {
            return None;
        }
        let samples = table.chunks_exact(width).take(count).map(|row| {
            Some(Sample {
                duration: be32(row, 0)?,
                len_bytes: be32(row, 4)?,
                sync: be32(row, 8)? == SYNC,
                composition_offset: row
                    .get(12..16)
                    .and_then(|b| b.first_chunk())
                    .map_or(0, |b| i32::from_be_bytes(*b)),
            })
        });
        out.push(Run { track_id, decode_time, samples: samples.collect::<Option<_>>()?, data });
    }
    (!out.is_empty()).then_some(out)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn child(bytes: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    Boxes(bytes).find(|(n, _)| *n == name).map(|(_, body)| body)
}

struct Boxes<'a>(&'a [u8]);

impl<'a> Iterator for Boxes<'a> {
    type Item = ([u8; 4], &'a [u8]);
    fn next(&mut self) -> Option<Self::Item> {
        let size = be32(self.0, 0)? as usize;
        let name = *self.0.get(4..)?.first_chunk()?;
        let body = self.0.get(8..size)?;
        self.0 = &self.0[size..];
        Some((name, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_of_two_tracks_has_these_very_bytes() {
        let video = [
            Sample { len_bytes: 3, duration: 512, composition_offset: 0, sync: true },
            Sample { len_bytes: 2, duration: 512, composition_offset: -512, sync: false },
        ];
        let audio = [Sample { len_bytes: 4, duration: 1024, composition_offset: 0, sync: true }];
        let head = fragment_head(
            7,
            &[
                TrackRun { track_id: 1, decode_time: 0x1_0000_0000, samples: &video },
                TrackRun { track_id: 2, decode_time: 48_000, samples: &audio },
            ],
        );
        let expected: &[&[u8]] = &[
            &[0, 0, 0, 212],
            b"moof",
            &[0, 0, 0, 16],
            b"mfhd",
            &[0, 0, 0, 0],
            &[0, 0, 0, 7],
            &[0, 0, 0, 96],
            b"traf",
            &[0, 0, 0, 16],
            b"tfhd",
            &[0, 2, 0, 0],
            &[0, 0, 0, 1],
            &[0, 0, 0, 20],
            b"tfdt",
            &[1, 0, 0, 0],
            &[0, 0, 0, 1, 0, 0, 0, 0],
            &[0, 0, 0, 52],
            b"trun",
            &[1, 0, 0x0f, 1],
            &[0, 0, 0, 2],
            &[0, 0, 0, 220],
            &[0, 0, 2, 0],
            &[0, 0, 0, 3],
            &[2, 0, 0, 0],
            &[0, 0, 0, 0],
            &[0, 0, 2, 0],
            &[0, 0, 0, 2],
            &[1, 1, 0, 0],
            &[0xff, 0xff, 0xfe, 0],
            &[0, 0, 0, 92],
            b"traf",
        ];
        let expected = expected.concat();
        // The second traf: 8 + 16 + 20 + 8 + 12 + 12.
        let mut expected = expected;
        let at = expected.len() - 8;
        expected.truncate(at);
        expected.extend_from_slice(&[0, 0, 0, 76]);
        expected.extend_from_slice(b"traf");
        for part in [
            &[0, 0, 0, 16][..],
            b"tfhd",
            &[0, 2, 0, 0],
            &[0, 0, 0, 2],
            &[0, 0, 0, 20],
            b"tfdt",
            &[1, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0xbb, 0x80],
            &[0, 0, 0, 32],
            b"trun",
            &[1, 0, 7, 1],
            &[0, 0, 0, 1],
            &[0, 0, 0, 0],
            &[0, 0, 4, 0],
            &[0, 0, 0, 4],
            &[2, 0, 0, 0],
        ] {
            expected.extend_from_slice(part);
        }
        let moof = u32::try_from(expected.len()).unwrap();
        expected[..4].copy_from_slice(&moof.to_be_bytes());
        expected.extend_from_slice(&[0, 0, 0, 17]);
        expected.extend_from_slice(b"mdat");
        // Offsets: moof + 8 for the video, three and two bytes later the audio.
        let video_at = 8 + 16 + 8 + 16 + 20 + 16;
        expected[video_at..video_at + 4].copy_from_slice(&(moof + 8).to_be_bytes());
        let audio_at = usize::try_from(moof).unwrap() - 16;
        expected[audio_at..audio_at + 4].copy_from_slice(&(moof + 13).to_be_bytes());
        assert_eq!(head, expected);
    }

    #[test]
    fn decode_times_are_the_sorted_presentation_times() {
        // I P B B of a stream at 40 ticks a picture that starts at 1000.
        let times = decode_times(&[1000, 1120, 1040, 1080], Some(1160), 40, 40);
        let decode: Vec<_> = times.iter().map(|t| t.decode_time).collect();
        assert_eq!(decode, [1000, 1040, 1080, 1120]);
        let offsets: Vec<_> = times.iter().map(|t| t.composition_offset).collect();
        assert_eq!(offsets, [40, 120, 0, 0]);
        assert_eq!(times.iter().map(|t| t.duration).sum::<u32>(), 160);
    }

    #[test]
    fn doubled_times_are_pushed_apart_and_the_end_needs_no_successor() {
        let times = decode_times(&[0, 0, 10], None, 10, 0);
        assert_eq!(times.iter().map(|t| t.decode_time).collect::<Vec<_>>(), [0, 1, 10]);
        assert_eq!(times[2].duration, 10);
        assert!(decode_times(&[], Some(5), 1, 0).is_empty());
    }

    #[test]
    fn no_offset_is_negative_where_pictures_last_longer_than_foreseen() {
        // 60 pictures a second become 12: I P B B.
        let times = decode_times(&[0, 2500, 1500, 7500, 22_500, 15_000], Some(30_000), 1500, 6000);
        assert_eq!(times[0].decode_time, 0);
        assert!(times.windows(2).all(|w| w[0].decode_time < w[1].decode_time), "{times:?}");
        assert!(times.iter().all(|t| t.composition_offset >= 0), "{times:?}");
        assert_eq!(times.iter().map(|t| i64::from(t.duration)).sum::<i64>(), 30_000);
        let late = decode_times(&[0, 30_000, 7500, 15_000], Some(37_500), 7500, 6000);
        assert!(late.iter().all(|t| t.composition_offset >= 0), "{late:?}");
        let shown: Vec<_> = late.iter().map(|t| t.decode_time + i64::from(t.composition_offset)).collect();
        assert_eq!(shown, [6000, 36_000, 13_500, 21_000]);
    }

    #[test]
    fn an_edit_list_is_put_behind_the_track_header() {
        let mut init = Vec::new();
        boxed(&mut init, *b"ftyp", |_| {});
        boxed(&mut init, *b"moov", |out| {
            for id in [1, 2] {
                boxed(out, *b"trak", |out| {
                    boxed(out, *b"tkhd", |out| u32s(out, &[0, 0, 0, id, 0]));
                    boxed(out, *b"mdia", |out| {
                        boxed(out, *b"mdhd", |out| u32s(out, &[0, 0, 0, 1000 * id, 0]));
                    });
                });
            }
        });
        let edited = with_edit(&init, 2, 80).unwrap();
        assert_eq!(edited.len(), init.len() + 36);
        assert_eq!(tracks(&edited), tracks(&init));
        let moov = child(&edited, *b"moov").unwrap();
        let trak = Boxes(moov).nth(1).unwrap().1;
        let elst = child(child(trak, *b"edts").unwrap(), *b"elst").unwrap();
        assert_eq!(elst, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 80, 0, 1, 0, 0]);
        assert_eq!(with_edit(&init, 3, 80), None);
    }

    #[test]
    fn tracks_of_a_truncated_init_are_none() {
        assert_eq!(tracks(b"\0\0\0\x10moov\0\0\0\x64trak"), None);
        assert_eq!(tracks(&[]), None);
    }
}
