//! A file described: what the demuxer says, in the words of `spindle_media::info`.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use spindle_media::codec::h264;
use spindle_media::info::{
    Attachment, Audio, Chapter, Disposition, Hdr, MediaInfo, Prober, Stream, StreamKind, Subtitle, Video,
};
use spindle_media::language;
use spindle_transcode::bitstream;

use crate::ff::{AVCodecID, AVFieldOrder, Facts, Fail, Input, Media, NOPTS, Packet, Result};
use crate::segment;
use crate::source::Source;

/// Longest search for the length of a file; the server gives a prober 15 s a file.
const LONGEST_LOOK: Duration = Duration::from_secs(8);

/// Describes the file.
pub(crate) fn describe(fd: OwnedFd, name: &str) -> Result<MediaInfo> {
    let mut source =
        Source::new(fd).map_err(|e| Fail::unreadable(format!("the file cannot be read: {e}")))?;
    let clock_restarts = source.find_restarts();
    let size_bytes = source.size();
    let mut input = Input::open(source, name, true)?;
    let streams: Vec<Facts> = (0..input.streams()).map(|i| input.facts(i)).collect();
    if !streams.iter().any(|f| matches!(f.media, Media::Video | Media::Audio | Media::Subtitle)) {
        return Err(Fail::unreadable("it holds neither picture nor sound"));
    }
    let damaged = |f: &Facts| match f.media {
        Media::Video => f.width == 0,
        Media::Audio => f.sample_rate == 0,
        _ => true,
    };
    if streams.iter().all(damaged) && !streams.iter().any(|f| f.media == Media::Subtitle) {
        return Err(Fail::unreadable("damaged: no picture or sound in it can be decoded"));
    }
    // Recordings that were cut off or streamed have no length in their header.
    let duration_us = match input.duration_us() {
        Some(us) => Some(us),
        None => length_us(&mut input, &streams)?,
    };
    let start_us = Some(input.start_us()).filter(|t| *t != NOPTS).unwrap_or(0);
    let demuxer = input.demuxer();
    let tags = input.tags();
    let mut attachments = Vec::new();
    for f in streams.iter().filter(|f| f.media == Media::Attachment) {
        attachments.push(Attachment {
            name: f.tags.get("filename").cloned().unwrap_or_default(),
            mime: f.tags.get("mimetype").cloned().unwrap_or_default(),
            size_bytes: f.extradata.len() as u64,
        });
    }
    let lead_in_ms = if demuxer.starts_with("mov") { lead_in_ms(&mut input, &streams, start_us)? } else { 0 };
    Ok(MediaInfo {
        container: container(&demuxer, name, &tags, &streams),
        size_bytes,
        duration_s: duration_us.map(|us| us as f64 / 1e6),
        start_s: start_us as f64 / 1e6,
        bitrate_bps: u64::try_from(input.bit_rate()).ok().filter(|b| *b > 0),
        chapters: input
            .chapters()
            .into_iter()
            .map(|c| Chapter {
                start_s: c.start_s - start_us as f64 / 1e6,
                end_s: (c.end_s > c.start_s).then_some(c.end_s - start_us as f64 / 1e6),
                title: c.title,
            })
            .collect(),
        tags,
        attachments,
        clock_restarts,
        probed_by: Prober::Worker,
        streams: streams.into_iter().map(|f| stream(f, lead_in_ms)).collect(),
    })
}

/// By how much the first packet of an H.264 picture is shown before the presentation begins: an edit
/// list begins it between two key frames.
fn lead_in_ms(input: &mut Input, streams: &[Facts], start_us: i64) -> Result<u32> {
    /// Packets of other tracks before it; files are interleaved by a second or so.
    const MOST: usize = 2_000;
    let main = |f: &&Facts| f.media == Media::Video && f.disposition & 0x400 == 0;
    let Some(f) = streams.iter().find(main).filter(|f| f.codec_id == AVCodecID::AV_CODEC_ID_H264) else {
        return Ok(0);
    };
    input.only(&[f.index]);
    let mut packet = Packet::new();
    for _ in 0..MOST {
        if !input.read(&mut packet)? {
            break;
        }
        if packet.stream() != f.index {
            continue;
        }
        let first = packet.pts().or(packet.dts()).map_or(0, |t| segment::us(t, f.time_base, start_us));
        return Ok(if first < -2_000 { u32::try_from(-first / 1_000).unwrap_or(u32::MAX) } else { 0 });
    }
    Ok(0)
}

/// The length by reading every packet; `None` if that takes longer than a prober may.
fn length_us(input: &mut Input, streams: &[Facts]) -> Result<Option<i64>> {
    let shown: Vec<usize> = streams
        .iter()
        .filter(|f| matches!(f.media, Media::Video | Media::Audio) && f.disposition & 0x400 == 0)
        .map(|f| f.index)
        .collect();
    input.only(&shown);
    let start_us = Some(input.start_us()).filter(|t| *t != NOPTS).unwrap_or(0);
    let began = Instant::now();
    let mut packet = Packet::new();
    let mut end_us = 0;
    while input.read(&mut packet)? {
        if began.elapsed() > LONGEST_LOOK {
            return Ok(None);
        }
        if let (Some(f), Some(t)) = (streams.get(packet.stream()), packet.pts().or(packet.dts())) {
            end_us = end_us.max(segment::us(t + packet.duration().max(0), f.time_base, start_us));
        }
    }
    Ok((end_us > 0).then_some(end_us))
}

fn container(demuxer: &str, name: &str, tags: &BTreeMap<String, String>, streams: &[Facts]) -> String {
    let extension = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase()).unwrap_or_default();
    let first = demuxer.split(',').next().unwrap_or(demuxer);
    match first {
        "matroska" => {
            // The demuxer does not tell the document type; what WebM may hold does.
            let webm = streams
                .iter()
                .all(|f| matches!(f.codec.as_str(), "vp8" | "vp9" | "av1" | "opus" | "vorbis" | "webvtt"));
            if webm && extension == "webm" { "webm" } else { "mkv" }
        }
        "mov" => match tags.get("major_brand").map(String::as_str) {
            Some("qt  ") => "mov",
            None if extension == "mov" => "mov",
            _ => "mp4",
        },
        "mpegts" if matches!(extension.as_str(), "m2ts" | "mts") => "m2ts",
        "mpeg" => "mpegps",
        "jpeg_pipe" => "jpeg",
        "png_pipe" => "png",
        "webp_pipe" => "webp",
        other => other,
    }
    .to_owned()
}

fn stream(f: Facts, lead_in_ms: u32) -> Stream {
    let kind = match f.media {
        Media::Video => StreamKind::Video(video(&f, lead_in_ms)),
        Media::Audio => StreamKind::Audio(Audio {
            channels: f.channels.max(0) as u32,
            channel_layout: f.layout.clone(),
            sample_rate: f.sample_rate.max(0) as u32,
            // Containers claim 16 or 32 bits of lossy sound, which has none.
            bit_depth: u8::try_from(f.sample_bits).ok().filter(|b| *b > 0 && keeps_bits(&f.codec)),
            // FFmpeg's names: `Dolby Digital Plus + Dolby Atmos`, `Dolby TrueHD + Dolby Atmos`, `DTS-HD MA + DTS:X`.
            objects: f.profile_name.as_deref().is_some_and(|p| p.contains("Atmos") || p.contains("DTS:X")),
        }),
        Media::Subtitle => StreamKind::Subtitle(Subtitle { text: is_text(&f.codec), external: None }),
        Media::Attachment | Media::Other => StreamKind::Data,
    };
    let d = |bit: u32| f.disposition & bit != 0;
    Stream {
        index: f.index as u32,
        codec_string: codec_string(&f),
        codec_tag: tag(f.tag),
        profile: f.profile_name.clone(),
        language: f.tags.get("language").and_then(|l| language::normalise(l)).map(str::to_owned),
        title: f.tags.get("title").cloned(),
        bitrate_bps: u64::try_from(f.bit_rate)
            .ok()
            .filter(|b| *b > 0)
            .or_else(|| f.tags.get("bps").and_then(|b| b.parse().ok())),
        duration_s: f.duration.map(|t| t as f64 * f64::from(f.time_base.0) / f64::from(f.time_base.1.max(1))),
        time_base: [f.time_base.0.max(1) as u32, f.time_base.1.max(1) as u32],
        // Bits of libavformat/avformat.h, AV_DISPOSITION_*.
        disposition: Disposition {
            default: d(0x1),
            original: d(0x4),
            commentary: d(0x8),
            forced: d(0x40),
            hearing_impaired: d(0x80),
            visual_impaired: d(0x100),
            attached_picture: d(0x400),
        },
        codec: f.codec,
        kind,
    }
}

/// Whether samples come back as they were: only then do they have a number of bits.
fn keeps_bits(codec: &str) -> bool {
    codec.starts_with("pcm_")
        || matches!(
            codec,
            "flac"
                | "alac"
                | "truehd"
                | "mlp"
                | "dts"
                | "wavpack"
                | "tta"
                | "ape"
                | "tak"
                | "wmalossless"
                | "shorten"
        )
}

/// Whether FFmpeg decodes this subtitle to text.
pub(crate) fn is_text(codec: &str) -> bool {
    !matches!(
        codec,
        "hdmv_pgs_subtitle" | "dvd_subtitle" | "dvb_subtitle" | "xsub" | "dvb_teletext" | "unknown"
    )
}

fn tag(tag: u32) -> Option<String> {
    let bytes = tag.to_le_bytes();
    bytes.iter().all(|b| (0x20..0x7f).contains(b)).then(|| bytes.iter().map(|b| char::from(*b)).collect())
}

fn video(f: &Facts, lead_in_ms: u32) -> Video {
    let rate = [f.avg_rate, f.real_rate].into_iter().find(|r| r.0 > 0 && r.1 > 0);
    Video {
        width: f.width.max(0) as u32,
        height: f.height.max(0) as u32,
        level: u32::try_from(f.level).ok().filter(|l| *l > 0),
        bit_depth: f.bit_depth,
        pixel_format: f.pixel_format.clone(),
        fps: rate.map(|r| f64::from(r.0) / f64::from(r.1)),
        frame_rate: rate.map(|r| [r.0 as u32, r.1 as u32]),
        sample_aspect: (f.sar.0 > 0 && f.sar.1 > 0 && f.sar.0 != f.sar.1)
            .then_some([f.sar.0 as u32, f.sar.1 as u32]),
        rotation: f.rotation,
        lead_in_ms: if f.codec_id == AVCodecID::AV_CODEC_ID_H264 { lead_in_ms } else { 0 },
        interlaced: is_interlaced(f),
        ref_frames: ref_frames(f),
        hdr: hdr(f),
        dv_profile: f.dovi.map(|d| d.profile),
        dv_level: f.dovi.map(|d| d.level),
        dv_compatibility: f.dovi.map(|d| d.compatibility),
        color_primaries: f.color_primaries.clone(),
        color_transfer: f.color_transfer.clone(),
        color_space: f.color_space.clone(),
        color_range: f.color_range.clone(),
    }
}

/// Reference frames of H.264 by its first sequence parameter set; others do not tell by their header.
fn ref_frames(f: &Facts) -> Option<u8> {
    if f.codec_id != AVCodecID::AV_CODEC_ID_H264 {
        return None;
    }
    let e = f.extradata.as_slice();
    let facts = if bitstream::is_annex_b(e) {
        bitstream::nals(e).find(|n| bitstream::nal_kind(n, false) == 7).and_then(h264::sps)
    } else {
        h264::avcc(e)
    };
    facts?.ref_frames
}

/// Whether the stream's header says that it is made of fields.
pub(crate) fn is_interlaced(f: &Facts) -> bool {
    matches!(
        f.field_order,
        AVFieldOrder::AV_FIELD_TT
            | AVFieldOrder::AV_FIELD_BB
            | AVFieldOrder::AV_FIELD_TB
            | AVFieldOrder::AV_FIELD_BT
    )
}

fn hdr(f: &Facts) -> Hdr {
    if let Some(dovi) = f.dovi {
        return if f.hdr10_plus { dovi.class().with_hdr10_plus() } else { dovi.class() };
    }
    match f.color_transfer.as_deref() {
        Some("smpte2084") if f.hdr10_plus => Hdr::Hdr10Plus,
        Some("smpte2084") => Hdr::Hdr10,
        Some("arib-std-b67") => Hdr::Hlg,
        None if f.mastering => Hdr::Hdr10,
        None if f.bit_depth.is_some_and(|d| d > 8) && f.color_primaries.is_none() => Hdr::Unknown,
        _ => Hdr::Sdr,
    }
}

/// RFC 6381 and the registrations that it leads to.
fn codec_string(f: &Facts) -> Option<String> {
    let e = f.extradata.as_slice();
    match f.codec_id {
        AVCodecID::AV_CODEC_ID_H264 => {
            let sps = if bitstream::is_annex_b(e) {
                bitstream::nals(e).find(|n| bitstream::nal_kind(n, false) == 7)?.get(1..4)?
            } else {
                e.get(1..4)?
            };
            Some(format!("avc1.{:02x}{:02x}{:02x}", sps[0], sps[1], sps[2]))
        }
        AVCodecID::AV_CODEC_ID_HEVC if matches!(&f.tag.to_le_bytes(), b"dvh1" | b"dvhe") => {
            let entry = tag(f.tag)?;
            Some(f.dovi?.codec_string(&entry))
        }
        AVCodecID::AV_CODEC_ID_HEVC => {
            // ISO/IEC 14496-15 annex E.3: space and profile, reversed compatibility flags, tier and
            // level, constraint bytes without trailing zeros.
            let general: [u8; 12] = if bitstream::is_annex_b(e) {
                let sps = bitstream::nals(e).find(|n| bitstream::nal_kind(n, true) == 33)?;
                *sps.get(3..)?.first_chunk()?
            } else {
                *e.get(1..)?.first_chunk()?
            };
            let compatibility =
                u32::from_be_bytes([general[1], general[2], general[3], general[4]]).reverse_bits();
            let mut out = format!(
                "hvc1.{}{}.{:X}.{}{}",
                ["", "A", "B", "C"][usize::from(general[0] >> 6)],
                general[0] & 31,
                compatibility,
                if general[0] & 32 == 0 { 'L' } else { 'H' },
                general[11],
            );
            let constraints = &general[5..11];
            let used = constraints.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            for b in &constraints[..used] {
                out.push_str(&format!(".{b:X}"));
            }
            Some(out)
        }
        AVCodecID::AV_CODEC_ID_AV1 => {
            let tier = e.get(2).map_or('M', |b| if b & 0x80 == 0 { 'M' } else { 'H' });
            Some(format!(
                "av01.{}.{:02}{tier}.{:02}",
                f.profile.max(0),
                f.level.max(0),
                f.bit_depth.unwrap_or(8)
            ))
        }
        AVCodecID::AV_CODEC_ID_VP9 => Some(format!(
            "vp09.{:02}.{:02}.{:02}",
            f.profile.max(0),
            if f.level > 0 { f.level } else { 10 },
            f.bit_depth.unwrap_or(8)
        )),
        AVCodecID::AV_CODEC_ID_AAC => Some(match f.profile {
            4 => "mp4a.40.5".to_owned(),
            28 => "mp4a.40.29".to_owned(),
            _ => "mp4a.40.2".to_owned(),
        }),
        AVCodecID::AV_CODEC_ID_AC3 => Some("ac-3".to_owned()),
        AVCodecID::AV_CODEC_ID_EAC3 => Some("ec-3".to_owned()),
        AVCodecID::AV_CODEC_ID_MP3 => Some("mp4a.40.34".to_owned()),
        AVCodecID::AV_CODEC_ID_OPUS => Some("opus".to_owned()),
        AVCodecID::AV_CODEC_ID_FLAC => Some("fLaC".to_owned()),
        AVCodecID::AV_CODEC_ID_VORBIS => Some("vorbis".to_owned()),
        _ => None,
    }
}
