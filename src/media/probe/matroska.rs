//! Matroska: tracks, chapters and tags from the `matroska` crate, which sees checked elements in
//! memory and no `SeekHead`; what it does not give (colour, cues, first times) by our own reader.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek};

use ::matroska::{Language, Matroska, Settings, TagValue, Track, Tracktype};

use super::facts::{self, Picture, rate_of_nanoseconds};
use super::{Fail, Probed, incomplete, malformed, mostly_there};
use crate::codec::colour::Colour;
use crate::codec::dolby::DolbyVision;
use crate::codec::{VideoFacts, aac, audio_codec_string, av1, h264, hevc, vp9};
use crate::container::ebml::{self, Element, Header, header_at, id};
use crate::guard::{BudgetReader, Limits, contain};
use crate::info::{
    Attachment, Audio, Chapter, Disposition, MediaInfo, Prober, Stream, StreamKind, Subtitle, Video,
};
use crate::keyframes::{KeyframeIndex, KeyframeSource};
use crate::language;

/// Elements between the start of the segment and its first cluster.
const MAX_TOP_ELEMENTS: u32 = 1_000;
/// Bytes of `Info`, `Tracks`, `Chapters`, `Tags`: what is not cues is small.
const MAX_HEADER_BYTES: u64 = 8 << 20;
/// Tracks of one file.
const MAX_TRACKS: usize = 256;
/// Attachments of one file.
const MAX_ATTACHMENTS: usize = 512;
/// Blocks looked at for the first time of each track.
const MAX_FIRST_BLOCKS: u32 = 96;
/// Cues further apart than this do not tell where to cut.
const MAX_CUE_GAP_US: i64 = 30_000_000;

pub(super) fn probe<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    max_index_bytes: u64,
) -> Result<Probed, Fail> {
    let map = Map::walk(reader)?;
    let header_limit = max_index_bytes.min(MAX_HEADER_BYTES);
    let mut load = |id, limit| map.load(reader, id, limit);
    let Some(info) = load(id::INFO, header_limit)? else { return malformed("ebml: missing Info") };
    let Some(tracks) = load(id::TRACKS, header_limit)? else {
        return malformed("ebml: missing Tracks");
    };
    let chapters = load(id::CHAPTERS, header_limit)?;
    let tags = load(id::TAGS, header_limit)?;
    let cues = load(id::CUES, max_index_bytes)?;

    let parsed = parse(&info, &tracks, chapters.as_deref(), tags.as_deref())?;
    let clock = Clock::of(&info)?;
    let Some(duration_us) = clock.duration_us else { return incomplete("its length") };
    let raw: Vec<Element<'_>> = ebml::children(&tracks).filter(|e| e.id == id::TRACK_ENTRY).collect();
    if raw.len() != parsed.tracks.len() || raw.len() > MAX_TRACKS {
        return malformed("ebml: tracks do not add up");
    }
    let rates = bitrates(&parsed);
    let mut streams = Vec::with_capacity(raw.len());
    for (index, (raw, track)) in raw.iter().zip(&parsed.tracks).enumerate() {
        let mut s = stream(index, *raw, track)?;
        s.time_base = clock.time_base();
        s.bitrate_bps = rates.get(&track.uid).copied();
        streams.push(s);
    }
    let start_us = first_time(reader, &map, &clock, &raw, &parsed.tracks)?;
    let attachments = attachments(reader, &map)?;
    streams.extend(attachment_streams(streams.len(), &attachments));

    let end_us = duration_us - start_us;
    if end_us <= 0 {
        return incomplete("its length");
    }
    let main = parsed.tracks.iter().find(|t| t.tracktype == Tracktype::Video);
    let keyframes = match (main, &cues) {
        (Some(track), Some(cues)) => key_frames(cues, track.number, &clock, start_us, end_us),
        _ => None,
    };
    let bits = u128::from(reader.size_bytes()) * 8_000_000;
    let info = MediaInfo {
        container: map.container,
        size_bytes: reader.size_bytes(),
        duration_s: Some(seconds(end_us)),
        start_s: seconds(start_us),
        bitrate_bps: u128::try_from(end_us).ok().and_then(|d| u64::try_from(bits / d).ok()),
        streams,
        chapters: chapter_list(&parsed, start_us),
        tags: tag_list(&parsed),
        attachments,
        clock_restarts: Vec::new(),
        probed_by: Prober::Matroska,
    };
    Ok(Probed { info, keyframes })
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years fit 53 bits")]
fn seconds(us: i64) -> f64 {
    us as f64 / 1_000_000.0
}

/// Where the top-level elements of the segment are.
struct Map {
    /// `mkv` or `webm`.
    container: String,
    /// First of each: offset of the element, header included.
    found: BTreeMap<u32, (u64, Header)>,
    segment_end: u64,
}

impl Map {
    fn walk<R: Read + Seek>(reader: &mut BudgetReader<R>) -> Result<Self, Fail> {
        let size_bytes = reader.size_bytes();
        let head = header_at(reader, 0)?;
        let Some(size) = head.size.filter(|s| *s <= 4096) else {
            return malformed("ebml: its header has no sound size");
        };
        if head.id != id::EBML {
            return Err(Fail::NotThisFormat);
        }
        let body = reader.read_at(head.header_bytes, size)?;
        let doc_type = ebml::children(&body).find(|e| e.id == id::DOC_TYPE).map(Element::text);
        let container = match doc_type.as_deref() {
            Some("webm") => "webm",
            Some("matroska") => "mkv",
            _ => return Err(Fail::NotThisFormat),
        };
        let mut at = head.header_bytes + size;
        let segment = loop {
            let h = header_at(reader, at)?;
            match (h.id, h.size) {
                (id::SEGMENT, _) => break h,
                // Only a Void may stand here.
                (0xec, Some(skip)) if skip <= size_bytes => at += h.header_bytes + skip,
                _ => return malformed("ebml: missing Segment"),
            }
        };
        let segment_start = at + segment.header_bytes;
        let segment_end = match segment.size {
            // A file that is cut short still has its headers.
            Some(size) => {
                mostly_there(size_bytes.saturating_sub(segment_start), size)?;
                segment_start.saturating_add(size).min(size_bytes)
            }
            None => size_bytes,
        };
        let mut map = Self { container: container.to_owned(), found: BTreeMap::new(), segment_end };
        let seek_heads = map.walk_to_cluster(reader, segment_start)?;
        for (at, h) in seek_heads {
            map.follow(reader, segment_start, at, h)?;
        }
        Ok(map)
    }

    fn walk_to_cluster<R: Read + Seek>(
        &mut self,
        reader: &mut BudgetReader<R>,
        segment_start: u64,
    ) -> Result<Vec<(u64, Header)>, Fail> {
        let (mut at, mut seek_heads) = (segment_start, Vec::new());
        for _ in 0..MAX_TOP_ELEMENTS {
            if at + 2 > self.segment_end {
                return Ok(seek_heads);
            }
            let h = header_at(reader, at)?;
            self.found.entry(h.id).or_insert((at, h));
            if h.id == id::CLUSTER {
                return Ok(seek_heads);
            }
            let Some(next) = h.size.and_then(|s| at.checked_add(h.header_bytes)?.checked_add(s)) else {
                return malformed("ebml: an element of unknown size that may not be");
            };
            if next > self.segment_end {
                return malformed("ebml: an element ends after the segment");
            }
            if h.id == id::SEEK_HEAD && seek_heads.len() < 4 {
                seek_heads.push((at, h));
            }
            at = next;
        }
        Err(Fail::OverLimit("ebml: too many elements before the first cluster".to_owned()))
    }

    /// Notes what a `SeekHead` points at, if the element that it names is really there.
    fn follow<R: Read + Seek>(
        &mut self,
        reader: &mut BudgetReader<R>,
        segment_start: u64,
        at: u64,
        h: Header,
    ) -> Result<(), Fail> {
        let body = read_body(reader, at, h, 1 << 20)?;
        ebml::check(&body)?;
        for seek in ebml::children(&body).filter(|e| e.id == id::SEEK).take(256) {
            let Some(target_id) = seek.child(id::SEEK_ID).and_then(Element::uint) else { continue };
            let Some(position) = seek.child(id::SEEK_POSITION).and_then(Element::uint) else {
                continue;
            };
            let Ok(target_id) = u32::try_from(target_id) else { continue };
            let wanted = [id::INFO, id::TRACKS, id::CHAPTERS, id::TAGS, id::ATTACHMENTS, id::CUES];
            if self.found.contains_key(&target_id) || !wanted.contains(&target_id) {
                continue;
            }
            let Some(at) = segment_start.checked_add(position).filter(|at| *at + 2 < self.segment_end) else {
                continue; // a file that was cut short
            };
            let h = header_at(reader, at)?;
            if h.id != target_id {
                return malformed(format!("ebml: no {target_id:#x} where the SeekHead says"));
            }
            self.found.insert(target_id, (at, h));
        }
        Ok(())
    }

    /// The body of a top-level element, checked.
    fn load<R: Read + Seek>(
        &self,
        reader: &mut BudgetReader<R>,
        id: u32,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Fail> {
        let Some((at, h)) = self.found.get(&id) else { return Ok(None) };
        let body = read_body(reader, *at, *h, limit)?;
        // Cues are bounded by their bytes alone: an hour of key frames has more elements than any
        // other part of a file, and nothing but our own reader sees them.
        if id != id::CUES {
            ebml::check(&body)?;
        }
        Ok(Some(body))
    }
}

fn read_body<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    at: u64,
    h: Header,
    limit: u64,
) -> Result<Vec<u8>, Fail> {
    match h.size {
        Some(size) if size <= limit => Ok(reader.read_at(at + h.header_bytes, size)?),
        Some(size) => Err(Fail::OverLimit(format!("ebml ({:#x}): {size} bytes", h.id))),
        None => malformed(format!("ebml ({:#x}): unknown size", h.id)),
    }
}

/// Hands the crate a segment of known size, without `SeekHead`, clusters and attachments.
fn parse(info: &[u8], tracks: &[u8], chapters: Option<&[u8]>, tags: Option<&[u8]>) -> Result<Matroska, Fail> {
    let mut segment = Vec::with_capacity(info.len() + tracks.len() + 1024);
    ebml::put(&mut segment, id::INFO, info);
    ebml::put(&mut segment, id::TRACKS, tracks);
    for (id, body) in [(id::CHAPTERS, chapters), (id::TAGS, tags)] {
        if let Some(body) = body {
            ebml::put(&mut segment, id, body);
        }
    }
    let mut file = Vec::with_capacity(segment.len() + 16);
    ebml::put(&mut file, id::SEGMENT, &segment);
    let size = file.len() as u64;
    let limits = Limits { max_calls: size * 2 + 10_000, max_bytes: size * 4 + 65_536, ..Limits::default() };
    let read = contain(|| {
        let reader = BudgetReader::new(Cursor::new(file), size, limits).map_err(|e| e.to_string())?;
        Matroska::open(reader).map_err(|e| e.to_string())
    });
    match read {
        Ok(Ok(m)) => Ok(m),
        Ok(Err(e)) => malformed(format!("ebml: {e}")),
        Err(panic) => malformed(format!("ebml: the parser gave up: {panic}")),
    }
}

/// The segment's clock.
struct Clock {
    /// Nanoseconds of a tick.
    scale_ns: u64,
    duration_us: Option<i64>,
}

impl Clock {
    fn of(info: &[u8]) -> Result<Self, Fail> {
        let find = |id| ebml::children(info).find(|e| e.id == id);
        let scale_ns = find(id::TIMESTAMP_SCALE).and_then(Element::uint).unwrap_or(1_000_000);
        // A tick of more than ten seconds is damage.
        if scale_ns == 0 || scale_ns > 10_000_000_000 {
            return malformed("ebml: a TimestampScale that cannot be");
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "bounded to a thousand hours before it is cast"
        )]
        let duration_us = find(id::DURATION)
            .and_then(Element::float)
            .map(|ticks| ticks * scale_ns as f64 / 1_000.0)
            .filter(|us| *us > 0.0 && *us < 3.6e12)
            .map(|us| us.round() as i64);
        Ok(Self { scale_ns, duration_us })
    }

    fn us(&self, ticks: i64) -> i64 {
        let us = i128::from(ticks) * i128::from(self.scale_ns) / 1_000;
        i64::try_from(us).unwrap_or(i64::MAX)
    }

    fn time_base(&self) -> [u32; 2] {
        crate::codec::reduced(self.scale_ns, 1_000_000_000).unwrap_or([1, 1_000])
    }
}

fn stream(index: usize, raw: Element<'_>, track: &Track) -> Result<Stream, Fail> {
    if raw
        .child(id::TRACK_TIMESTAMP_SCALE)
        .and_then(Element::float)
        .is_some_and(|s| (s - 1.0).abs() > f64::EPSILON)
    {
        return incomplete("the clock of a track");
    }
    let private = private(raw, track)?;
    let mut out = match (track.tracktype, &track.settings) {
        (Tracktype::Video, Settings::Video(v)) => video(index, raw, track, v, private)?,
        (Tracktype::Audio, Settings::Audio(a)) => audio(index, raw, track, a, private)?,
        (Tracktype::Video | Tracktype::Audio, _) => {
            return malformed("ebml: a track without its settings");
        }
        (Tracktype::Subtitle, _) => subtitle(index, &track.codec_id),
        _ => facts::stream(index, "unknown", StreamKind::Data),
    };
    out.language = match &track.language {
        // The default value (RFC 9559 section 5.1.4.1.19).
        None => Some("eng".to_owned()),
        Some(Language::ISO639(l) | Language::IETF(l)) => language::normalise(l).map(str::to_owned),
    };
    out.title = track.name.clone().filter(|n| !n.is_empty());
    out.disposition = Disposition {
        default: track.default,
        forced: track.forced,
        hearing_impaired: track.hearing_impaired.unwrap_or(false),
        visual_impaired: track.visual_impaired.unwrap_or(false) || track.text_descriptions.unwrap_or(false),
        commentary: track.commentary.unwrap_or(false),
        original: track.original.unwrap_or(false),
        attached_picture: false,
    };
    Ok(out)
}

/// `CodecPrivate`, unless it is compressed or encrypted.
fn private<'a>(raw: Element<'_>, track: &'a Track) -> Result<Option<&'a [u8]>, Fail> {
    let encodings = raw.child(id::CONTENT_ENCODINGS);
    let touches_private = encodings.is_some_and(|all| {
        ebml::children(all.body)
            .filter(|e| e.id == id::CONTENT_ENCODING)
            .any(|e| e.child(id::CONTENT_ENCODING_SCOPE).and_then(Element::uint).unwrap_or(1) & 2 != 0)
    });
    if touches_private {
        return incomplete("the compressed configuration of a track");
    }
    Ok(track.codec_private.as_deref())
}

fn video(
    index: usize,
    raw: Element<'_>,
    track: &Track,
    settings: &::matroska::Video,
    private: Option<&[u8]>,
) -> Result<Stream, Fail> {
    let (codec, facts) = match track.codec_id.as_str() {
        "V_MPEG4/ISO/AVC" => ("h264", private.and_then(h264::avcc)),
        "V_MPEGH/ISO/HEVC" => ("hevc", private.and_then(|p| hevc::hvcc(p, "hvc1"))),
        "V_AV1" => ("av1", private.and_then(av1::av1c)),
        "V_VP9" => ("vp9", private.and_then(vp9::codec_private)),
        "V_VP8" => ("vp8", Some(vp8())),
        other => return incomplete(format!("what `{other}` pictures are")),
    };
    let Some(facts) = facts else { return incomplete(format!("the profile of its {codec}")) };
    let Some(element) = raw.child(id::VIDEO) else { return malformed("ebml: no Video element") };
    let uint = |id| element.child(id).and_then(Element::uint);
    let stored = (settings.pixel_width, settings.pixel_height);
    let cropped = id::PIXEL_CROP.iter().any(|c| uint(*c).is_some_and(|n| n > 0));
    let turned = element
        .child(id::PROJECTION)
        .and_then(|p| p.child(id::PROJECTION_POSE_ROLL))
        .and_then(Element::float)
        .is_some_and(|roll| roll != 0.0);
    if cropped || turned {
        return incomplete("how its picture is cropped or turned");
    }
    let as_u32 = |n: u64| u32::try_from(n).unwrap_or(0);
    let shown = (settings.display_width.unwrap_or(stored.0), settings.display_height.unwrap_or(stored.1));
    let picture = Picture {
        size: (as_u32(stored.0), as_u32(stored.1)),
        // Units 0 and 3 are pixels and an aspect; both give the ratio (section 5.1.4.1.28.14).
        sample_aspect: match uint(id::DISPLAY_UNIT) {
            Some(4) => None,
            _ if element.child(id::DISPLAY_WIDTH).is_none()
                && element.child(id::DISPLAY_HEIGHT).is_none() =>
            {
                None
            }
            _ => facts::aspect(shown, stored),
        },
        rotation: 0,
        colour: element.child(id::COLOUR).map(colour),
        dolby: dolby(raw),
        interlaced: match uint(id::FLAG_INTERLACED) {
            Some(1) => Some(true),
            Some(2) => Some(false),
            _ => None,
        },
        frame_rate: track
            .default_duration
            .and_then(|d| rate_of_nanoseconds(u64::try_from(d.as_nanos()).ok()?)),
    };
    let mut s = facts::stream(index, codec, StreamKind::Video(facts::video(&facts, picture)?));
    s.codec_string = Some(facts.codec_string).filter(|c| !c.is_empty());
    s.profile = Some(facts.profile).filter(|p| !p.is_empty());
    Ok(s)
}

/// VP8 has one profile that anybody plays, 8 bits, 4:2:0, and no fields (RFC 6386).
fn vp8() -> VideoFacts {
    VideoFacts {
        codec_string: "vp8".to_owned(),
        bit_depth: 8,
        chroma: 1,
        interlaced: Some(false),
        ..VideoFacts::default()
    }
}

fn colour(element: Element<'_>) -> Colour {
    let code = |id| {
        let value = element.child(id).and_then(Element::uint);
        value.and_then(|v| u8::try_from(v).ok()).unwrap_or(2)
    };
    Colour {
        primaries: code(id::PRIMARIES),
        transfer: code(id::TRANSFER),
        matrix: code(id::MATRIX),
        full_range: match element.child(id::RANGE).and_then(Element::uint) {
            Some(1) => Some(false),
            Some(2) => Some(true),
            _ => None,
        },
    }
}

/// A Dolby Vision record among the block addition mappings, whose type is the box's name.
fn dolby(raw: Element<'_>) -> Option<DolbyVision> {
    let names = [b"dvcC", b"dvvC", b"dvwC"].map(|n| u64::from(u32::from_be_bytes(*n)));
    ebml::children(raw.body)
        .filter(|e| e.id == id::BLOCK_ADDITION_MAPPING)
        .filter(|m| {
            m.child(id::BLOCK_ADD_ID_TYPE).and_then(Element::uint).is_some_and(|t| names.contains(&t))
        })
        .find_map(|m| DolbyVision::parse(m.child(id::BLOCK_ADD_ID_EXTRA)?.body))
}

fn audio(
    index: usize,
    raw: Element<'_>,
    track: &Track,
    settings: &::matroska::Audio,
    private: Option<&[u8]>,
) -> Result<Stream, Fail> {
    let element = raw.child(id::AUDIO);
    let output_rate =
        element.and_then(|a| a.child(id::OUTPUT_SAMPLE_RATE)).and_then(Element::float).filter(|r| *r > 0.0);
    // A muxer leaves out what equals the default, mono at 8 kHz (section 5.1.4.1.29); the crate
    // then says zero.
    let given = |id| element.is_some_and(|a| a.child(id).is_some());
    let rate = match output_rate {
        Some(rate) => rate,
        None if !given(id::SAMPLE_RATE) => 8_000.0,
        None => settings.sample_rate,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to an integer saturates, and zero is refused below"
    )]
    let mut sample_rate = rate.round() as u32;
    let mut channels = match given(id::CHANNELS) {
        true => u32::try_from(settings.channels).unwrap_or(0),
        false => 1,
    };
    let mut bit_depth = settings.bit_depth.and_then(|b| u8::try_from(b).ok()).filter(|b| *b > 0);
    let (mut profile, mut codec_string) = (None, None);
    let codec = match track.codec_id.as_str() {
        "A_AAC" => {
            let Some(f) = private.and_then(aac::config) else {
                return incomplete("the profile of its AAC");
            };
            channels = f.channels.unwrap_or(channels);
            sample_rate = f.sample_rate;
            (profile, codec_string) = (Some(f.profile.to_owned()), Some(f.codec_string));
            bit_depth = None;
            "aac"
        }
        "A_AC3" => "ac3",
        "A_EAC3" => "eac3",
        "A_DTS" => "dts",
        "A_TRUEHD" => "truehd",
        "A_MLP" => "mlp",
        "A_OPUS" => {
            sample_rate = 48_000;
            "opus"
        }
        "A_VORBIS" => "vorbis",
        "A_FLAC" => "flac",
        "A_ALAC" => "alac",
        "A_MPEG/L3" => "mp3",
        "A_MPEG/L2" => "mp2",
        "A_PCM/INT/LIT" => match bit_depth {
            Some(8) => "pcm_u8",
            Some(16) => "pcm_s16le",
            Some(24) => "pcm_s24le",
            Some(32) => "pcm_s32le",
            _ => return incomplete("the width of its PCM"),
        },
        "A_PCM/INT/BIG" => match bit_depth {
            Some(16) => "pcm_s16be",
            Some(24) => "pcm_s24be",
            _ => return incomplete("the width of its PCM"),
        },
        other => return incomplete(format!("what `{other}` sound is")),
    };
    if !matches!(codec, "flac" | "alac" | "truehd") && !codec.starts_with("pcm") {
        bit_depth = None;
    }
    if channels == 0 || sample_rate == 0 {
        return incomplete(format!("channels and rate of its {codec}"));
    }
    let kind = Audio { channels, channel_layout: None, sample_rate, bit_depth, objects: false };
    let mut s = facts::stream(index, codec, StreamKind::Audio(kind));
    s.codec_string = codec_string.or_else(|| audio_codec_string(codec).map(str::to_owned));
    s.profile = profile;
    Ok(s)
}

fn subtitle(index: usize, codec_id: &str) -> Stream {
    let (codec, text) = match codec_id {
        "S_TEXT/UTF8" => ("subrip", true),
        "S_TEXT/ASS" | "S_TEXT/SSA" | "S_ASS" | "S_SSA" => ("ass", true),
        "S_TEXT/WEBVTT" | "D_WEBVTT/SUBTITLES" => ("webvtt", true),
        "S_HDMV/PGS" => ("hdmv_pgs_subtitle", false),
        "S_HDMV/TEXTST" => ("hdmv_text_subtitle", false),
        "S_VOBSUB" => ("dvd_subtitle", false),
        "S_DVBSUB" => ("dvb_subtitle", false),
        _ => ("unknown", false),
    };
    facts::stream(index, codec, StreamKind::Subtitle(Subtitle { text, external: None }))
}

/// Bits per second by track, from the statistics that mkvmerge writes.
fn bitrates(parsed: &Matroska) -> BTreeMap<u64, u64> {
    let mut out = BTreeMap::new();
    for tag in &parsed.tags {
        let Some(targets) = &tag.targets else { continue };
        let bps = tag.simple.iter().find(|s| s.name == "BPS" || s.name.starts_with("BPS-"));
        let Some(TagValue::String(text)) = bps.and_then(|s| s.value.as_ref()) else { continue };
        let Some(bps) = text.trim().parse().ok().filter(|b| *b > 0) else { continue };
        for uid in &targets.track_uids {
            out.insert(*uid, bps);
        }
    }
    out
}

/// The earliest time that is shown, from the first block of each track of sound or picture.
fn first_time<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    map: &Map,
    clock: &Clock,
    raw: &[Element<'_>],
    tracks: &[Track],
) -> Result<i64, Fail> {
    let mut waiting: BTreeMap<u64, i64> = BTreeMap::new();
    for (raw, track) in raw.iter().zip(tracks) {
        if matches!(track.tracktype, Tracktype::Video | Tracktype::Audio) {
            let delay_ns = raw.child(id::CODEC_DELAY).and_then(Element::uint).unwrap_or(0);
            waiting.insert(track.number, i64::try_from(delay_ns / 1_000).unwrap_or(0));
        }
    }
    let Some((cluster_at, cluster)) = map.found.get(&id::CLUSTER).copied() else {
        return incomplete("where it starts, as it has no cluster");
    };
    let mut at = cluster_at + cluster.header_bytes;
    let end = cluster.size.map_or(map.segment_end, |s| at.saturating_add(s).min(map.segment_end));
    let (mut cluster_ticks, mut first) = (None, None);
    for _ in 0..MAX_FIRST_BLOCKS {
        if waiting.is_empty() || at + 2 > end {
            break;
        }
        let h = header_at(reader, at)?;
        let body = at + h.header_bytes;
        let Some(size) = h.size else { break };
        match h.id {
            id::TIMESTAMP if size <= 8 => {
                let bytes = reader.read_at(body, size)?;
                cluster_ticks = Element { id: h.id, body: &bytes }.uint();
            }
            // Step into the group; its block is the first that is looked for there.
            id::BLOCK_GROUP => {
                at = body;
                continue;
            }
            id::SIMPLE_BLOCK | id::BLOCK if size >= 4 => {
                let bytes = reader.read_at(body, size.min(12))?;
                if let Some((number, ticks)) = block_time(&bytes, cluster_ticks)
                    && let Some(delay_us) = waiting.remove(&number)
                {
                    let us = clock.us(ticks) - delay_us;
                    first = Some(first.map_or(us, |f: i64| f.min(us)));
                }
            }
            id::CLUSTER => break,
            _ => {}
        }
        at = body.saturating_add(size);
    }
    match first {
        Some(us) => Ok(us),
        None => incomplete("where it starts"),
    }
}

/// Track number and time of a block (section 10.1).
fn block_time(bytes: &[u8], cluster_ticks: Option<u64>) -> Option<(u64, i64)> {
    let first = *bytes.first()?;
    let len = first.leading_zeros() as usize + 1;
    if len > 8 {
        return None;
    }
    let raw = bytes.get(..len)?.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
    let number = raw & ((1_u64 << (7 * len)) - 1);
    let time = bytes.get(len..len + 2)?;
    let relative = i64::from(i16::from_be_bytes([time[0], time[1]]));
    Some((number, i64::try_from(cluster_ticks?).ok()?.checked_add(relative)?))
}

/// Names, types and sizes of the attached files; their bytes are not read.
fn attachments<R: Read + Seek>(reader: &mut BudgetReader<R>, map: &Map) -> Result<Vec<Attachment>, Fail> {
    let Some((at, h)) = map.found.get(&id::ATTACHMENTS).copied() else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    walk(reader, at, h, &mut |reader, file_at, file| {
        if file.id != id::ATTACHED_FILE || out.len() >= MAX_ATTACHMENTS {
            return Ok(());
        }
        let mut one = Attachment { name: String::new(), mime: String::new(), size_bytes: 0 };
        walk(reader, file_at, file, &mut |reader, at, h| {
            match h.id {
                id::FILE_DATA => one.size_bytes = h.size.unwrap_or(0),
                id::FILE_NAME | id::FILE_MIME => {
                    let body = read_body(reader, at, h, 4096)?;
                    let text = Element { id: h.id, body: &body }.text();
                    if h.id == id::FILE_NAME {
                        one.name = text;
                    } else {
                        one.mime = text;
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        out.push(one);
        Ok(())
    })?;
    Ok(out)
}

type Visit<'a, R> = dyn FnMut(&mut BudgetReader<R>, u64, Header) -> Result<(), Fail> + 'a;

/// Visits the children of an element in the file; the budget bounds their number.
fn walk<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    at: u64,
    parent: Header,
    visit: &mut Visit<'_, R>,
) -> Result<(), Fail> {
    let mut at = at + parent.header_bytes;
    let Some(end) = parent.size.and_then(|s| at.checked_add(s)) else {
        return malformed("ebml: unknown size");
    };
    while at < end {
        let h = header_at(reader, at)?;
        let next = h.size.and_then(|s| at.checked_add(h.header_bytes)?.checked_add(s));
        let Some(next) = next.filter(|n| *n <= end) else {
            return malformed("ebml: an element does not fit in its parent");
        };
        visit(reader, at, h)?;
        at = next;
    }
    Ok(())
}

/// FFmpeg counts attached files as streams, pictures among them as covers.
fn attachment_streams(first: usize, attachments: &[Attachment]) -> Vec<Stream> {
    let one = |(n, a): (usize, &Attachment)| {
        let cover = match a.mime.as_str() {
            "image/jpeg" => Some("mjpeg"),
            "image/png" => Some("png"),
            "image/webp" => Some("webp"),
            "image/gif" => Some("gif"),
            "image/tiff" => Some("tiff"),
            _ => None,
        };
        let mut s = match cover {
            Some(codec) => facts::stream(first + n, codec, StreamKind::Video(Video::default())),
            None => facts::stream(first + n, "unknown", StreamKind::Data),
        };
        s.disposition.attached_picture = cover.is_some();
        s.title = Some(a.name.clone()).filter(|n| !n.is_empty());
        s
    };
    attachments.iter().enumerate().map(one).collect()
}

/// Key frames of a track from its cues; `None` when they are missing or too far apart.
fn key_frames(cues: &[u8], track: u64, clock: &Clock, start_us: i64, end_us: i64) -> Option<KeyframeIndex> {
    let mut at_us = Vec::new();
    for point in ebml::children(cues).filter(|e| e.id == id::CUE_POINT) {
        let of_track = ebml::children(point.body)
            .filter(|e| e.id == id::CUE_TRACK_POSITIONS)
            .any(|p| p.child(id::CUE_TRACK).and_then(Element::uint) == Some(track));
        if of_track {
            let ticks = point.child(id::CUE_TIME)?.uint()?;
            at_us.push((clock.us(i64::try_from(ticks).ok()?) - start_us).max(0));
        }
    }
    at_us.sort_unstable();
    at_us.dedup();
    at_us.retain(|at| *at < end_us);
    let first = *at_us.first()?;
    let last = *at_us.last()?;
    let widest = at_us.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
    let widest = widest.max(first).max(end_us - last);
    (widest <= MAX_CUE_GAP_US).then_some(KeyframeIndex { at_us, end_us, source: KeyframeSource::Cues })
}

/// The chapters of the default edition, else of the first.
fn chapter_list(parsed: &Matroska, start_us: i64) -> Vec<Chapter> {
    let edition = parsed
        .chapters
        .iter()
        .find(|e| e.default && !e.hidden)
        .or_else(|| parsed.chapters.iter().find(|e| !e.hidden));
    let Some(edition) = edition else { return Vec::new() };
    let start_s = seconds(start_us);
    let mut out: Vec<Chapter> = edition
        .chapters
        .iter()
        .filter(|c| !c.hidden)
        .map(|c| Chapter {
            start_s: (c.time_start.as_secs_f64() - start_s).max(0.0),
            end_s: c.time_end.map(|e| (e.as_secs_f64() - start_s).max(0.0)),
            title: c.display.first().map(|d| d.string.clone()).filter(|t| !t.is_empty()),
        })
        .collect();
    out.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    out
}

/// Tags of the file as a whole, and the segment's title.
fn tag_list(parsed: &Matroska) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for tag in &parsed.tags {
        let whole = tag.targets.as_ref().is_none_or(|t| {
            t.track_uids.is_empty()
                && t.chapter_uids.is_empty()
                && t.edition_uids.is_empty()
                && t.attachment_uids.is_empty()
        });
        for simple in tag.simple.iter().filter(|_| whole).take(500) {
            if let Some(TagValue::String(text)) = &simple.value
                && !text.is_empty()
            {
                out.insert(simple.name.to_lowercase(), text.clone());
            }
        }
    }
    if let Some(title) = parsed.info.title.clone().filter(|t| !t.is_empty()) {
        out.insert("title".to_owned(), title);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(ms: u16, track: u8) -> Vec<u8> {
        let mut positions = Vec::new();
        ebml::put(&mut positions, id::CUE_TRACK, &[track]);
        let mut point = Vec::new();
        ebml::put(&mut point, id::CUE_TIME, &ms.to_be_bytes());
        ebml::put(&mut point, id::CUE_TRACK_POSITIONS, &positions);
        let mut out = Vec::new();
        ebml::put(&mut out, id::CUE_POINT, &point);
        out
    }

    #[test]
    fn only_the_cues_of_the_picture_count_and_only_when_they_are_close() {
        let clock = Clock { scale_ns: 1_000_000, duration_us: None };
        let cues = [cue(21, 1), cue(1_000, 2), cue(8_021, 1), cue(4_021, 1), cue(8_021, 1)].concat();
        let index = key_frames(&cues, 1, &clock, 21_000, 10_000_000).unwrap();
        assert_eq!(index.at_us, [0, 4_000_000, 8_000_000]);
        assert_eq!((index.end_us, index.source), (10_000_000, KeyframeSource::Cues));
        assert_eq!(key_frames(&cues, 1, &clock, 21_000, 39_000_000), None);
        assert_eq!(key_frames(&cues, 3, &clock, 0, 10_000_000), None);
        assert_eq!(key_frames(&cue(40_000, 1), 1, &clock, 0, 50_000_000), None);
    }

    #[test]
    fn a_block_tells_its_track_and_time() {
        assert_eq!(block_time(&[0x81, 0, 21, 0x80], Some(1_000)), Some((1, 1_021)));
        assert_eq!(block_time(&[0x40, 0x80, 0xff, 0xff], Some(1_000)), Some((128, 999)));
        assert_eq!(block_time(&[0x81, 0, 21], None), None);
        assert_eq!(block_time(&[0x81, 0], Some(0)), None);
        assert_eq!(block_time(&[0, 0, 0], Some(0)), None);
    }
}
