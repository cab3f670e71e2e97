//! ISO BMFF: times and tables from the `mp4` crate, which sees a checked and pruned index in memory;
//! sample entries, which it knows few of, by our own readers.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek};

use ::mp4::{Mp4Reader, Mp4Track};

use super::facts::{self, Picture};
use super::{Fail, Probed, incomplete, malformed, mostly_there};
use crate::codec::colour::Colour;
use crate::codec::dolby::DolbyVision;
use crate::codec::{VideoFacts, aac, audio_codec_string, av1, h264, hevc, reduced, vp9};
use crate::container::isobmff::{self, VISUAL_ENTRY_BYTES, at_path, be16, be32, child, children};
use crate::guard::{BudgetReader, Limits, contain};
use crate::info::{Audio, Chapter, Disposition, MediaInfo, Prober, Stream, StreamKind, Subtitle, Video};
use crate::keyframes::{KeyframeIndex, KeyframeSource};
use crate::language;

/// Tracks of one file; real ones have some dozens.
const MAX_TRACKS: usize = 256;

pub(super) fn probe<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    max_index_bytes: u64,
) -> Result<Probed, Fail> {
    let size_bytes = reader.size_bytes();
    let top = isobmff::top(reader, max_index_bytes)?;
    let (present, claimed) = isobmff::media_behind(reader, top.after_moov)?;
    mostly_there(present, claimed)?;
    isobmff::check(&top.moov)?;
    if child(&top.moov, b"mvex").is_some() {
        return incomplete("its length, which is in the fragments");
    }
    if child(&top.moov, b"cmov").is_some() {
        return incomplete("what is in its compressed index");
    }
    let parsed = parse(&top.moov)?;
    let raw: Vec<&[u8]> = children(&top.moov).filter(|b| b.kind == *b"trak").map(|b| b.body).collect();
    // The crate keeps tracks by their id; in the file's order, which FFmpeg counts in, by these.
    let ids = parsed.moov.traks.iter().map(|t| t.tkhd.track_id);
    let tracks: Vec<&Mp4Track> = ids.filter_map(|id| parsed.tracks().get(&id)).collect();
    if raw.len() != tracks.len() || raw.len() != parsed.tracks().len() || raw.len() > MAX_TRACKS {
        return malformed("isobmff (moov): tracks do not add up");
    }
    let movie = Movie { timescale: parsed.timescale() };
    if movie.timescale == 0 {
        return malformed("isobmff (mvhd): timescale of zero");
    }
    let chapter_tracks = chapter_tracks(&raw);
    let mut streams = Vec::with_capacity(raw.len());
    let mut times = Vec::with_capacity(raw.len());
    for (index, (raw, track)) in raw.iter().zip(&tracks).enumerate() {
        let time = timeline(&movie, track)?;
        let is_chapters = chapter_tracks.contains(&track.track_id());
        streams.push(stream(index, raw, track, &time, is_chapters)?);
        times.push(time);
    }
    let udta = child(&top.moov, b"udta");
    let mut chapters = udta.map_or_else(Vec::new, chapters);
    if chapters.is_empty() && !chapter_tracks.is_empty() {
        return incomplete("its chapters, which are samples of a track");
    }

    let playable = |s: &Stream| matches!(s.kind, StreamKind::Video(_) | StreamKind::Audio(_));
    let spans = || streams.iter().zip(&times).filter(|(s, _)| playable(s)).map(|(_, t)| t);
    let start_us = spans().map(|t| t.start_us).min().unwrap_or(0);
    let end_us = spans().map(|t| t.end_us).max().unwrap_or(0);
    if end_us <= start_us {
        return incomplete("its length");
    }
    let main = streams.iter().position(|s| matches!(s.kind, StreamKind::Video(_)));
    let keyframes =
        main.and_then(|n| key_frames(tracks[n], &times[n], intra_only(&streams[n].codec), start_us, end_us));
    let (keyframes, lead_in_ms) = keyframes.unzip();
    if let Some(StreamKind::Video(v)) = main.map(|n| &mut streams[n].kind) {
        v.lead_in_ms = lead_in_ms.unwrap_or(0);
    }
    for c in &mut chapters {
        c.start_s = (c.start_s - seconds(start_us)).max(0.0);
    }
    let ilst = udta.and_then(|u| child(u, b"meta")).and_then(item_list);
    let tags = ilst.map_or_else(BTreeMap::new, tags);
    if let Some(cover) = ilst.and_then(cover_codec) {
        let index = streams.len();
        let mut s = facts::stream(index, cover, StreamKind::Video(Video::default()));
        s.disposition.attached_picture = true;
        streams.push(s);
    }
    let duration_us = end_us - start_us;
    let bits = u128::from(size_bytes) * 8_000_000;
    let info = MediaInfo {
        container: container_word(&top.ftyp).to_owned(),
        size_bytes,
        duration_s: Some(seconds(duration_us)),
        start_s: seconds(start_us),
        bitrate_bps: u128::try_from(duration_us).ok().and_then(|d| u64::try_from(bits / d).ok()),
        streams,
        chapters,
        tags,
        attachments: Vec::new(),
        clock_restarts: Vec::new(),
        probed_by: Prober::Mp4,
    };
    Ok(Probed { info, keyframes })
}

/// `mov` for QuickTime's brand and for files from before brands.
fn container_word(ftyp: &[u8]) -> &'static str {
    match ftyp.get(..4) {
        Some(b"qt  ") | None => "mov",
        _ => "mp4",
    }
}

type Parsed = Mp4Reader<BudgetReader<Cursor<Vec<u8>>>>;

fn parse(moov: &[u8]) -> Result<Parsed, Fail> {
    let pruned = isobmff::pruned(moov);
    let size = pruned.len() as u64;
    // The crate reads at least one byte a call on sound input, and often four.
    let limits = Limits { max_calls: size + 10_000, max_bytes: size * 4 + 65_536, ..Limits::default() };
    let read = contain(|| {
        let reader = BudgetReader::new(Cursor::new(pruned), size, limits)?;
        Mp4Reader::read_header(reader, size)
    });
    match read {
        Ok(Ok(parsed)) => Ok(parsed),
        Ok(Err(e)) => malformed(format!("isobmff: {e}")),
        Err(panic) => malformed(format!("isobmff: the parser gave up: {panic}")),
    }
}

struct Movie {
    timescale: u32,
}

/// When a track is shown, in microseconds of the presentation.
struct Timeline {
    timescale: u32,
    /// Empty edit before it.
    delay_us: i64,
    /// First media time that is shown, in its own clock.
    media_start: i64,
    start_us: i64,
    end_us: i64,
    samples: u64,
    /// Length of most samples, when all but the last have the same.
    even_delta: Option<u32>,
    media_duration: u64,
}

fn rescale(value: i64, timescale: u32) -> i64 {
    let us = (i128::from(value) * 1_000_000).div_euclid(i128::from(timescale.max(1)));
    i64::try_from(us).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years fit 53 bits")]
fn seconds(us: i64) -> f64 {
    us as f64 / 1_000_000.0
}

fn timeline(movie: &Movie, track: &Mp4Track) -> Result<Timeline, Fail> {
    let trak = &track.trak;
    let timescale = trak.mdia.mdhd.timescale;
    if timescale == 0 {
        return malformed("isobmff (mdhd): timescale of zero");
    }
    let stbl = &trak.mdia.minf.stbl;
    let (mut samples, mut media_duration) = (0_u64, 0_u64);
    for e in &stbl.stts.entries {
        let run = u64::from(e.sample_count) * u64::from(e.sample_delta);
        samples = samples.saturating_add(e.sample_count.into());
        media_duration = media_duration.saturating_add(run);
    }
    let even_delta = match stbl.stts.entries.as_slice() {
        [one] => Some(one.sample_delta),
        [one, last] if last.sample_count == 1 => Some(one.sample_delta),
        _ => None,
    };
    let first_offset =
        stbl.ctts.as_ref().and_then(|c| c.entries.first()).map_or(0, |e| i64::from(e.sample_offset));
    let edits = edits(movie, track)?;
    let shown_from = edits.media_start.unwrap_or(0);
    let start_us = edits.delay_us + rescale((first_offset - shown_from).max(0), timescale);
    let media_end = i64::try_from(media_duration).unwrap_or(i64::MAX);
    let by_media = edits.delay_us.saturating_add(rescale(
        // Without an edit the first picture's offset moves everything.
        if edits.media_start.is_some() {
            media_end - shown_from
        } else {
            media_end.saturating_add(first_offset)
        },
        timescale,
    ));
    let end_us = match edits.length_us {
        Some(length) if length > 0 => edits.delay_us.saturating_add(length),
        _ => by_media,
    };
    Ok(Timeline {
        timescale,
        delay_us: edits.delay_us,
        media_start: shown_from,
        start_us,
        end_us,
        samples,
        even_delta,
        media_duration,
    })
}

#[derive(Default)]
struct Edits {
    delay_us: i64,
    media_start: Option<i64>,
    length_us: Option<i64>,
}

/// Edit list (section 8.6.6): empty edits, then one stretch of the media. More than one stretch is a
/// film that jumps, which only the worker plays.
fn edits(movie: &Movie, track: &Mp4Track) -> Result<Edits, Fail> {
    let mut out = Edits::default();
    let Some(elst) = track.trak.edts.as_ref().and_then(|e| e.elst.as_ref()) else {
        return Ok(out);
    };
    for e in &elst.entries {
        let length = i64::try_from(e.segment_duration).map_or(i64::MAX, |d| rescale(d, movie.timescale));
        let empty = if elst.version == 1 { u64::MAX } else { u64::from(u32::MAX) };
        if e.media_time == empty {
            if out.media_start.is_some() {
                continue; // nothing after the film
            }
            out.delay_us = out.delay_us.saturating_add(length);
        } else if out.media_start.is_some() || e.media_rate != 1 || e.media_rate_fraction != 0 {
            return incomplete("what its edit list plays");
        } else {
            out.media_start = i64::try_from(e.media_time).ok();
            out.length_us = Some(length);
        }
    }
    // A delay of a century is damage.
    if out.delay_us > 1_000_000 * 3_600 * 1_000 {
        return malformed("isobmff (elst): an empty edit of more than a thousand hours");
    }
    Ok(out)
}

fn chapter_tracks(traks: &[&[u8]]) -> Vec<u32> {
    let mut out = Vec::new();
    for trak in traks {
        if let Some(ids) = at_path(trak, &[b"tref", b"chap"]) {
            out.extend(ids.chunks_exact(4).filter_map(|c| be32(c, 0)));
        }
    }
    out
}

fn stream(
    index: usize,
    raw: &[u8],
    track: &Mp4Track,
    time: &Timeline,
    is_chapters: bool,
) -> Result<Stream, Fail> {
    let trak = &track.trak;
    let handler = u32::from(&trak.mdia.hdlr.handler_type).to_be_bytes();
    let entry = at_path(raw, &[b"mdia", b"minf", b"stbl", b"stsd"])
        .and_then(|stsd| stsd.get(8..))
        .and_then(|entries| children(entries).next());
    let mut out = match (&handler, entry) {
        _ if is_chapters => facts::stream(index, "bin_data", StreamKind::Data),
        (b"vide", Some(e)) => video(index, e.kind, e.body, track, time)?,
        (b"soun", Some(e)) => audio(index, e.kind, e.body)?,
        (b"sbtl" | b"text" | b"subt" | b"subp" | b"clcp", Some(e)) => subtitle(index, e.kind),
        (b"vide" | b"soun", None) => return malformed("isobmff (stsd): no sample entry"),
        _ => facts::stream(index, "unknown", StreamKind::Data),
    };
    if let Some(e) = entry {
        out.codec_tag = tag(e.kind);
    }
    out.language = language::normalise(&trak.mdia.mdhd.language).map(str::to_owned);
    out.title = track_name(raw);
    out.time_base = [1, time.timescale];
    out.duration_s = Some(seconds(time.end_us - time.start_us)).filter(|d| *d > 0.0);
    out.bitrate_bps = out.bitrate_bps.or_else(|| bitrate(track, time));
    // FFmpeg reads the enabled flag of a track as its default flag.
    out.disposition = Disposition { default: trak.tkhd.flags & 1 == 1, ..kinds(raw) };
    Ok(out)
}

fn tag(kind: [u8; 4]) -> Option<String> {
    kind.iter()
        .all(|b| b.is_ascii_graphic() || *b == b' ')
        .then(|| kind.iter().map(|b| char::from(*b)).collect())
}

fn track_name(raw: &[u8]) -> Option<String> {
    let name = at_path(raw, &[b"udta", b"name"])?;
    let text = String::from_utf8_lossy(name).trim_matches('\0').trim().to_owned();
    Some(text).filter(|t| !t.is_empty() && t.chars().count() <= 200)
}

/// Roles of a track (DASH role scheme in `kind` boxes of `udta`, as FFmpeg writes them).
fn kinds(raw: &[u8]) -> Disposition {
    let mut out = Disposition::default();
    let Some(udta) = child(raw, b"udta") else { return out };
    for one in children(udta).filter(|b| b.kind == *b"kind") {
        let Some(text) = one.body.get(4..) else { continue };
        let value = text.split(|b| *b == 0).nth(1).unwrap_or_default();
        match value {
            b"forced-subtitle" | b"forced_subtitle" => out.forced = true,
            b"commentary" => out.commentary = true,
            b"caption" => out.hearing_impaired = true,
            b"description" => out.visual_impaired = true,
            _ => {}
        }
    }
    out
}

fn bitrate(track: &Mp4Track, time: &Timeline) -> Option<u64> {
    let stsz = &track.trak.mdia.minf.stbl.stsz;
    let bytes: u64 = if stsz.sample_size > 0 {
        u64::from(stsz.sample_size).checked_mul(stsz.sample_count.into())?
    } else {
        stsz.sample_sizes.iter().map(|s| u64::from(*s)).sum()
    };
    let length = u128::from(time.media_duration).checked_mul(1)?;
    let bits = u128::from(bytes) * 8 * u128::from(time.timescale);
    u64::try_from(bits.checked_div(length)?).ok().filter(|b| *b > 0)
}

fn video(
    index: usize,
    kind: [u8; 4],
    body: &[u8],
    track: &Mp4Track,
    time: &Timeline,
) -> Result<Stream, Fail> {
    let boxes = body.get(VISUAL_ENTRY_BYTES..).unwrap_or_default();
    let word = tag(kind).unwrap_or_default();
    let dolby =
        [b"dvcC", b"dvvC", b"dvwC"].into_iter().find_map(|k| child(boxes, k)).and_then(DolbyVision::parse);
    let (codec, facts) = match &kind {
        b"avc1" => ("h264", avc_facts(boxes, track)),
        b"hvc1" | b"hev1" | b"dvh1" | b"dvhe" => {
            ("hevc", child(boxes, b"hvcC").and_then(|r| hevc::hvcc(r, &word)))
        }
        b"av01" | b"dav1" => ("av1", child(boxes, b"av1C").and_then(av1::av1c)),
        b"vp09" => ("vp9", child(boxes, b"vpcC").and_then(vp9::vpcc)),
        _ => return incomplete(format!("what `{word}` pictures are")),
    };
    let Some(mut facts) = facts else { return incomplete(format!("the profile of `{word}` pictures")) };
    if let (Some(dolby), "dvh1" | "dvhe" | "dav1" | "dva1" | "dvav") = (dolby, word.as_str()) {
        facts.codec_string = dolby.codec_string(&word);
    }
    let size = (be16(body, 24).unwrap_or(0).into(), be16(body, 26).unwrap_or(0).into());
    let picture = Picture {
        size,
        sample_aspect: pixel_aspect(boxes, track, facts.size.unwrap_or(size)),
        rotation: rotation(track)?,
        colour: child(boxes, b"colr").and_then(colr),
        dolby,
        interlaced: child(boxes, b"fiel").and_then(|f| f.first()).map(|fields| *fields == 2),
        frame_rate: frame_rate(time),
    };
    let mut s = facts::stream(index, codec, StreamKind::Video(facts::video(&facts, picture)?));
    s.codec_string = Some(facts.codec_string);
    s.profile = Some(facts.profile);
    Ok(s)
}

/// The first sequence parameter set, as the crate has it; its own record where it is not one of the
/// entries that the crate was given.
fn avc_facts(boxes: &[u8], track: &Mp4Track) -> Option<VideoFacts> {
    let sets = track.trak.mdia.minf.stbl.stsd.avc1.as_ref().map(|a| &a.avcc.sequence_parameter_sets);
    match sets.and_then(|s| s.first()) {
        Some(nal) => h264::sps(&nal.bytes),
        None => h264::avcc(child(boxes, b"avcC")?),
    }
}

fn pixel_aspect(boxes: &[u8], track: &Mp4Track, stored: (u32, u32)) -> Option<[u32; 2]> {
    if let Some(pasp) = child(boxes, b"pasp")
        && let (Some(w @ 1..), Some(h @ 1..)) = (be32(pasp, 0), be32(pasp, 4))
    {
        return reduced(w.into(), h.into());
    }
    // The track's size is as shown (section 8.3.2), in 16.16.
    let tkhd = &track.trak.tkhd;
    let shown = (tkhd.width.raw_value().into(), tkhd.height.raw_value().into());
    facts::aspect(shown, (stored.0.into(), stored.1.into()))
}

fn colr(body: &[u8]) -> Option<Colour> {
    let kind = body.get(..4)?;
    let code = |at| be16(body, at).and_then(|c| u8::try_from(c).ok());
    let full_range = match kind {
        b"nclx" => Some(body.get(10)? & 0x80 != 0),
        b"nclc" => None,
        _ => return None,
    };
    Some(Colour { primaries: code(4)?, transfer: code(6)?, matrix: code(8)?, full_range })
}

/// Quarter turns of the track's matrix (section 8.3.2); anything else needs the worker's geometry.
fn rotation(track: &Mp4Track) -> Result<u16, Fail> {
    let m = &track.trak.tkhd.matrix;
    let one = 0x1_0000;
    Ok(match (m.a, m.b, m.c, m.d) {
        (a, 0, 0, d) if a == one && d == one => 0,
        (0, b, c, 0) if b == one && c == -one => 90,
        (a, 0, 0, d) if a == -one && d == -one => 180,
        (0, b, c, 0) if b == -one && c == one => 270,
        // Some muxers leave the matrix empty.
        (0, 0, 0, 0) => 0,
        _ => return incomplete("how its picture is turned"),
    })
}

fn frame_rate(time: &Timeline) -> Option<[u32; 2]> {
    match time.even_delta {
        Some(delta) if delta > 0 => reduced(time.timescale.into(), delta.into()),
        _ => reduced(time.samples.checked_mul(time.timescale.into())?, time.media_duration),
    }
    .or_else(|| {
        // An average of a variable rate may not fit 32 bits exactly; thousandths are near enough.
        let milli = u128::from(time.samples) * u128::from(time.timescale) * 1_000
            / u128::from(time.media_duration.max(1));
        reduced(u64::try_from(milli).ok()?, 1_000)
    })
}

fn audio(index: usize, kind: [u8; 4], body: &[u8]) -> Result<Stream, Fail> {
    let word = tag(kind).unwrap_or_default();
    let version = be16(body, 8).unwrap_or(0);
    let (mut channels, mut rate) =
        (u32::from(be16(body, 16).unwrap_or(0)), be32(body, 24).unwrap_or(0) >> 16);
    let bits = be16(body, 18).unwrap_or(0);
    // QuickTime's longer entries have more fields before their boxes.
    let boxes_at = match version {
        0 => 28,
        1 => 44,
        _ => return incomplete(format!("what `{word}` sound is")),
    };
    let boxes = body.get(boxes_at..).unwrap_or_default();
    let find = |k: &[u8; 4]| child(boxes, k).or_else(|| at_path(boxes, &[b"wave", k]));
    let (mut codec_string, mut profile, mut bit_depth, mut bitrate_bps) = (None, None, None, None);
    let mut objects = false;
    let codec = match &kind {
        b"mp4a" => {
            let Some(es) = find(b"esds").and_then(aac::esds) else {
                return incomplete("what `mp4a` sound is");
            };
            bitrate_bps = Some(u64::from(es.average_bps)).filter(|b| *b > 0);
            match es.object_type {
                0x40 | 0x66..=0x68 => {
                    let Some(f) = aac::config(es.config) else {
                        return incomplete("the profile of its AAC");
                    };
                    channels = f.channels.unwrap_or(channels);
                    rate = f.sample_rate;
                    codec_string = Some(f.codec_string);
                    profile = Some(f.profile.to_owned());
                    "aac"
                }
                // Their records do not hold the channels, and the sample entry says two for all.
                n => return incomplete(format!("what sound of type {n:#x} is")),
            }
        }
        b"ac-3" => {
            (channels, rate) = find(b"dac3").and_then(dac3).unwrap_or((channels, rate));
            "ac3"
        }
        b"ec-3" => {
            objects = find(b"dec3").is_some_and(has_objects);
            (channels, rate) = find(b"dec3").and_then(dec3).unwrap_or((channels, rate));
            "eac3"
        }
        b"Opus" => {
            channels = find(b"dOps").and_then(|d| d.get(1)).map_or(channels, |c| u32::from(*c));
            rate = 48_000;
            "opus"
        }
        b"fLaC" => {
            // STREAMINFO behind its block header: 20 bits rate, 3 channels, 5 depth (RFC 9639).
            let Some(info) = find(b"dfLa").and_then(|d| be32(d, 4 + 4 + 10)) else {
                return incomplete("the rate of its FLAC");
            };
            (rate, channels) = (info >> 12, (info >> 9 & 7) + 1);
            bit_depth = u8::try_from((info >> 4 & 31) + 1).ok();
            "flac"
        }
        b"alac" => {
            if let Some(c) = find(b"alac").filter(|c| c.len() >= 28) {
                (bit_depth, channels) = (Some(c[9]), u32::from(c[13]));
                rate = be32(c, 24).unwrap_or(rate);
            }
            "alac"
        }
        b".mp3" => "mp3",
        b"sowt" if bits == 16 => {
            bit_depth = Some(16);
            "pcm_s16le"
        }
        b"twos" if bits == 16 => {
            bit_depth = Some(16);
            "pcm_s16be"
        }
        b"in24" => {
            bit_depth = Some(24);
            "pcm_s24be"
        }
        b"dtsc" | b"dtsh" | b"dtsl" | b"dtse" => "dts",
        _ => return incomplete(format!("what `{word}` sound is")),
    };
    if channels == 0 || rate == 0 {
        return incomplete(format!("channels and rate of its {codec}"));
    }
    let kind = Audio { channels, channel_layout: None, sample_rate: rate, bit_depth, objects };
    let mut s = facts::stream(index, codec, StreamKind::Audio(kind));
    s.codec_string = codec_string.or_else(|| audio_codec_string(codec).map(str::to_owned));
    s.profile = profile;
    s.bitrate_bps = bitrate_bps;
    Ok(s)
}

/// Channels and rate of an `AC3SpecificBox` (ETSI TS 102 366 annex F.4).
fn dac3(body: &[u8]) -> Option<(u32, u32)> {
    let [a, b, ..] = *body else { return None };
    let rate = DOLBY_RATES.get(usize::from(a >> 6)).copied()?;
    Some((DOLBY_CHANNELS[usize::from(b >> 3 & 7)] + u32::from(b >> 2 & 1), rate))
}

/// Sample rates by `fscod`, and channels by `acmod` (ETSI TS 102 366 section 4.4).
const DOLBY_RATES: [u32; 3] = [48_000, 44_100, 32_000];
const DOLBY_CHANNELS: [u32; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

/// Channels and rate of an `EC3SpecificBox` (annex F.6): the first independent substream and what its
/// dependent ones add. The sample entry always says two.
fn dec3(body: &[u8]) -> Option<(u32, u32)> {
    let [_, _, a, b, c, rest @ ..] = body else { return None };
    let rate = DOLBY_RATES.get(usize::from(a >> 6)).copied()?;
    let mut channels = DOLBY_CHANNELS[usize::from(b >> 1 & 7)] + u32::from(b & 1);
    if c >> 1 & 15 > 0 {
        let places = u32::from(c & 1) << 8 | u32::from(*rest.first()?);
        // Lc/Rc, Lrs/Rrs, Cs, Ts, Lsd/Rsd, Lw/Rw, Lvh/Rvh, Cvh, LFE2, from the lowest bit.
        for (bit, adds) in [2, 2, 1, 1, 2, 2, 2, 1, 1].into_iter().enumerate() {
            if places >> bit & 1 == 1 {
                channels += adds;
            }
        }
    }
    Some((channels, rate))
}

/// Whether an `EC3SpecificBox` announces sound objects (`flag_ec3_extension_type_a` behind the
/// substreams, ETSI TS 103 420 section 8.3.1).
fn has_objects(body: &[u8]) -> bool {
    let Some(head) = body.get(1) else { return false };
    let mut at = 2;
    for _ in 0..=head & 7 {
        let Some(dependent) = body.get(at + 2) else { return false };
        at += if dependent >> 1 & 15 > 0 { 4 } else { 3 };
    }
    body.get(at).is_some_and(|b| b & 1 == 1)
}

fn subtitle(index: usize, kind: [u8; 4]) -> Stream {
    let (codec, text) = match &kind {
        b"tx3g" | b"text" => ("mov_text", true),
        b"wvtt" => ("webvtt", true),
        b"stpp" => ("ttml", true),
        b"c608" => ("eia_608", true),
        b"mp4s" => ("dvd_subtitle", false),
        _ => ("unknown", false),
    };
    facts::stream(index, codec, StreamKind::Subtitle(Subtitle { text, external: None }))
}

fn intra_only(codec: &str) -> bool {
    matches!(codec, "prores" | "mjpeg" | "dnxhd" | "rawvideo" | "ffv1")
}

/// Key frames as they are shown: `stss` through `stts`, `ctts` and the edit list.
fn key_frames(
    track: &Mp4Track,
    time: &Timeline,
    intra_only: bool,
    start_us: i64,
    end_us: i64,
) -> Option<(KeyframeIndex, u32)> {
    let stbl = &track.trak.mdia.minf.stbl;
    // Without `stss` every sample is one, by the standard; muxers that forgot it make that a lie for
    // every codec that predicts.
    let all: Vec<u32>;
    let numbers = match &stbl.stss {
        Some(stss) => &stss.entries,
        None if intra_only && time.samples <= 10_000_000 => {
            all = (1..=u32::try_from(time.samples).ok()?).collect();
            &all
        }
        None => return None,
    };
    let mut decode = Runs::new(stbl.stts.entries.iter().map(|e| (e.sample_count, i64::from(e.sample_delta))));
    let mut offsets = stbl
        .ctts
        .as_ref()
        .map(|c| Runs::new(c.entries.iter().map(|e| (e.sample_count, i64::from(e.sample_offset)))));
    let mut at_us = Vec::with_capacity(numbers.len());
    for &n in numbers {
        let (_, into, before, delta) = decode.seek(n.checked_sub(1)?)?;
        let dts = before.checked_add(i64::from(into).checked_mul(delta)?)?;
        let offset = match &mut offsets {
            Some(runs) => runs.seek(n - 1)?.3,
            None => 0,
        };
        let media = dts.checked_add(offset)?.checked_sub(time.media_start)?;
        let at = time.delay_us.checked_add(rescale(media, time.timescale))? - start_us;
        at_us.push(at);
    }
    let lead_in_ms = lead_in_ms(&at_us);
    // A picture before the edit is decoded for what follows: it serves the start.
    at_us.iter_mut().for_each(|at| *at = (*at).max(0));
    at_us.sort_unstable();
    at_us.dedup();
    at_us.retain(|at| *at < end_us - start_us);
    if at_us.is_empty() {
        return None;
    }
    let index = KeyframeIndex { at_us, end_us: end_us - start_us, source: KeyframeSource::SampleTable };
    Some((index, lead_in_ms))
}

/// From the last key frame before the presentation to its beginning, unless one begins it; clocks
/// round to a millisecond.
fn lead_in_ms(at_us: &[i64]) -> u32 {
    match at_us.iter().filter(|at| **at < 2_000).max() {
        Some(before) if *before < -2_000 => u32::try_from(-before / 1_000).unwrap_or(u32::MAX),
        _ => 0,
    }
}

/// Runs of samples with one value each, walked forward. A run's count is not bounded by the size of
/// its table, so nothing here goes sample by sample.
struct Runs<I> {
    entries: I,
    current: Option<(u32, i64)>,
    /// First sample of the current run, and the sum of count times value before it.
    first: u32,
    before: i64,
}

impl<I: Iterator<Item = (u32, i64)>> Runs<I> {
    fn new(mut entries: I) -> Self {
        let current = entries.next();
        Self { entries, current, first: 0, before: 0 }
    }

    /// For sample `n`, counted from 0 and never below the one asked before: first sample of its run,
    /// samples into it, sum before it, value. `None` past the end.
    fn seek(&mut self, n: u32) -> Option<(u32, u32, i64, i64)> {
        loop {
            let (count, value) = self.current?;
            let into = n.checked_sub(self.first)?;
            if into < count {
                return Some((self.first, into, self.before, value));
            }
            self.first = self.first.checked_add(count)?;
            self.before = self.before.checked_add(i64::from(count).checked_mul(value)?)?;
            self.current = self.entries.next();
        }
    }
}

/// Chapters of a `chpl` box (Nero's; undocumented, as FFmpeg writes it): times in 100 ns.
fn chapters(udta: &[u8]) -> Vec<Chapter> {
    let Some(body) = child(udta, b"chpl") else { return Vec::new() };
    let list = if body.first() == Some(&1) { body.get(8..) } else { body.get(4..) };
    let Some((count, mut rest)) = list.and_then(<[u8]>::split_first) else { return Vec::new() };
    let mut out: Vec<Chapter> = Vec::new();
    for _ in 0..*count {
        let Some((head, after)) = rest.split_at_checked(9) else { break };
        let Some(title) = after.get(..usize::from(head[8])) else { break };
        let start = u64::from_be_bytes(head[..8].try_into().unwrap_or_default()) / 10;
        let title = String::from_utf8_lossy(title).into_owned();
        out.push(Chapter {
            start_s: seconds(i64::try_from(start).unwrap_or(i64::MAX)),
            end_s: None,
            title: Some(title).filter(|t| !t.is_empty()),
        });
        rest = &after[usize::from(head[8])..];
    }
    out
}

/// The body of `ilst`, in a `meta` box with version and flags or, QuickTime's, without.
fn item_list(meta: &[u8]) -> Option<&[u8]> {
    let boxes = if meta.get(4..8) == Some(b"hdlr") { meta } else { meta.get(4..)? };
    child(boxes, b"ilst")
}

fn tags(ilst: &[u8]) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for item in children(ilst).take(500) {
        let key = match &item.kind {
            b"\xa9nam" => "title",
            b"\xa9ART" => "artist",
            b"aART" => "album_artist",
            b"\xa9alb" => "album",
            b"\xa9day" => "date",
            b"\xa9gen" => "genre",
            b"\xa9cmt" => "comment",
            b"desc" => "description",
            b"ldes" => "synopsis",
            b"tvsh" => "show",
            b"\xa9too" => "encoder",
            b"\xa9wrt" => "composer",
            b"trkn" => "track",
            b"disk" => "disc",
            b"tvsn" => "season_number",
            b"tves" => "episode_sort",
            _ => continue,
        };
        let Some(data) = child(item.body, b"data") else { continue };
        let (Some(kind), Some(value)) = (be32(data, 0), data.get(8..)) else { continue };
        let text = match (key, kind & 0xff_ffff) {
            ("track" | "disc", 0) => match (be16(value, 2), be16(value, 4)) {
                (Some(n), Some(of @ 1..)) => format!("{n}/{of}"),
                (Some(n), _) => n.to_string(),
                _ => continue,
            },
            (_, 1) => String::from_utf8_lossy(value).into_owned(),
            (_, 21) if value.len() <= 8 => {
                value.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b)).to_string()
            }
            _ => continue,
        };
        if !text.is_empty() && text.len() <= 16_384 {
            out.insert(key.to_owned(), text);
        }
    }
    out
}

/// Codec of the first cover.
fn cover_codec(ilst: &[u8]) -> Option<&'static str> {
    let data = at_path(ilst, &[b"covr", b"data"])?;
    match data.get(8..)? {
        [0xff, 0xd8, ..] => Some("mjpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("png"),
        [b'B', b'M', ..] => Some("bmp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_walked_without_counting_samples() {
        let mut r = Runs::new([(2, 10), (0, 99), (u32::MAX - 2, 3)].into_iter());
        assert_eq!(r.seek(0), Some((0, 0, 0, 10)));
        assert_eq!(r.seek(1), Some((0, 1, 0, 10)));
        assert_eq!(r.seek(2), Some((2, 0, 20, 3)));
        assert_eq!(r.seek(u32::MAX - 1), Some((2, u32::MAX - 3, 20, 3)));
        assert_eq!(r.seek(u32::MAX), None);
        assert_eq!(r.seek(0), None);
    }

    #[test]
    fn a_chapter_list_cut_short_gives_what_is_there() {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0, 2];
        body.extend([0, 0, 0, 0, 0, 0, 0, 0, 3]);
        body.extend(b"One");
        body.extend([0, 0, 0, 0, 0x01, 0xc9, 0xc3, 0x80, 3]);
        body.extend(b"Two");
        let read = |body: &[u8]| {
            let mut udta = u32::try_from(body.len() + 8).unwrap().to_be_bytes().to_vec();
            udta.extend(b"chpl");
            udta.extend(body);
            chapters(&udta).into_iter().map(|c| (c.start_s, c.title.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(read(&body), [(0.0, "One".to_owned()), (3.0, "Two".to_owned())]);
        assert_eq!(read(&body[..body.len() - 1]).len(), 1);
        assert_eq!(read(&body[..8]).len(), 0);
    }

    #[test]
    fn ac_3_channels_come_from_its_record() {
        // 48 kHz, mode 7 (3/2) with LFE; 44.1 kHz stereo.
        assert_eq!(dac3(&[0x10, 0x3c, 0]), Some((6, 48_000)));
        assert_eq!(dac3(&[0x50, 0x10, 0]), Some((2, 44_100)));
        assert_eq!(dac3(&[0xd0, 0x10, 0]), None);
        // E-AC-3 5.1 by itself, and 7.1 by a dependent substream with the rear pair.
        assert_eq!(dec3(&[0x06, 0x00, 0x20, 0x0f, 0x00]), Some((6, 48_000)));
        assert_eq!(dec3(&[0x06, 0x00, 0x20, 0x0f, 0x02, 0x02]), Some((8, 48_000)));
        assert_eq!(dec3(&[0x06, 0x00, 0x20, 0x0f, 0x02]), None);
        assert!(!has_objects(&[0x06, 0x00, 0x20, 0x0f, 0x00]));
        assert!(has_objects(&[0x06, 0x00, 0x20, 0x0f, 0x00, 0x01, 0x10]));
        assert!(has_objects(&[0x06, 0x00, 0x20, 0x0f, 0x02, 0x02, 0x01, 0x10]));
        assert!(!has_objects(&[0x06, 0x07, 0x20]) && !has_objects(&[]));
    }
}
