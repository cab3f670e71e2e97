//! The segmenter: packets in file order in, segments in order out, as they are granted.
//!
//! Copied or encoded, a track gives samples with a time of the presentation and the number of
//! their segment. A segment is written when every track has gone past it. Nothing that goes into
//! it depends on where reading began.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{IoSlice, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use spindle_transcode::bitstream;
use spindle_transcode::fmp4::{self, Sample, TrackRun};
use spindle_transcode::protocol::{FailKind, Reply, Request};
use spindle_transcode::{AudioPlan, Boundaries, Container, Plan, VideoPlan, ts};

use crate::ff::{
    self, AVCodecID, AudioSettings, Decoder, Facts, Fail, InitTrack, Input, Media, NOPTS, Packet, Result,
};
use crate::picture::{Made, Pictures};
use crate::sound::{self, Sound};
use crate::subtitle::Burn;
use crate::talk::{Incoming, Say, Talk};

/// A key frame this much before a boundary is the boundary's: Matroska rounds to milliseconds,
/// indexes to their own clock.
const TOLERANCE_US: i64 = 2_000;
/// How far one track may run ahead of another before a segment is written without waiting for it:
/// far more than any sane interleaving, and a bound on memory.
const LAG_US: i64 = 10_000_000;
const LAG_BYTES: usize = 192 << 20;
/// The server kills a worker after six silent seconds.
const WORD_EVERY: Duration = Duration::from_millis(500);

struct Out {
    segment: usize,
    at: i64,
    duration: i64,
    sync: bool,
    data: Payload,
}

enum Payload {
    Packet { packet: Packet, skip: usize },
    Bytes(Vec<u8>),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Packet { packet, skip } => packet.data().get(*skip..).unwrap_or(&[]),
            Self::Bytes(bytes) => bytes,
        }
    }
}

struct Track {
    stream: usize,
    facts: Facts,
    id: u32,
    timescale: i64,
    /// Ticks by which pictures are composed later than shown; the edit list takes it off.
    media_time: i64,
    pending: VecDeque<Out>,
    pending_bytes: usize,
    /// Segments below this have all their samples.
    closed: usize,
    /// Times of first samples of segments that may still be inside an encoder: each ends what is before it.
    begun: Vec<i64>,
    path: Path,
}

enum Path {
    CopyVideo(CopyVideo),
    CopyAudio(CopyAudio),
    Video(Box<Pictures>),
    Audio(Box<Sound>),
}

struct CopyVideo {
    annex_b: bool,
    hevc: bool,
    current: Option<usize>,
    /// A segment has begun with the key frame at this time; the one before it is whole once a
    /// later picture is seen, since pictures that are shown before the key frame follow it.
    closing: Option<(usize, i64)>,
    last: i64,
}

struct CopyAudio {
    adts: bool,
    /// Time stamps are too coarse to be taken as they are: ticks of a millisecond.
    coarse: bool,
    origin: i64,
    last_end: i64,
}

/// A segment that is made and not written yet.
struct Written {
    n: usize,
    epoch: u32,
    file: File,
    head: Vec<u8>,
    samples: Vec<Out>,
    since: Instant,
}

/// Writes segments one after the other, so that the next is read meanwhile. What `ts` is given makes
/// transport stream packets of the fragments. Ends with the process, or when it cannot go on.
fn write_all(say: &Say, ts: Option<&ts::Muxer>, inbox: &Receiver<Written>) {
    for Written { n, epoch, file, head, samples, since } in inbox {
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(samples.len() + 1);
        pieces.push(&head);
        pieces.extend(samples.iter().map(|o| o.data.bytes()));
        let written = match ts {
            None => write_out(file, &pieces),
            // A segment in which nothing is shown has no fragment to write.
            Some(_) if samples.is_empty() => write_out(file, &[]),
            Some(ts) => ts
                .segment(&pieces.concat())
                .map_err(|e| Fail::fault(e.to_string()))
                .and_then(|packets| write_out(file, &[&packets])),
        };
        match written {
            Ok(len_bytes) => {
                let took_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                say.send(&Reply::Done { n: Some(n), epoch, len_bytes, took_us });
            }
            Err(fail) => {
                say.fail(fail);
                return;
            }
        }
    }
}

struct Segmenter<'a> {
    talk: &'a Talk,
    input: Input,
    b: Boundaries,
    start_us: i64,
    tracks: Vec<Track>,
    burn_stream: Option<usize>,
    init: Vec<u8>,
    writer: SyncSender<Written>,
    replay: VecDeque<Packet>,
    /// A packet for which the encoder's row had no room.
    held: Option<Packet>,
    pristine: bool,
    at_end: bool,
    next: usize,
    epoch: u32,
    placed: bool,
    grants: VecDeque<(usize, u32, File)>,
    since: Instant,
    last_word: Instant,
    /// Packets read; with what the encoders count it tells whether anything moves.
    packets: u64,
    moved: u64,
    at_us: i64,
}

/// Serves one rendition until the server ends it.
pub(crate) fn run(talk: &Talk, input: Input, plan: &Plan) -> Result<()> {
    if !plan.boundaries.are_valid() {
        return Err(Fail::request("the boundaries do not ascend"));
    }
    let mut me = Segmenter::open(talk, input, plan)?;
    let encodes = me.tracks.iter().any(|t| matches!(t.path, Path::Video(_)));
    let encoder = if encodes { "software" } else { "copy" };
    me.tell_reads();
    talk.send(&Reply::Opened { encoder: encoder.to_owned() });
    loop {
        if me.grants.is_empty() {
            me.take(talk.next())?;
        }
        loop {
            match talk.inbox.try_recv() {
                Ok(incoming) => me.take(incoming)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        me.step()?;
    }
}

impl<'a> Segmenter<'a> {
    fn open(talk: &'a Talk, mut input: Input, plan: &Plan) -> Result<Self> {
        let start_us = plan.start_us.unwrap_or(match input.start_us() {
            NOPTS => 0,
            us => us,
        });
        let mut replay = VecDeque::new();
        let plan = &Plan { video: copyable(&mut input, plan, start_us, &mut replay)?, ..plan.clone() };
        let mut tracks = Vec::new();
        let mut burn_stream = None;
        let facts_of = |input: &Input, stream: u32, media: Media| {
            let i = stream as usize;
            if i >= input.streams() || input.facts(i).media != media {
                return Err(Fail::request(format!("stream {stream} is not {media:?}")));
            }
            Ok(input.facts(i))
        };
        if let Some(video) = &plan.video {
            let (VideoPlan::Copy { stream } | VideoPlan::Encode { stream, .. }) = video;
            let facts = facts_of(&input, *stream, Media::Video)?;
            let path = match video {
                VideoPlan::Copy { .. } => {
                    let nal =
                        matches!(facts.codec_id, AVCodecID::AV_CODEC_ID_H264 | AVCodecID::AV_CODEC_ID_HEVC);
                    Path::CopyVideo(CopyVideo {
                        annex_b: nal
                            && (facts.extradata.is_empty() || bitstream::is_annex_b(&facts.extradata)),
                        hevc: facts.codec_id == AVCodecID::AV_CODEC_ID_HEVC,
                        current: None,
                        closing: None,
                        last: i64::MIN,
                    })
                }
                VideoPlan::Encode { burn_subtitle, .. } => {
                    let burn = match burn_subtitle {
                        Some(s) => {
                            let sub = facts_of(&input, *s, Media::Subtitle)?;
                            burn_stream = Some(sub.index);
                            Some(Burn::new(&input, &sub, &facts)?)
                        }
                        None => None,
                    };
                    let decoder = Decoder::open(&input, facts.index, true)?;
                    let tb = facts.time_base;
                    let to_ticks = move |t| ticks(t, tb, start_us, i64::from(ff::VIDEO_CLOCK));
                    let b = &plan.boundaries.0;
                    Path::Video(Box::new(Pictures::new(decoder, &facts, video, b, burn, to_ticks)?))
                }
            };
            tracks.push(Track::new(facts, path));
        }
        if let Some(audio) = &plan.audio {
            let (AudioPlan::Copy { stream } | AudioPlan::Encode { stream, .. }) = audio;
            let facts = facts_of(&input, *stream, Media::Audio)?;
            let path = match audio {
                AudioPlan::Copy { .. } => Path::CopyAudio(CopyAudio {
                    adts: facts.codec_id == AVCodecID::AV_CODEC_ID_AAC && facts.extradata.is_empty(),
                    coarse: facts.time_base.1 <= 1000,
                    origin: 0,
                    last_end: i64::MIN,
                }),
                AudioPlan::Encode { codec, channels, bitrate_bps, sample_rate, .. } => {
                    let settings = audio_settings(&facts, codec, *channels, *bitrate_bps, *sample_rate)?;
                    let decoder = Decoder::open(&input, facts.index, false)?;
                    let sound = Sound::new(decoder, &facts, settings, &plan.boundaries.0, start_us)?;
                    Path::Audio(Box::new(sound))
                }
            };
            tracks.push(Track::new(facts, path));
        }
        if tracks.is_empty() {
            return Err(Fail::request("the plan has no stream"));
        }
        let mut wanted: Vec<usize> = tracks.iter().map(|t| t.stream).collect();
        wanted.extend(burn_stream);
        input.only(&wanted);
        // One is written while the next is made, and no more are kept in memory.
        let (writer, to_write) = sync_channel(1);
        let mut me = Self {
            talk,
            input,
            b: plan.boundaries.clone(),
            start_us,
            tracks,
            burn_stream,
            init: Vec::new(),
            writer,
            replay,
            held: None,
            pristine: true,
            at_end: false,
            next: 0,
            epoch: 0,
            placed: false,
            grants: VecDeque::new(),
            since: Instant::now(),
            last_word: Instant::now(),
            packets: 0,
            moved: 0,
            at_us: 0,
        };
        me.make_init(plan)?;
        let ts = match plan.container {
            Container::Fmp4 => None,
            Container::Mpegts => Some(ts::Muxer::new(&me.init).map_err(|e| Fail::request(e.to_string()))?),
        };
        let say = talk.say();
        std::thread::Builder::new()
            .name("segments".to_owned())
            .spawn(move || write_all(&say, ts.as_ref(), &to_write))
            .map_err(|e| Fail::fault(format!("unable to start a thread: {e}")))?;
        for t in &mut me.tracks {
            if let Path::CopyAudio(copy) = &mut t.path {
                let start = t.facts.start.unwrap_or(0);
                copy.origin = ticks(start, t.facts.time_base, start_us, t.timescale);
            }
        }
        Ok(me)
    }

    fn make_init(&mut self, plan: &Plan) -> Result<()> {
        // AC-3 and its kind are described by their first packet, ADTS by its header.
        let asks = |t: &Track| match &t.path {
            Path::CopyAudio(copy) => {
                copy.adts
                    || !matches!(
                        t.facts.codec_id,
                        AVCodecID::AV_CODEC_ID_AAC
                            | AVCodecID::AV_CODEC_ID_OPUS
                            | AVCodecID::AV_CODEC_ID_FLAC
                    )
            }
            _ => false,
        };
        if let Some(stream) = self.tracks.iter().find(|t| asks(t)).map(|t| t.stream) {
            read_until(&mut self.input, stream, &mut self.replay)?;
        }
        let mut encoders = Vec::new();
        for t in &mut self.tracks {
            encoders.push(match (&mut t.path, &plan.audio) {
                (Path::Video(pictures), _) => Some((pictures.sample_encoder()?, None)),
                (
                    Path::Audio(_),
                    Some(AudioPlan::Encode { codec, channels, bitrate_bps, sample_rate, .. }),
                ) => {
                    let s = audio_settings(&t.facts, codec, *channels, *bitrate_bps, *sample_rate)?;
                    let packet = if codec.contains("ac3") { sound::silent_packet(&s)? } else { None };
                    Some((ff::Encoder::audio(&s)?, packet))
                }
                _ => None,
            });
        }
        let first = |stream: usize| self.replay.iter().find(|p| p.stream() == stream);
        let mut described = Vec::new();
        for (t, encoder) in self.tracks.iter().zip(&encoders) {
            described.push(match (&t.path, encoder) {
                (_, Some((encoder, packet))) => InitTrack::Encoded { encoder, packet: packet.as_ref() },
                (Path::CopyAudio(copy), None) if copy.adts => {
                    let config = first(t.stream)
                        .and_then(|p| bitstream::adts(p.data()))
                        .ok_or_else(|| Fail::unreadable("the AAC sound has no configuration"))?;
                    InitTrack::Copied {
                        input: &self.input,
                        stream: t.stream,
                        tag: 0,
                        extradata: Some(config.config.to_vec()),
                        packet: None,
                    }
                }
                (Path::CopyVideo(copy), None) if copy.hevc => {
                    // Apple plays HEVC only as hvc1; Dolby Vision without a base has an entry of its own.
                    let no_base = t.facts.dovi.is_some_and(|d| d.profile == 5);
                    InitTrack::Copied {
                        input: &self.input,
                        stream: t.stream,
                        tag: u32::from_le_bytes(if no_base { *b"dvh1" } else { *b"hvc1" }),
                        extradata: None,
                        packet: None,
                    }
                }
                _ => InitTrack::Copied {
                    input: &self.input,
                    stream: t.stream,
                    tag: 0,
                    extradata: None,
                    packet: if asks(t) { first(t.stream) } else { None },
                },
            });
        }
        let init = ff::init_segment(&described)?;
        drop(described);
        let layout = fmp4::tracks(&init)
            .ok_or_else(|| Fail::unreadable("the init segment made of it has no tracks"))?;
        if layout.len() != self.tracks.len() {
            return Err(Fail::unreadable("the init segment made of it lacks a track"));
        }
        for (t, track) in self.tracks.iter_mut().zip(layout) {
            t.id = track.id;
            t.timescale = track.timescale.into();
        }
        let mut init = init;
        for t in &mut self.tracks {
            t.media_time = reordering(&t.facts, matches!(t.path, Path::Video(_))) * t.timescale / 1_000_000;
            if t.media_time > 0 {
                init = u32::try_from(t.media_time)
                    .ok()
                    .and_then(|media_time| fmp4::with_edit(&init, t.id, media_time))
                    .ok_or_else(|| Fail::unreadable("the init segment made of it lacks a track"))?;
            }
        }
        self.init = init;
        Ok(())
    }

    fn take(&mut self, (request, fds): Incoming) -> Result<()> {
        let file = fds.into_iter().next().map(File::from);
        match (request, file) {
            (Request::Init, Some(file)) => {
                let len_bytes = write_out(file, &[&self.init])?;
                self.talk.send(&Reply::Done { n: None, epoch: 0, len_bytes, took_us: 0 });
            }
            (Request::Grant { n, epoch }, Some(file)) => {
                if epoch == self.epoch {
                    if self.grants.is_empty() {
                        self.since = Instant::now();
                    }
                    self.grants.push_back((n, epoch, file));
                }
            }
            (Request::Seek { n, epoch }, _) => {
                self.grants.clear();
                self.epoch = epoch;
                if n != self.next || !self.placed {
                    self.next = n;
                    self.placed = false;
                }
            }
            _ => return Err(Fail::request("a segmenter does not do that")),
        }
        Ok(())
    }

    /// One packet, or one segment written.
    fn step(&mut self) -> Result<()> {
        let Some((n, _, _)) = self.grants.front() else { return Ok(()) };
        if *n != self.next {
            return Err(Fail::request(format!("segment {n} is not the next")));
        }
        if *n >= self.b.segments() {
            return Err(Fail::request(format!("no segment {n}")));
        }
        if !self.placed {
            self.place()?;
        }
        if self.is_ready() {
            self.write_segment()?;
        } else {
            self.advance()?;
        }
        if self.last_word.elapsed() >= WORD_EVERY {
            self.last_word = Instant::now();
            self.tell_reads();
            let moved = self.packets + self.encoder_steps();
            // A row that hangs says nothing, so that the server notices.
            if moved != self.moved {
                self.moved = moved;
                self.talk.send(&Reply::Progress { at_us: self.at_us });
            }
        }
        Ok(())
    }

    fn encoder_steps(&self) -> u64 {
        self.tracks
            .iter()
            .map(|t| match &t.path {
                Path::Video(pictures) => pictures.steps(),
                Path::Audio(sound) => sound.segment() as u64,
                _ => 0,
            })
            .sum()
    }

    fn tell_reads(&mut self) {
        let rows = self.input.source().take_rows();
        for chunk in rows.chunks(1000) {
            self.talk.send(&Reply::Reads { rows: chunk.to_vec() });
        }
    }

    /// Begins reading so that segment `next` gets all that belongs to it.
    fn place(&mut self) -> Result<()> {
        let n = self.next;
        let target = self.b.0[n];
        for t in &mut self.tracks {
            t.pending.clear();
            t.pending_bytes = 0;
            t.closed = 0;
            t.begun.clear();
            match &mut t.path {
                Path::CopyVideo(copy) => {
                    copy.current = None;
                    copy.closing = None;
                    copy.last = i64::MIN;
                }
                Path::CopyAudio(copy) => copy.last_end = i64::MIN,
                Path::Video(pictures) => pictures.restart(n),
                Path::Audio(sound) => sound.restart(n)?,
            }
        }
        self.at_end = false;
        self.held = None;
        self.placed = true;
        if n == 0 {
            if !std::mem::take(&mut self.pristine) {
                self.replay.clear();
                self.input.rewind(self.tracks[0].stream);
            }
            return Ok(());
        }
        self.pristine = false;
        self.captions_before(target)?;
        // Further and further back, until the picture is there from its key frame on and the sound
        // from the first sample that is needed. The demuxers' searches are not exact.
        for back_us in [0, 2_000_000, 10_000_000, 60_000_000] {
            let from = target - back_us;
            self.replay.clear();
            let t = &self.tracks[0];
            let ts = stream_time(from + self.start_us, t.facts.time_base);
            if from <= 0 || !self.input.seek(t.stream, ts) {
                self.input.rewind(self.tracks[0].stream);
                return Ok(());
            }
            if self.is_covered(target)? {
                return Ok(());
            }
        }
        // Sound that is missing for a minute is not there. A picture that is missing means that the
        // file cannot be searched: read it from its beginning.
        let first = &self.tracks[0];
        let has_picture = self.replay.iter().any(|p| {
            p.stream() == first.stream
                && p.is_key()
                && p.pts()
                    .is_some_and(|t| us(t, first.facts.time_base, self.start_us) <= target + TOLERANCE_US)
        });
        if first.facts.media == Media::Video && !has_picture {
            self.replay.clear();
            self.input.rewind(first.stream);
        }
        Ok(())
    }

    /// Reads on, keeping what it reads, until it is known whether what is needed at `target` comes.
    fn is_covered(&mut self, target: i64) -> Result<bool> {
        let mut open: Vec<(usize, i64)> = self
            .tracks
            .iter()
            .filter(|t| {
                // A stream that starts later cannot be had earlier.
                let starts = t.facts.start.map_or(0, |s| us(s, t.facts.time_base, self.start_us));
                starts < target
            })
            .map(|t| match &t.path {
                Path::CopyAudio(_) => (t.stream, target + 30_000),
                Path::Audio(sound) => (t.stream, sound.needs_from_us(target)),
                Path::CopyVideo(_) | Path::Video(_) => (t.stream, target + TOLERANCE_US),
            })
            .collect();
        let mut packet = Packet::new();
        let mut read = 0;
        while !open.is_empty() && read < 4000 {
            read += 1;
            if !self.input.read(&mut packet)? {
                break;
            }
            if let Some(i) = open.iter().position(|(stream, _)| *stream == packet.stream())
                && let Some(t) = self.tracks.iter().find(|t| t.stream == packet.stream())
            {
                let video = t.facts.media == Media::Video;
                if (!video || packet.is_key())
                    && let Some(pts) = packet.pts().or(packet.dts())
                {
                    if us(pts, t.facts.time_base, self.start_us) > open[i].1 {
                        self.replay.push_back(packet.take());
                        return Ok(false);
                    }
                    open.swap_remove(i);
                }
            }
            self.replay.push_back(packet.take());
        }
        // At the end of the file nothing more comes: it was overshot.
        Ok(open.is_empty())
    }

    /// What subtitle pictures are on screen at `target` began before it.
    fn captions_before(&mut self, target: i64) -> Result<()> {
        let Some(stream) = self.burn_stream else { return Ok(()) };
        let facts = self.input.facts(stream);
        let video = self.tracks[0].stream;
        let tb = self.tracks[0].facts.time_base;
        if !self.input.seek(video, stream_time(target - 20_000_000 + self.start_us, tb)) {
            self.input.rewind(video);
        }
        self.input.only(&[stream, video]);
        let mut packet = Packet::new();
        while self.input.read(&mut packet)? {
            let (Some(pts), of) = (packet.pts().or(packet.dts()), packet.stream()) else { continue };
            let tb = if of == stream { facts.time_base } else { tb };
            let at = us(pts, tb, self.start_us);
            if at > target {
                break;
            }
            if of == stream {
                self.caption(packet.take(), at);
            }
        }
        let mut wanted: Vec<usize> = self.tracks.iter().map(|t| t.stream).collect();
        wanted.push(stream);
        self.input.only(&wanted);
        Ok(())
    }

    fn caption(&mut self, packet: Packet, at_us: i64) {
        if let Some(pictures) = self.tracks.iter_mut().find_map(Track::pictures) {
            pictures.caption(packet, at_us);
        }
    }

    /// Takes what was encoded, or reads one packet and lets its track have it.
    fn advance(&mut self) -> Result<()> {
        let mut came = false;
        let next = self.next;
        for t in &mut self.tracks {
            came |= t.collect(next)?;
        }
        if came {
            return Ok(());
        }
        if let Some(pictures) = self.tracks.iter_mut().find_map(Track::pictures) {
            // Short enough to hear the server in between.
            let most = Duration::from_millis(50);
            if let Some(mut packet) = self.held.take() {
                if !pictures.offer(&mut packet) {
                    self.held = Some(packet);
                    pictures.wait(most, true);
                }
                return Ok(());
            }
            if self.at_end {
                pictures.wait(most, false);
                return Ok(());
            }
        }
        let packet = match self.replay.pop_front() {
            Some(packet) => Some(packet),
            None => {
                self.pristine = false;
                let mut packet = Packet::new();
                self.input.read(&mut packet)?.then_some(packet)
            }
        };
        let start_us = self.start_us;
        let Some(packet) = packet else {
            if !self.at_end {
                self.at_end = true;
                for t in &mut self.tracks {
                    t.finish(next)?;
                }
            }
            return Ok(());
        };
        self.packets += 1;
        self.pristine = false;
        let stream = packet.stream();
        if Some(stream) == self.burn_stream {
            let tb = self.input.facts(stream).time_base;
            if let Some(pts) = packet.pts().or(packet.dts()) {
                self.caption(packet, us(pts, tb, start_us));
            }
            return Ok(());
        }
        if let Some(t) = self.tracks.iter_mut().find(|t| t.stream == stream) {
            if let Some(pts) = packet.pts() {
                self.at_us = us(pts, t.facts.time_base, start_us);
            }
            self.held = t.feed(packet, start_us, next, &self.b)?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let n = self.next;
        if self.tracks.iter().all(|t| t.closed > n) {
            return true;
        }
        // What is being encoded is not missing: it comes.
        if self.tracks.iter().any(|t| t.closed <= n && t.is_at_work()) {
            return false;
        }
        let end = self.b.0[n + 1];
        self.tracks.iter().any(|t| {
            t.closed > n
                && (t.pending_bytes > LAG_BYTES
                    || t.pending.back().is_some_and(|o| o.at * 1_000_000 / t.timescale > end + LAG_US))
        })
    }

    fn write_segment(&mut self) -> Result<()> {
        let Some((n, epoch, file)) = self.grants.pop_front() else { return Ok(()) };
        let last = n + 1 == self.b.segments();
        let mut parts: Vec<(u32, i64, Vec<Sample>, Vec<Out>)> = Vec::new();
        for t in &mut self.tracks {
            let mut taken = Vec::new();
            while t.pending.front().is_some_and(|o| o.segment <= n || last) {
                if let Some(out) = t.pending.pop_front() {
                    t.pending_bytes -= out.data.bytes().len();
                    taken.push(out);
                }
            }
            t.closed = t.closed.max(n + 1);
            if taken.is_empty() {
                continue;
            }
            let at = shown_times(&taken);
            let latest = at.iter().max().copied();
            t.begun.retain(|b| latest.is_none_or(|l| *b > l));
            let following = t.pending.iter().map(|o| o.at).chain(t.begun.iter().copied()).min();
            let usual = taken.iter().rev().map(|o| o.duration).find(|d| *d > 0);
            let usual = usual.unwrap_or_else(|| average(&at).unwrap_or(t.timescale / 25));
            let timed = fmp4::decode_times(&at, following, usual, t.media_time);
            let samples = timed
                .iter()
                .zip(&taken)
                .map(|(time, out)| Sample {
                    len_bytes: u32::try_from(out.data.bytes().len()).unwrap_or(u32::MAX),
                    duration: time.duration,
                    composition_offset: time.composition_offset,
                    sync: out.sync,
                })
                .collect();
            parts.push((t.id, timed.first().map_or(0, |t| t.decode_time), samples, taken));
        }
        let runs: Vec<TrackRun<'_>> = parts
            .iter()
            .map(|(id, at, samples, _)| TrackRun {
                track_id: *id,
                decode_time: u64::try_from(*at).unwrap_or(0),
                samples,
            })
            .collect();
        let head = fmp4::fragment_head(u32::try_from(n + 1).unwrap_or(u32::MAX), &runs);
        let samples = parts.into_iter().flat_map(|(_, _, _, taken)| taken).collect();
        self.next = n + 1;
        self.tell_reads();
        let since = std::mem::replace(&mut self.since, Instant::now());
        let written = Written { n, epoch, file, head, samples, since };
        // A writer that has ended has told why; the server ends this process.
        let _ = self.writer.send(written);
        Ok(())
    }
}

/// Pictures before the presentation's start (what an edit list cuts off, needed to decode what
/// follows) are shown for one tick each at its very beginning: no time can be negative.
fn shown_times(taken: &[Out]) -> Vec<i64> {
    let mut before: Vec<i64> = taken.iter().map(|o| o.at).filter(|at| *at < 0).collect();
    before.sort_unstable();
    let m = before.len() as i64;
    taken
        .iter()
        .map(|o| if o.at < 0 { before.partition_point(|b| *b < o.at) as i64 } else { o.at.max(m) })
        .collect()
}

fn average(at: &[i64]) -> Option<i64> {
    let (min, max) = (at.iter().min()?, at.iter().max()?);
    (at.len() > 1).then(|| (max - min) / (at.len() as i64 - 1))
}

impl Track {
    fn new(facts: Facts, path: Path) -> Self {
        Self {
            stream: facts.index,
            facts,
            id: 0,
            timescale: 1,
            media_time: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            closed: 0,
            begun: Vec::new(),
            path,
        }
    }

    fn push(&mut self, out: Out) {
        self.pending_bytes += out.data.bytes().len();
        self.pending.push_back(out);
    }

    /// Gives the packet back if there is no room for it yet.
    fn feed(
        &mut self,
        mut packet: Packet,
        start_us: i64,
        next: usize,
        b: &Boundaries,
    ) -> Result<Option<Packet>> {
        match &mut self.path {
            Path::CopyVideo(_) => self.copy_video(packet, start_us, next, b)?,
            Path::CopyAudio(_) => self.copy_audio(packet, start_us, next, b)?,
            Path::Video(pictures) => return Ok((!pictures.offer(&mut packet)).then_some(packet)),
            Path::Audio(_) => self.encode_audio(Some(&packet), next)?,
        }
        Ok(None)
    }

    /// Nothing more is read.
    fn finish(&mut self, next: usize) -> Result<()> {
        match &mut self.path {
            Path::CopyVideo(_) | Path::CopyAudio(_) => {}
            Path::Video(pictures) => {
                pictures.end();
                return Ok(());
            }
            Path::Audio(_) => return self.encode_audio(None, next),
        }
        self.closed = usize::MAX;
        Ok(())
    }

    fn pictures(&mut self) -> Option<&mut Pictures> {
        match &mut self.path {
            Path::Video(pictures) => Some(pictures),
            _ => None,
        }
    }

    /// Whether more comes of what it was given.
    fn is_at_work(&self) -> bool {
        match &self.path {
            Path::Video(pictures) => !pictures.is_idle(),
            _ => false,
        }
    }

    /// Takes what its encoders have made; whether that was anything.
    fn collect(&mut self, next: usize) -> Result<bool> {
        if let Path::Audio(sound) = &mut self.path {
            let mut out = Vec::new();
            let came = sound.go_on(&mut out)?;
            if came {
                self.take_sound(out, next);
            }
            return Ok(came);
        }
        let Path::Video(pictures) = &mut self.path else { return Ok(false) };
        let made = pictures.take()?;
        let came = !made.is_empty();
        let scale = |at: i64, timescale: i64| at * timescale / i64::from(ff::VIDEO_CLOCK);
        for made in made {
            match made {
                Made::Begun { at } => self.begun.push(scale(at, self.timescale)),
                Made::Segment { segment, pictures } => {
                    for e in pictures {
                        let at = scale(e.at, self.timescale);
                        let data = Payload::Bytes(e.bytes);
                        self.push(Out { segment, at, duration: 0, sync: e.sync, data });
                    }
                    self.closed = self.closed.max(segment + 1);
                }
                Made::End => self.closed = usize::MAX,
            }
        }
        Ok(came)
    }

    fn copy_video(&mut self, packet: Packet, start_us: i64, next: usize, b: &Boundaries) -> Result<()> {
        let Path::CopyVideo(copy) = &mut self.path else { return Ok(()) };
        let tb = self.facts.time_base;
        let duration = span(packet.duration(), tb, self.timescale);
        let at = match packet.pts().or(packet.dts()) {
            Some(pts) => ticks(pts, tb, start_us, self.timescale),
            None if copy.last > i64::MIN => copy.last + duration.max(1),
            None => 0,
        };
        copy.last = at;
        let key = packet.is_key();
        if key {
            let segment = b.segment_at(at * 1_000_000 / self.timescale, TOLERANCE_US);
            match copy.current {
                None if segment < next => return Ok(()),
                None => {
                    copy.current = Some(segment);
                    self.closed = segment;
                }
                Some(current) if segment > current => {
                    copy.current = Some(segment);
                    copy.closing = Some((segment, at));
                }
                Some(_) => {}
            }
        } else if let Some((segment, key_at)) = copy.closing
            && at > key_at
        {
            copy.closing = None;
            self.closed = segment;
        }
        let Some(segment) = copy.current else { return Ok(()) };
        if key
            && let Some((closing, key_at)) = copy.closing
            && at > key_at
        {
            // Key frame after key frame.
            self.closed = self.closed.max(closing.min(segment));
        }
        let data = if copy.annex_b {
            let mut bytes = Vec::with_capacity(packet.data().len() + 64);
            bitstream::annex_b_to_lengths(packet.data(), copy.hevc, &mut bytes);
            Payload::Bytes(bytes)
        } else {
            Payload::Packet { packet, skip: 0 }
        };
        self.push(Out { segment, at, duration, sync: key, data });
        Ok(())
    }

    fn copy_audio(&mut self, packet: Packet, start_us: i64, next: usize, b: &Boundaries) -> Result<()> {
        let Path::CopyAudio(copy) = &mut self.path else { return Ok(()) };
        let tb = self.facts.time_base;
        let duration = span(packet.duration(), tb, self.timescale).max(1);
        let mut at = match packet.pts().or(packet.dts()) {
            Some(pts) => ticks(pts, tb, start_us, self.timescale),
            None if copy.last_end > i64::MIN => copy.last_end,
            None => return Ok(()),
        };
        if copy.coarse
            && let Some(size) = frame_samples(self.facts.codec_id)
        {
            // Milliseconds back onto the grid of frames, if it is that near.
            let k = (at - copy.origin + size / 2).div_euclid(size);
            let grid = copy.origin + k * size;
            if (grid - at).abs() <= self.timescale / 600 {
                at = grid;
            }
        }
        // Priming before the presentation begins is not sent; half a frame is.
        if at + duration / 2 < 0 {
            return Ok(());
        }
        at = at.max(0);
        // Packets of TrueHD are shorter than Matroska's millisecond.
        let doubt = if copy.coarse { self.timescale / 500 } else { 0 };
        if at < copy.last_end.saturating_sub(duration / 2 + doubt) {
            // Time goes back: a repeated packet.
            return Ok(());
        }
        copy.last_end = at + duration;
        let segment = b.segment_at(at * 1_000_000 / self.timescale, 0);
        if segment < next {
            return Ok(());
        }
        let skip = if copy.adts { bitstream::adts(packet.data()).map_or(0, |a| a.header_bytes) } else { 0 };
        self.closed = self.closed.max(segment);
        self.push(Out { segment, at, duration, sync: true, data: Payload::Packet { packet, skip } });
        Ok(())
    }

    fn encode_audio(&mut self, packet: Option<&Packet>, next: usize) -> Result<()> {
        let Path::Audio(sound) = &mut self.path else { return Ok(()) };
        let mut out = Vec::new();
        sound.feed(packet, next, &mut out)?;
        self.take_sound(out, next);
        Ok(())
    }

    fn take_sound(&mut self, out: Vec<sound::Encoded>, next: usize) {
        let Path::Audio(sound) = &self.path else { return };
        let (duration, segment, is_over) = (sound.frame_size(), sound.segment(), sound.is_over());
        // What was written without its sound, as none had come for long, stays so.
        for e in out.into_iter().filter(|e| e.segment >= next) {
            self.push(Out {
                segment: e.segment,
                at: e.at,
                duration,
                sync: true,
                data: Payload::Packet { packet: e.packet, skip: 0 },
            });
        }
        self.closed = if is_over { usize::MAX } else { self.closed.max(segment) };
    }
}

/// Reads until the first packet of the stream is among those that were read.
fn read_until(input: &mut Input, stream: usize, read: &mut VecDeque<Packet>) -> Result<()> {
    let mut packet = Packet::new();
    while !read.iter().any(|p| p.stream() == stream) && read.len() < 5000 && input.read(&mut packet)? {
        read.push_back(packet.take());
    }
    Ok(())
}

/// The plan for the picture, unless it cannot be copied: where an edit list begins the
/// presentation between two key frames (a film trimmed on a phone), pictures before it would have
/// to be sent, and players would show them. Such a picture is encoded, and the status says so.
fn copyable(
    input: &mut Input,
    plan: &Plan,
    start_us: i64,
    read: &mut VecDeque<Packet>,
) -> Result<Option<VideoPlan>> {
    let Some(VideoPlan::Copy { stream }) = plan.video else { return Ok(plan.video.clone()) };
    let index = stream as usize;
    if index >= input.streams() || input.facts(index).codec_id != AVCodecID::AV_CODEC_ID_H264 {
        return Ok(plan.video.clone());
    }
    read_until(input, index, read)?;
    let first = read.iter().find(|p| p.stream() == index).and_then(|p| p.pts().or(p.dts()));
    let facts = input.facts(index);
    if first.is_none_or(|t| us(t, facts.time_base, start_us) >= -TOLERANCE_US) {
        return Ok(plan.video.clone());
    }
    Ok(Some(VideoPlan::encode(stream, "h264")))
}

/// By how much a picture may be decoded after its turn in the order of showing, in microseconds:
/// an upper estimate, since the bound must stand in the init segment.
fn reordering(f: &Facts, encoded: bool) -> i64 {
    let reorders = encoded
        || matches!(
            f.codec_id,
            AVCodecID::AV_CODEC_ID_H264
                | AVCodecID::AV_CODEC_ID_HEVC
                | AVCodecID::AV_CODEC_ID_MPEG4
                | AVCodecID::AV_CODEC_ID_MPEG2VIDEO
        );
    if f.media != Media::Video || !reorders {
        return 0;
    }
    let usual = |r: (i32, i32)| {
        if r.0 > 0 && r.1 > 0 { Some(i64::from(r.1) * 1_000_000 / i64::from(r.0)) } else { None }
    };
    let average = usual(f.avg_rate).unwrap_or(40_000);
    // Two pictures are usual, a pyramid of hierarchical B pictures takes three or four.
    let constant = average * 4;
    // Where the rate varies, the longest of these counts: at 12 pictures a second two are 167 ms.
    let varies = usual(f.real_rate).is_none_or(|real| (real - average).abs() * 20 > average);
    if varies { constant.max(250_000) } else { constant }
}

/// Samples of one frame of codecs whose frames all have the same.
fn frame_samples(codec: AVCodecID) -> Option<i64> {
    match codec {
        AVCodecID::AV_CODEC_ID_AAC => Some(1024),
        AVCodecID::AV_CODEC_ID_AC3 | AVCodecID::AV_CODEC_ID_EAC3 => Some(1536),
        AVCodecID::AV_CODEC_ID_MP3 => Some(1152),
        _ => None,
    }
}

/// A time of a stream as ticks of the presentation.
fn ticks(t: i64, tb: (i32, i32), start_us: i64, timescale: i64) -> i64 {
    let den = i128::from(tb.1.max(1));
    let t = i128::from(t) * i128::from(tb.0) * 1_000_000 - i128::from(start_us) * den;
    let scaled = t * i128::from(timescale);
    let by = den * 1_000_000;
    i64::try_from((scaled + by / 2).div_euclid(by)).unwrap_or(i64::MAX)
}

/// A time of a stream as microseconds of the presentation.
pub(crate) fn us(t: i64, tb: (i32, i32), start_us: i64) -> i64 {
    ticks(t, tb, start_us, 1_000_000)
}

/// A length of time in ticks.
fn span(t: i64, tb: (i32, i32), timescale: i64) -> i64 {
    ticks(t, tb, 0, timescale)
}

/// Microseconds of the file's clock as a time of a stream.
pub(crate) fn stream_time(us: i64, tb: (i32, i32)) -> i64 {
    let by = i128::from(tb.0.max(1)) * 1_000_000;
    i64::try_from((i128::from(us) * i128::from(tb.1) + by / 2).div_euclid(by)).unwrap_or(i64::MAX)
}

fn audio_settings(
    f: &Facts,
    codec: &str,
    channels: u32,
    bitrate_bps: Option<u64>,
    sample_rate: Option<u32>,
) -> Result<AudioSettings> {
    let (encoder, most, rates): (&str, i32, &[i32]) = match codec {
        "aac" => ("aac", 6, &[44_100, 48_000, 32_000]),
        "ac3" => ("ac3", 6, &[48_000, 44_100, 32_000]),
        "eac3" => ("eac3", 6, &[48_000, 44_100, 32_000]),
        "opus" => ("libopus", 8, &[48_000]),
        "flac" => ("flac", 8, &[44_100, 48_000, 88_200, 96_000]),
        other => return Err(Fail::request(format!("no encoder for `{other}` here"))),
    };
    let channels = i32::try_from(channels).unwrap_or(most).min(f.channels.max(1)).clamp(1, most);
    let wish = sample_rate.and_then(|r| i32::try_from(r).ok()).unwrap_or(f.sample_rate);
    let sample_rate = if rates.contains(&wish) { wish } else { 48_000 };
    let usual = if codec == "flac" { 0 } else { 64_000 * i64::from(channels) };
    let bit_rate = bitrate_bps.and_then(|b| i64::try_from(b).ok()).unwrap_or(usual);
    Ok(AudioSettings { encoder: encoder.to_owned(), channels, sample_rate, bit_rate })
}

/// Most pieces in one call: IOV_MAX of Linux.
const PIECES: usize = 1024;

/// Writes the pieces one after the other; returns their length. They are gathered by the kernel: nothing is
/// copied together first.
pub(crate) fn write_out(mut file: File, pieces: &[&[u8]]) -> Result<u64> {
    let mut len = 0;
    for pieces in pieces.chunks(PIECES) {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        len += pieces.iter().map(|p| p.len() as u64).sum::<u64>();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match file.write_vectored(rest) {
                Ok(0) => return Err(Fail::fault("unable to write a segment: nothing was taken")),
                Ok(n) => IoSlice::advance_slices(&mut rest, n),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unwritten(&e)),
            }
        }
    }
    Ok(len)
}

fn unwritten(e: &std::io::Error) -> Fail {
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            Fail { kind: FailKind::NoSpace, reason: "no space left".to_owned() }
        }
        _ => Fail::fault(format!("unable to write a segment: {e}")),
    }
}
