//! A segment of fragmented MP4 written as an MPEG transport stream (ISO/IEC 13818-1). Pure: our own
//! init segment and fragments in, packets out.
//!
//! As with fragments, nothing depends on the run that wrote a segment. Continuity counters (section
//! 2.4.3.3) would: each packet identifier has a multiple of sixteen packets in every segment, so that
//! every segment begins at zero and segments in a row make one stream, for a playlist as well as in
//! one piece.

use crate::fmp4;

/// Time of the presentation's zero in the stream, in ticks of 90 kHz: decode times before it, by which
/// pictures are reordered, and the clock before those must not be negative. What FFmpeg's muxer takes.
pub const START_TICKS: i64 = 126_000;
/// The clock runs this much before the decoder's, in ticks of 90 kHz: what a decoder may buffer.
const CLOCK_LEAD: i64 = 63_000;
const PACKET: usize = 188;
const PAYLOAD: usize = 184;
/// Packets of one identifier in a segment are a multiple of this: counters have four bits.
const ROUND: usize = 16;
const PMT_PID: u16 = 0x1000;
const FIRST_PID: u16 = 0x100;

/// Kinds of tracks that a transport stream carries here, with what the kind needs to stand alone.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Length of a NAL unit's length; parameter sets in start code form.
    H264 {
        length_bytes: usize,
        sets: Vec<u8>,
    },
    Hevc {
        length_bytes: usize,
        sets: Vec<u8>,
    },
    /// MPEG-1 and MPEG-2 pictures go as they are.
    Mpeg2,
    /// Object type, index of the rate, channel configuration (ISO/IEC 13818-7 section 6.2).
    Aac {
        object: u8,
        rate: u8,
        channels: u8,
    },
    /// MPEG-1 layers 2 and 3.
    Mpeg,
    Ac3,
    Eac3,
    Dts,
}

impl Kind {
    fn is_picture(&self) -> bool {
        matches!(self, Self::H264 { .. } | Self::Hevc { .. } | Self::Mpeg2)
    }

    /// `stream_type` (table 2-34; those above 0x7f by ATSC A/53) and registration.
    fn stream_type(&self) -> (u8, Option<&'static [u8; 4]>) {
        match self {
            Self::H264 { .. } => (0x1b, None),
            Self::Hevc { .. } => (0x24, Some(b"HEVC")),
            Self::Mpeg2 => (0x02, None),
            Self::Aac { .. } => (0x0f, None),
            Self::Mpeg => (0x03, None),
            Self::Ac3 => (0x81, Some(b"AC-3")),
            Self::Eac3 => (0x87, Some(b"EAC3")),
            Self::Dts => (0x06, Some(b"DTS1")),
        }
    }

    /// `stream_id` of its packets (table 2-22).
    fn stream_id(&self) -> u8 {
        match self {
            Self::H264 { .. } | Self::Hevc { .. } | Self::Mpeg2 => 0xe0,
            Self::Aac { .. } | Self::Mpeg => 0xc0,
            Self::Ac3 | Self::Eac3 | Self::Dts => 0xbd,
        }
    }
}

#[derive(Debug, Clone)]
struct Track {
    id: u32,
    timescale: u32,
    /// What the edit list takes off composition times.
    media_time: i64,
    pid: u16,
    kind: Kind,
}

/// Why a track or a segment cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TsError {
    /// A transport stream has no place for it, or none that players read.
    #[error("a transport stream cannot carry `{0}`")]
    Codec(String),
    /// Not what we write ourselves.
    #[error("a fragment is not whole: {0}")]
    Fragment(&'static str),
}

/// Writes the segments of one rendition.
#[derive(Debug, Clone)]
pub struct Muxer {
    tracks: Vec<Track>,
    /// PAT and PMT, a packet each, without counters.
    tables: [Vec<u8>; 2],
}

/// One sample on its way into packets.
struct Unit<'a> {
    track: usize,
    pts: i64,
    dts: i64,
    sync: bool,
    data: &'a [u8],
}

impl Muxer {
    /// From the init segment of the same rendition.
    ///
    /// # Errors
    /// A track that a transport stream cannot carry.
    pub fn new(init: &[u8]) -> Result<Self, TsError> {
        let whole = TsError::Fragment("no tracks");
        let mut tracks = Vec::new();
        for (n, entry) in (0_u16..).zip(fmp4::entries(init).ok_or(whole.clone())?) {
            let kind = kind(&entry)?;
            let pid = FIRST_PID + n;
            tracks.push(Track {
                id: entry.track.id,
                timescale: entry.track.timescale.max(1),
                media_time: entry.media_time,
                pid,
                kind,
            });
        }
        if tracks.is_empty() {
            return Err(whole);
        }
        let tables = [section(&pat(), 0), section(&pmt(&tracks), PMT_PID)];
        Ok(Self { tracks, tables })
    }

    /// Writes one fragment.
    ///
    /// # Errors
    /// It is not one that we write.
    pub fn segment(&self, fragment: &[u8]) -> Result<Vec<u8>, TsError> {
        let mut units = self.units(fragment)?;
        // In decode order; of two at one time the picture first, since the clock is on it.
        units.sort_by_key(|u| (u.dts, u.track));
        let mut last = vec![None; self.tracks.len()];
        for (n, unit) in units.iter().enumerate() {
            last[unit.track] = Some(n);
        }
        let clock = self.tracks.iter().position(|t| t.kind.is_picture()).unwrap_or(0);
        let mut out = Packets::new(fragment.len(), self.tracks.len());
        // Tables come at the head and then evenly, sixteen times: whoever joins within is not lost long.
        let every = (units.len() / ROUND).max(1);
        let mut tables = 0;
        let mut elementary = Vec::new();
        for (n, unit) in units.iter().enumerate() {
            if n.is_multiple_of(every) && tables < ROUND {
                self.write_tables(&mut out, tables);
                tables += 1;
            }
            let track = &self.tracks[unit.track];
            elementary.clear();
            access_unit(&track.kind, unit, &mut elementary)?;
            let pes = pes(track.kind.stream_id(), unit.pts, unit.dts, &elementary);
            let pcr = (unit.track == clock).then_some((unit.dts - CLOCK_LEAD).max(0));
            let is_last = last[unit.track] == Some(n);
            out.write(track.pid, unit.track, &pes, pcr, unit.sync && track.kind.is_picture(), is_last);
        }
        while tables < ROUND {
            self.write_tables(&mut out, tables);
            tables += 1;
        }
        Ok(out.bytes)
    }

    fn write_tables(&self, out: &mut Packets, counter: usize) {
        for table in &self.tables {
            let at = out.bytes.len();
            out.bytes.extend_from_slice(table);
            out.bytes[at + 3] |= u8::try_from(counter % ROUND).unwrap_or(0);
        }
    }

    fn units<'a>(&self, fragment: &'a [u8]) -> Result<Vec<Unit<'a>>, TsError> {
        let runs = fmp4::runs(fragment).ok_or(TsError::Fragment("its runs"))?;
        let mut units = Vec::new();
        for run in runs {
            let track = self.tracks.iter().position(|t| t.id == run.track_id);
            let track = track.ok_or(TsError::Fragment("a track that the init segment lacks"))?;
            let t = &self.tracks[track];
            let ticks = |at: i64| {
                let scaled = i128::from(at) * 90_000 / i128::from(t.timescale);
                i64::try_from(scaled).unwrap_or(i64::MAX / 2)
            };
            let mut at = i64::try_from(run.decode_time).unwrap_or(i64::MAX / 2);
            let mut data = run.data;
            for sample in run.samples {
                let len = sample.len_bytes as usize;
                let (own, rest) =
                    data.split_at_checked(len).ok_or(TsError::Fragment("less data than samples"))?;
                data = rest;
                let shift = START_TICKS - ticks(t.media_time);
                let dts = ticks(at) + shift;
                let pts = ticks(at + i64::from(sample.composition_offset)) + shift;
                units.push(Unit { track, pts, dts, sync: sample.sync, data: own });
                at += i64::from(sample.duration);
            }
        }
        Ok(units)
    }
}

/// What a sample entry says of its track.
fn kind(entry: &fmp4::Entry<'_>) -> Result<Kind, TsError> {
    let unknown = || TsError::Codec(String::from_utf8_lossy(&entry.kind).into_owned());
    match &entry.kind {
        b"avc1" | b"avc3" => avc(entry.config(*b"avcC").ok_or_else(unknown)?).ok_or_else(unknown),
        b"hvc1" | b"hev1" | b"dvh1" | b"dvhe" => {
            hevc(entry.config(*b"hvcC").ok_or_else(unknown)?).ok_or_else(unknown)
        }
        b"mp4v" => match esds(entry.config(*b"esds").ok_or_else(unknown)?) {
            // MPEG-2 of any profile, MPEG-1 (registered object types).
            Some((0x60..=0x65 | 0x6a, _)) => Ok(Kind::Mpeg2),
            _ => Err(unknown()),
        },
        b"mp4a" => match esds(entry.config(*b"esds").ok_or_else(unknown)?) {
            Some((0x40, config)) => aac(config).ok_or_else(unknown),
            Some((0x69 | 0x6b, _)) => Ok(Kind::Mpeg),
            Some((0xa5, _)) => Ok(Kind::Ac3),
            Some((0xa6, _)) => Ok(Kind::Eac3),
            Some((0xa9, _)) => Ok(Kind::Dts),
            _ => Err(unknown()),
        },
        b".mp3" => Ok(Kind::Mpeg),
        b"ac-3" => Ok(Kind::Ac3),
        b"ec-3" => Ok(Kind::Eac3),
        b"dtsc" | b"dtsh" | b"dtsl" => Ok(Kind::Dts),
        _ => Err(unknown()),
    }
}

/// `AVCDecoderConfigurationRecord` (ISO/IEC 14496-15 section 5.3.3.1).
fn avc(record: &[u8]) -> Option<Kind> {
    let length_bytes = usize::from(record.get(4)? & 3) + 1;
    let mut sets = Vec::new();
    let mut rest = record.get(5..)?;
    for mask in [31, 255] {
        let (count, after) = rest.split_first()?;
        rest = after;
        for _ in 0..count & mask {
            rest = take_set(rest, &mut sets)?;
        }
    }
    Some(Kind::H264 { length_bytes, sets })
}

/// `HEVCDecoderConfigurationRecord` (section 8.3.3.1).
fn hevc(record: &[u8]) -> Option<Kind> {
    let length_bytes = usize::from(record.get(21)? & 3) + 1;
    let mut sets = Vec::new();
    let mut rest = record.get(23..)?;
    for _ in 0..*record.get(22)? {
        let count = u16::from_be_bytes([*rest.get(1)?, *rest.get(2)?]);
        rest = rest.get(3..)?;
        for _ in 0..count {
            rest = take_set(rest, &mut sets)?;
        }
    }
    Some(Kind::Hevc { length_bytes, sets })
}

fn take_set<'a>(bytes: &'a [u8], sets: &mut Vec<u8>) -> Option<&'a [u8]> {
    let len = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    sets.extend_from_slice(&[0, 0, 0, 1]);
    sets.extend_from_slice(bytes.get(2..2 + len)?);
    bytes.get(2 + len..)
}

/// Object type and decoder configuration of an `esds` box (ISO/IEC 14496-1 section 7.2.6).
fn esds(body: &[u8]) -> Option<(u8, &[u8])> {
    let es = descriptor(body.get(4..)?, 3)?;
    let flags = *es.get(2)?;
    let mut at = 3;
    if flags & 0x80 != 0 {
        at += 2;
    }
    if flags & 0x40 != 0 {
        at += 1 + usize::from(*es.get(at)?);
    }
    if flags & 0x20 != 0 {
        at += 2;
    }
    let decoder = descriptor(es.get(at..)?, 4)?;
    Some((*decoder.first()?, descriptor(decoder.get(13..)?, 5).unwrap_or(&[])))
}

fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    if *bytes.first()? != tag {
        return None;
    }
    let (mut len, mut at) = (0_usize, 1);
    loop {
        let b = *bytes.get(at)?;
        at += 1;
        len = len << 7 | usize::from(b & 0x7f);
        if b & 0x80 == 0 || at > 5 {
            break;
        }
    }
    bytes.get(at..at.checked_add(len)?)
}

/// `AudioSpecificConfig` (ISO/IEC 14496-3 section 1.6.2.1): what an ADTS head can say of it.
fn aac(config: &[u8]) -> Option<Kind> {
    let (a, b) = (*config.first()?, *config.get(1)?);
    let object = a >> 3;
    let rate = (a & 7) << 1 | b >> 7;
    let channels = b >> 3 & 15;
    // Spectral band replication is found by the decoder; the core under it is plain.
    let object = if matches!(object, 5 | 29) { 2 } else { object };
    (rate < 13 && (1..=4).contains(&object) && (1..=7).contains(&channels)).then_some(Kind::Aac {
        object,
        rate,
        channels,
    })
}

/// A sample as its kind travels in a transport stream.
fn access_unit(kind: &Kind, unit: &Unit<'_>, out: &mut Vec<u8>) -> Result<(), TsError> {
    match kind {
        Kind::H264 { length_bytes, sets } => {
            // Access unit delimiter: required in front of each (section 2.14.1).
            out.extend_from_slice(&[0, 0, 0, 1, 9, 0xf0]);
            nals(unit, *length_bytes, sets, |head| head & 31 == 9, out)
        }
        Kind::Hevc { length_bytes, sets } => {
            out.extend_from_slice(&[0, 0, 0, 1, 0x46, 1, 0x50]);
            nals(unit, *length_bytes, sets, |head| head >> 1 & 63 == 35, out)
        }
        Kind::Aac { object, rate, channels } => {
            let len = unit.data.len() + 7;
            if len >= 1 << 13 {
                return Err(TsError::Fragment("an AAC frame too long"));
            }
            // ADTS (ISO/IEC 13818-7 section 6.2): no protection, buffer fullness of a variable rate.
            let len = u16::try_from(len).unwrap_or(0);
            out.extend_from_slice(&[
                0xff,
                0xf1,
                (object - 1) << 6 | rate << 2 | channels >> 2,
                (channels & 3) << 6 | (len >> 11) as u8,
                (len >> 3 & 0xff) as u8,
                ((len & 7) << 5) as u8 | 0x1f,
                0xfc,
            ]);
            out.extend_from_slice(unit.data);
            Ok(())
        }
        Kind::Mpeg2 | Kind::Mpeg | Kind::Ac3 | Kind::Eac3 | Kind::Dts => {
            out.extend_from_slice(unit.data);
            Ok(())
        }
    }
}

/// NAL units with start codes; the parameter sets before one that stands alone.
fn nals(
    unit: &Unit<'_>,
    length_bytes: usize,
    sets: &[u8],
    is_delimiter: impl Fn(u8) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), TsError> {
    let broken = TsError::Fragment("NAL units");
    if unit.sync {
        out.extend_from_slice(sets);
    }
    let mut data = unit.data;
    while !data.is_empty() {
        let (len, rest) = data.split_at_checked(length_bytes).ok_or(broken.clone())?;
        let len = len.iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
        let (nal, rest) = rest.split_at_checked(len).ok_or(broken.clone())?;
        if nal.first().is_some_and(|head| !is_delimiter(*head)) {
            out.extend_from_slice(&[0, 0, 0, 1]);
            out.extend_from_slice(nal);
        }
        data = rest;
    }
    Ok(())
}

/// A PES packet (section 2.4.3.6).
fn pes(stream_id: u8, pts: i64, dts: i64, data: &[u8]) -> Vec<u8> {
    let both = pts != dts;
    let head = if both { 10 } else { 5 };
    // A picture may be longer than the field; zero is allowed for pictures alone.
    let length = u16::try_from(3 + head + data.len()).ok().filter(|_| stream_id != 0xe0).unwrap_or(0);
    let mut out = Vec::with_capacity(19 + data.len());
    out.extend_from_slice(&[0, 0, 1, stream_id]);
    out.extend_from_slice(&length.to_be_bytes());
    // data_alignment_indicator: an access unit begins right here.
    out.extend_from_slice(&[0x84, if both { 0xc0 } else { 0x80 }, head as u8]);
    timestamp(&mut out, if both { 3 } else { 2 }, pts);
    if both {
        timestamp(&mut out, 1, dts);
    }
    out.extend_from_slice(data);
    out
}

/// 33 bits between markers.
fn timestamp(out: &mut Vec<u8>, mark: u8, ticks: i64) {
    let t = (ticks as u64) & 0x1_ffff_ffff;
    let byte = |shift: u32| (t >> shift) as u8;
    out.extend_from_slice(&[
        mark << 4 | (byte(30) & 7) << 1 | 1,
        byte(22),
        byte(14) & 0xfe | 1,
        byte(7),
        (t << 1) as u8 | 1,
    ]);
}

/// Packets of a segment, with their counters.
struct Packets {
    bytes: Vec<u8>,
    counters: Vec<usize>,
}

impl Packets {
    fn new(payload: usize, tracks: usize) -> Self {
        Self { bytes: Vec::with_capacity(payload + payload / 16 + 64 * PACKET), counters: vec![0; tracks] }
    }

    /// Writes a PES packet. The last one of its identifier is cut into as many packets more as make their
    /// number a multiple of [`ROUND`].
    fn write(&mut self, pid: u16, track: usize, pes: &[u8], pcr: Option<i64>, random: bool, last: bool) {
        // Adaptation field of the first: length, flags and clock.
        let extra = if pcr.is_some() {
            8
        } else if random {
            2
        } else {
            0
        };
        let mut sizes = vec![pes.len().min(PAYLOAD - extra)];
        let mut left = pes.len() - sizes[0];
        while left > 0 {
            sizes.push(left.min(PAYLOAD));
            left -= left.min(PAYLOAD);
        }
        if last {
            while !(self.counters[track] + sizes.len()).is_multiple_of(ROUND) {
                let Some(at) = sizes.iter().position(|s| *s > 1) else { break };
                // From the longest that is left: any that can be halved will do.
                let largest = (at..sizes.len()).max_by_key(|i| sizes[*i]).unwrap_or(at);
                let half = sizes[largest] / 2;
                sizes[largest] -= half;
                sizes.insert(largest + 1, half);
            }
        }
        let mut at = 0;
        for (n, size) in sizes.into_iter().enumerate() {
            let first = n == 0;
            self.packet(
                pid,
                track,
                first,
                if first { pcr } else { None },
                first && random,
                &pes[at..at + size],
            );
            at += size;
        }
    }

    fn packet(
        &mut self,
        pid: u16,
        track: usize,
        first: bool,
        pcr: Option<i64>,
        random: bool,
        payload: &[u8],
    ) {
        let counter = (self.counters[track] % ROUND) as u8;
        self.counters[track] += 1;
        let [pid_high, pid_low] = pid.to_be_bytes();
        let fields = PAYLOAD - payload.len();
        self.bytes.extend_from_slice(&[0x47, u8::from(first) << 6 | pid_high, pid_low]);
        if fields == 0 {
            self.bytes.push(0x10 | counter);
        } else {
            self.bytes.push(0x30 | counter);
            let end = self.bytes.len() + fields;
            self.bytes.push((fields - 1) as u8);
            if fields > 1 {
                self.bytes.push(u8::from(random) << 6 | u8::from(pcr.is_some()) << 4);
                if let Some(pcr) = pcr {
                    // 33 bits at 90 kHz, six reserved, nine of the rest at 27 MHz.
                    let base = (pcr as u64) & 0x1_ffff_ffff;
                    let bytes = (base << 15 | 0x3f << 9).to_be_bytes();
                    self.bytes.extend_from_slice(&bytes[2..]);
                }
                self.bytes.resize(end, 0xff);
            }
        }
        self.bytes.extend_from_slice(payload);
    }
}

/// Programme association (section 2.4.4.3): programme 1 is at [`PMT_PID`].
fn pat() -> Vec<u8> {
    let [high, low] = PMT_PID.to_be_bytes();
    vec![0x00, 0xb0, 0x0d, 0x00, 0x01, 0xc1, 0x00, 0x00, 0x00, 0x01, 0xe0 | high, low]
}

/// Programme map (section 2.4.4.8).
fn pmt(tracks: &[Track]) -> Vec<u8> {
    let clock = tracks.iter().find(|t| t.kind.is_picture()).unwrap_or(&tracks[0]).pid;
    let mut body = vec![0x00, 0x01, 0xc1, 0x00, 0x00];
    let pid = |out: &mut Vec<u8>, pid: u16| {
        let [high, low] = pid.to_be_bytes();
        out.extend_from_slice(&[0xe0 | high, low]);
    };
    pid(&mut body, clock);
    body.extend_from_slice(&[0xf0, 0]);
    for track in tracks {
        let (stream_type, registration) = track.kind.stream_type();
        body.push(stream_type);
        pid(&mut body, track.pid);
        body.extend_from_slice(&[0xf0, if registration.is_some() { 6 } else { 0 }]);
        if let Some(registration) = registration {
            body.extend_from_slice(&[5, 4]);
            body.extend_from_slice(registration);
        }
    }
    let length = u16::try_from(body.len() + 4).unwrap_or(0);
    let [high, low] = length.to_be_bytes();
    let mut out = vec![0x02, 0xb0 | high, low];
    out.extend_from_slice(&body);
    out
}

/// A table in one packet, its counter at zero.
fn section(table: &[u8], pid: u16) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut out = vec![0x47, 0x40 | high, low, 0x10, 0];
    out.extend_from_slice(table);
    out.extend_from_slice(&crc32(table).to_be_bytes());
    out.resize(PACKET, 0xff);
    out
}

/// Annex A.
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc & 1 << 31 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Track {
        let kind = Kind::H264 { length_bytes: 4, sets: vec![0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2] };
        Track { id: 1, timescale: 90_000, media_time: 7_200, pid: FIRST_PID, kind }
    }

    fn sound() -> Track {
        let kind = Kind::Aac { object: 2, rate: 3, channels: 2 };
        Track { id: 2, timescale: 48_000, media_time: 0, pid: FIRST_PID + 1, kind }
    }

    fn muxer() -> Muxer {
        let tracks = vec![picture(), sound()];
        let tables = [section(&pat(), 0), section(&pmt(&tracks), PMT_PID)];
        Muxer { tracks, tables }
    }

    /// A fragment of `n` pictures of these lengths and as much sound.
    fn fragment(lengths: &[u32]) -> Vec<u8> {
        let sample = |len_bytes, duration, offset, sync| fmp4::Sample {
            len_bytes,
            duration,
            composition_offset: offset,
            sync,
        };
        let video: Vec<_> = (0..).zip(lengths).map(|(n, l)| sample(l + 4, 3_600, 7_200, n == 0)).collect();
        let audio: Vec<_> = lengths.iter().map(|_| sample(300, 1_024, 0, true)).collect();
        let runs = [
            fmp4::TrackRun { track_id: 1, decode_time: 900_000, samples: &video },
            fmp4::TrackRun { track_id: 2, decode_time: 480_000, samples: &audio },
        ];
        let mut out = fmp4::fragment_head(1, &runs);
        for length in lengths {
            out.extend_from_slice(&length.to_be_bytes());
            out.extend((0..*length).map(|b| if b == 0 { 0x65 } else { 0xaa }));
        }
        out.extend(std::iter::repeat_n(0x21, 300 * lengths.len()));
        out
    }

    #[test]
    fn segments_in_a_row_make_one_stream() {
        let muxer = muxer();
        let mut all = Vec::new();
        for lengths in [&[50_000, 10, 3_000][..], &[1], &[183, 184, 185, 368, 9_999, 1, 2, 3]] {
            all.extend(muxer.segment(&fragment(lengths)).unwrap());
        }
        assert!(all.len().is_multiple_of(PACKET));
        let mut next = std::collections::HashMap::new();
        for packet in all.chunks(PACKET) {
            assert_eq!(packet[0], 0x47);
            let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
            let counter = packet[3] & 15;
            let expected = next.entry(pid).or_insert(0);
            assert_eq!(counter, *expected, "pid {pid:#x}");
            *expected = (counter + 1) % 16;
        }
        let mut pids: Vec<_> = next.keys().copied().collect();
        pids.sort_unstable();
        assert_eq!(pids, [0, FIRST_PID, FIRST_PID + 1, PMT_PID]);
    }

    #[test]
    fn a_segment_does_not_depend_on_what_was_written_before() {
        let (muxer, one) = (muxer(), fragment(&[400, 500]));
        let first = muxer.segment(&one).unwrap();
        muxer.segment(&fragment(&[7])).unwrap();
        assert_eq!(muxer.segment(&one).unwrap(), first);
        // It begins with its tables.
        assert_eq!((&first[..3], &first[PACKET..PACKET + 3]), (&[0x47, 0x40, 0][..], &[0x47, 0x50, 0][..]));
    }

    #[test]
    fn times_and_the_payload_come_back() {
        let bytes = muxer().segment(&fragment(&[40_000])).unwrap();
        let mut payload = Vec::new();
        let mut pcr = None;
        for p in bytes.chunks(PACKET).filter(|p| p[1] & 0x1f == 1 && p[2] == 0) {
            let mut at = 4;
            if p[3] & 0x20 != 0 {
                at += 1 + usize::from(p[4]);
                if p[4] > 0 && p[5] & 0x10 != 0 {
                    let base = u64::from_be_bytes([0, 0, p[6], p[7], p[8], p[9], p[10], p[11]]) >> 15;
                    pcr = Some(base);
                    assert_eq!(p[5] & 0x40, 0x40, "stands alone");
                }
            }
            payload.extend_from_slice(&p[at..]);
        }
        let time = |b: &[u8]| {
            u64::from(b[0] >> 1 & 7) << 30
                | u64::from(b[1]) << 22
                | u64::from(b[2] >> 1) << 15
                | u64::from(b[3]) << 7
                | u64::from(b[4] >> 1)
        };
        assert_eq!(&payload[..9], &[0, 0, 1, 0xe0, 0, 0, 0x84, 0xc0, 10]);
        let (pts, dts) = (time(&payload[9..14]), time(&payload[14..19]));
        // Composed 7,200 later than decoded, which the edit list takes off again.
        assert_eq!(pts, 900_000 + 126_000);
        assert_eq!((dts, pcr), (pts - 7_200, Some(dts - 63_000)));
        let unit = &payload[19..];
        assert_eq!(&unit[..6], &[0, 0, 0, 1, 9, 0xf0]);
        assert_eq!(&unit[6..18], &[0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2]);
        assert_eq!((&unit[18..23], unit.len()), (&[0, 0, 0, 1, 0x65][..], 22 + 40_000));
    }

    #[test]
    fn sound_has_its_heads_and_tables_their_sums() {
        let unit = Unit { track: 1, pts: 0, dts: 0, sync: true, data: &[1; 300] };
        let mut out = Vec::new();
        access_unit(&sound().kind, &unit, &mut out).unwrap();
        // LC, 48 kHz, stereo, 307 bytes.
        assert_eq!(&out[..7], &[0xff, 0xf1, 0x4c, 0x80, 0x26, 0x7f, 0xfc]);
        let table = pmt(&[picture(), sound()]);
        let mut whole = table.clone();
        whole.extend_from_slice(&crc32(&table).to_be_bytes());
        assert_eq!(crc32(&whole), 0, "the sum over everything is zero");
        assert_eq!(aac(&[0x12, 0x10]), Some(Kind::Aac { object: 2, rate: 4, channels: 2 }));
        assert_eq!(aac(&[0x12]), None);
    }

    #[test]
    fn what_is_broken_is_an_error_and_no_panic() {
        let muxer = muxer();
        let whole = fragment(&[400, 500]);
        for cut in 0..whole.len() {
            let _ = muxer.segment(&whole[..cut]);
        }
        let mut bent = whole;
        for at in 0..bent.len().min(600) {
            bent[at] ^= 0xff;
            let _ = muxer.segment(&bent);
            bent[at] ^= 0xff;
        }
        assert!(Muxer::new(&[]).is_err() && Muxer::new(&[0; 64]).is_err());
    }
}
