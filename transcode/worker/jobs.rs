//! Jobs of one answer: the key frame index, a picture as JPEG.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use spindle_media::keyframes::{KeyframeIndex, KeyframeSource};
use spindle_transcode::Picture;
use spindle_transcode::bitstream;
use spindle_transcode::protocol::Reply;

use crate::ff::{
    AVCodecID, AVPixelFormat, Decoder, Encoder, Facts, Fail, Frame, Input, Media, NOPTS, Packet, Result,
    VideoSettings,
};
use crate::picture::Shape;
use crate::segment::{stream_time, us, write_out};
use crate::talk::Talk;

/// AV_DISPOSITION_ATTACHED_PIC.
const COVER: u32 = 0x400;

fn main_video(input: &Input) -> Result<Facts> {
    (0..input.streams())
        .map(|i| input.facts(i))
        .find(|f| f.media == Media::Video && f.disposition & COVER == 0)
        .ok_or_else(|| Fail::unreadable("there is no video in the file"))
}

fn start_us(input: &Input) -> i64 {
    if input.start_us() == NOPTS { 0 } else { input.start_us() }
}

/// Reads every packet of the main video and notes where decoding can start.
pub(crate) fn keyframes(talk: &Talk, mut input: Input) -> Result<()> {
    let f = main_video(&input)?;
    let start = start_us(&input);
    let hevc = f.codec_id == AVCodecID::AV_CODEC_ID_HEVC;
    let nal = hevc || f.codec_id == AVCodecID::AV_CODEC_ID_H264;
    let size = f.extradata.get(if hevc { 21 } else { 4 }).map_or(4, |b| usize::from(b & 3) + 1);
    input.only(&[f.index]);
    let mut at_us = Vec::new();
    let mut end_us = input.duration_us().unwrap_or(0);
    let mut packet = Packet::new();
    let mut last_word = Instant::now();
    while input.read(&mut packet)? {
        let Some(pts) = packet.pts().or(packet.dts()) else { continue };
        let at = us(pts, f.time_base, start);
        end_us = end_us.max(us(pts + packet.duration(), f.time_base, start));
        let starts = packet.is_key()
            && (!nal || {
                let data = packet.data();
                if bitstream::is_annex_b(data) {
                    bitstream::nals(data).any(|n| bitstream::starts_decoding(n, hevc))
                } else {
                    bitstream::length_nals(data, size).any(|n| bitstream::starts_decoding(n, hevc))
                }
            });
        if starts {
            at_us.push(at);
        }
        if last_word.elapsed() >= Duration::from_millis(500) {
            last_word = Instant::now();
            input.source().take_rows();
            talk.send(&Reply::Progress { at_us: at });
        }
    }
    at_us.sort_unstable();
    at_us.dedup();
    talk.send(&Reply::Index { index: KeyframeIndex { at_us, end_us, source: KeyframeSource::Scan } });
    Ok(())
}

/// Writes the cover or a picture of the film as JPEG.
pub(crate) fn picture(
    talk: &Talk,
    mut input: Input,
    what: Picture,
    max_width: u32,
    output: OwnedFd,
) -> Result<()> {
    let jpeg = match what {
        Picture::Cover => cover(&mut input, max_width)?,
        Picture::Frame { at_us } => still(&mut input, at_us, max_width)?,
    };
    let len_bytes = write_out(output.into(), &[&jpeg])?;
    talk.send(&Reply::Written { len_bytes });
    Ok(())
}

fn cover(input: &mut Input, max_width: u32) -> Result<Vec<u8>> {
    let f = (0..input.streams())
        .map(|i| input.facts(i))
        .find(|f| f.media == Media::Video && (f.disposition & COVER != 0 || input.streams() == 1))
        .ok_or_else(|| Fail::unreadable("there is no cover in the file"))?;
    if f.codec == "mjpeg"
        && u32::try_from(f.width).is_ok_and(|w| w <= max_width)
        && let Some(data) = input.attached_picture(f.index)
    {
        return Ok(data);
    }
    let mut decoder = Decoder::open(input, f.index, false)?;
    input.only(&[f.index]);
    first_frame(input, &mut decoder, &f, i64::MIN, max_width)
}

fn still(input: &mut Input, at_us: i64, max_width: u32) -> Result<Vec<u8>> {
    let f = main_video(input)?;
    let start = start_us(input);
    let mut decoder = Decoder::open(input, f.index, true)?;
    input.only(&[f.index]);
    if at_us > 0 && !input.seek(f.index, stream_time(at_us + start, f.time_base)) {
        input.rewind(f.index);
    }
    first_frame(input, &mut decoder, &f, at_us, max_width)
}

/// The first picture at or after the time, or the last before it.
fn first_frame(
    input: &mut Input,
    decoder: &mut Decoder,
    f: &Facts,
    at_us: i64,
    max_width: u32,
) -> Result<Vec<u8>> {
    let start = start_us(input);
    let tone_map = matches!(f.color_transfer.as_deref(), Some("smpte2084" | "arib-std-b67"));
    let shape = Shape::new(f, Some(max_width), None, tone_map, "yuvj420p")?;
    let mut packet = Packet::new();
    let mut frame = Frame::new();
    let mut best: Option<Frame> = None;
    let mut more = true;
    while more {
        more = input.read(&mut packet)?;
        decoder.send(more.then_some(&packet));
        while decoder.receive(&mut frame) {
            let at = frame.time().map_or(i64::MIN, |t| us(t, f.time_base, start));
            best = Some(frame.take());
            if at >= at_us {
                more = false;
                break;
            }
        }
    }
    let mut frame = best.ok_or_else(|| Fail::unreadable("no picture can be decoded there"))?;
    frame.set_pts(0);
    let mut graph = shape.graph(&frame)?;
    graph.send(Some(&mut frame))?;
    graph.send(None)?;
    let mut out = Frame::new();
    if !graph.receive(&mut out) {
        return Err(Fail::fault("the filters gave no picture"));
    }
    let mut encoder = Encoder::video(&VideoSettings {
        encoder: "mjpeg",
        width: shape.width,
        height: shape.height,
        rate: (25, 1),
        max_rate: None,
        preset: "",
        quick: false,
        pixel_format: AVPixelFormat::AV_PIX_FMT_YUVJ420P,
        colors: [None, None, None],
        still: true,
    })?;
    out.set_pts(0);
    encoder.send(Some(&out))?;
    encoder.send(None)?;
    let mut packet = Packet::new();
    if !encoder.receive(&mut packet) {
        return Err(Fail::fault("the encoder gave no picture"));
    }
    Ok(packet.data().to_vec())
}
