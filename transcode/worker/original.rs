//! Subtitles and fonts as the file has them, for a client that draws them itself.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use spindle_transcode::original::{self, Script, TooLarge};
use spindle_transcode::protocol::Reply;

use crate::ff::{Facts, Fail, Input, Media, NOPTS, Packet, Result};
use crate::segment::{us, write_out};
use crate::talk::Talk;

/// What is written, by what the stream is.
enum Out {
    Ass(Script),
    Pgs(Vec<u8>),
    Vobsub(Vec<u8>),
}

impl Out {
    fn of(facts: &Facts) -> Result<Self> {
        match facts.codec.as_str() {
            "ass" | "ssa" => Ok(Self::Ass(Script::new(&facts.extradata))),
            "hdmv_pgs_subtitle" => Ok(Self::Pgs(Vec::new())),
            "dvd_subtitle" => Ok(Self::Vobsub(original::vobsub_head(&facts.extradata))),
            other => Err(Fail::request(format!("subtitles of the format `{other}` go out converted"))),
        }
    }

    fn push(&mut self, data: &[u8], from_us: i64, span_us: i64) -> Result<()> {
        let pushed = match self {
            Self::Ass(script) => script.push(data, from_us, from_us.saturating_add(span_us)),
            Self::Pgs(out) => original::push_pgs(out, data, from_us),
            Self::Vobsub(out) => original::push_vobsub(out, data, from_us),
        };
        pushed.map_err(|TooLarge| Fail::unreadable("these subtitles are larger than any are"))
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Ass(script) => script.finish().into_bytes(),
            Self::Pgs(out) | Self::Vobsub(out) => out,
        }
    }
}

/// Writes a subtitle stream as it is.
pub(crate) fn write(talk: &Talk, mut input: Input, stream: usize, output: OwnedFd) -> Result<()> {
    if stream >= input.streams() || input.facts(stream).media != Media::Subtitle {
        return Err(Fail::request(format!("stream {stream} is no subtitle")));
    }
    let facts = input.facts(stream);
    let mut out = Out::of(&facts)?;
    let start_us = if input.start_us() == NOPTS { 0 } else { input.start_us() };
    input.only(&[stream]);
    let mut packet = Packet::new();
    let mut last_word = Instant::now();
    while input.read(&mut packet)? {
        if last_word.elapsed() > Duration::from_millis(500) {
            last_word = Instant::now();
            talk.send(&Reply::Progress { at_us: 0 });
        }
        // What was read to find out what the file holds is handed over first, whosever it is.
        if packet.stream() != stream {
            continue;
        }
        let Some(pts) = packet.pts() else { continue };
        let span_us = us(packet.duration(), facts.time_base, 0);
        out.push(packet.data(), us(pts, facts.time_base, start_us), span_us)?;
    }
    let len_bytes = write_out(output.into(), &[&out.finish()])?;
    talk.send(&Reply::Written { len_bytes });
    Ok(())
}

/// Writes the font that is attached under this name.
pub(crate) fn font(talk: &Talk, input: &Input, name: &str, output: OwnedFd) -> Result<()> {
    let attached = (0..input.streams())
        .map(|i| input.facts(i))
        .find(|f| f.media == Media::Attachment && f.tags.get("filename").is_some_and(|n| n == name))
        .ok_or_else(|| Fail::unreadable("there is no such font in the file"))?;
    if attached.extradata.len() > original::MAX_FONT_BYTES || !original::is_font(&attached.extradata) {
        return Err(Fail::unreadable("what is attached under this name is no font"));
    }
    let len_bytes = write_out(output.into(), &[&attached.extradata])?;
    talk.send(&Reply::Written { len_bytes });
    Ok(())
}
