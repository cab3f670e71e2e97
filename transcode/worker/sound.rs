//! Sound, decoded and encoded anew on one grid of samples: frame `k` of the output starts at
//! sample `k * frame_size` of the presentation, whichever segment was asked for first.
//!
//! Each segment has a decoder, a resampler and an encoder of its own, which begin with the same
//! packet some time before it, so that its bytes depend on nothing else. The frames before it are
//! thrown away; by its beginning the encoder is where it would be in an unbroken run.

use std::collections::VecDeque;

use crate::ff::{AudioSettings, Decoder, Encoder, Facts, Frame, Packet, Resampler, Result};
use crate::segment::us;

/// Frames that are encoded and thrown away before a segment: the encoder's own delay and the
/// overlap that the first kept frame needs to sound like its predecessor in an unbroken run. Opus
/// wants 80 ms of it (RFC 7845 section 4.6), which are four frames.
const PRE_ROLL: i64 = 4;
/// Sound that is decoded before those: TrueHD begins to sound up to 107 ms after a packet (128
/// units of 40 samples without a restart header), MP3 needs what its bit reservoir holds; and the
/// time stamps of so long are averaged.
const DECODE_US: i64 = 250_000;
/// A gap or overlap of the source below this is the rounding of its time stamps (1 ms in
/// Matroska) or jitter, and is not touched; above it, silence goes in or sound goes out.
const SLACK_MS: i64 = 40;

/// Most silence at once where no boundary ends it: behind the end that the file tells. It is encoded in one go.
const LONGEST_GAP_S: i64 = 60;

/// An encoded frame: its segment, its number of samples from the presentation's start, its bytes.
pub(crate) struct Encoded {
    pub(crate) segment: usize,
    pub(crate) at: i64,
    pub(crate) packet: Packet,
}

pub(crate) struct Sound {
    decoder: Decoder,
    settings: AudioSettings,
    boundaries_us: Vec<i64>,
    start_us: i64,
    time_base: (i32, i32),
    /// Time of the stream's first packet in the presentation, if its clock is so coarse that times
    /// are better counted from there.
    origin_us: Option<i64>,
    /// Packets that the next segment will want as well.
    recent: VecDeque<Packet>,
    segment: usize,
    /// The segment's frames are all there.
    is_done: bool,
    /// There are no more packets.
    ended: bool,
    encoder: Option<Encoder>,
    resampler: Option<(Resampler, (i32, i32, i32))>,
    /// Output samples that wait for a full frame; the first is sample `fifo_at`.
    fifo: Vec<Vec<f32>>,
    fifo_at: i64,
    frame: i64,
    frame_size: i64,
    padding: i64,
    started: bool,
    seen: Seen,
}

/// Time stamps of what was decoded before the first sample is placed: rounded ones say together
/// what each alone does not.
#[derive(Default)]
struct Seen {
    /// Output samples so far.
    samples: i64,
    /// Sum and number of (time less samples before it).
    sum: i64,
    count: i64,
}

impl Sound {
    pub(crate) fn new(
        decoder: Decoder,
        facts: &Facts,
        settings: AudioSettings,
        boundaries_us: &[i64],
        start_us: i64,
    ) -> Result<Self> {
        let encoder = Encoder::audio(&settings)?;
        let frame_size = match encoder.frame_size() {
            n if n > 0 => n.into(),
            _ => 4096,
        };
        let channels = usize::try_from(settings.channels).unwrap_or(2);
        let coarse = facts.time_base.1 <= 1000;
        Ok(Self {
            decoder,
            padding: encoder.padding().into(),
            encoder: None,
            settings,
            boundaries_us: boundaries_us.to_vec(),
            start_us,
            time_base: facts.time_base,
            origin_us: facts.start.filter(|_| coarse).map(|t| us(t, facts.time_base, start_us)),
            recent: VecDeque::new(),
            segment: 0,
            is_done: false,
            ended: false,
            resampler: None,
            fifo: vec![Vec::new(); channels],
            fifo_at: 0,
            frame: 0,
            frame_size,
            started: false,
            seen: Seen::default(),
        })
    }

    pub(crate) fn frame_size(&self) -> i64 {
        self.frame_size
    }

    /// Segments below this have all their frames.
    pub(crate) fn segment(&self) -> usize {
        self.segment + usize::from(self.is_done)
    }

    /// Makes everything fresh, for output that begins with this segment.
    pub(crate) fn restart(&mut self, segment: usize) -> Result<()> {
        self.recent.clear();
        self.ended = false;
        self.begin(segment)
    }

    fn begin(&mut self, segment: usize) -> Result<()> {
        self.segment = segment;
        self.is_done = false;
        self.decoder = self.decoder.fresh()?;
        self.resampler = None;
        self.encoder = Some(Encoder::audio(&self.settings)?);
        let at = self.boundaries_us[segment] * i64::from(self.settings.sample_rate) / 1_000_000;
        self.frame = at.max(0).div_euclid(self.frame_size) - 1 - PRE_ROLL;
        // The encoder's output for frame k comes from input that lies `padding` later.
        self.fifo_at = self.frame * self.frame_size + self.padding;
        self.fifo.iter_mut().for_each(Vec::clear);
        self.started = false;
        self.seen = Seen::default();
        Ok(())
    }

    /// The earliest time of sound that a segment which begins at `at_us` needs.
    pub(crate) fn needs_from_us(&self, at_us: i64) -> i64 {
        let frames = (PRE_ROLL + 2) * self.frame_size * 1_000_000 / i64::from(self.settings.sample_rate);
        at_us - frames - DECODE_US
    }

    /// Decodes a packet (or drains) and gives what the encoder finished of the segment that is being made, which is `next` or a
    /// later one. What the packet is for beyond that comes of [`Sound::go_on`].
    pub(crate) fn feed(
        &mut self,
        packet: Option<&Packet>,
        next: usize,
        out: &mut Vec<Encoded>,
    ) -> Result<()> {
        if self.segment < next {
            // Written without it, as nothing had come for long: silence for those is for nobody.
            self.follow(next, out)?;
        }
        if let Some(packet) = packet {
            if !self.is_for(packet, self.segment) {
                return Ok(());
            }
            if self.is_for(packet, self.segment + 1) {
                self.recent.push_back(packet.share()?);
            }
        }
        self.ended |= packet.is_none();
        self.decode(packet, out)
    }

    /// Begins the segment after one that is done; whether there was any. One at a time: before a packet that lies hours ahead
    /// there are thousands of silent ones, and the server wants to hear of each.
    pub(crate) fn go_on(&mut self, out: &mut Vec<Encoded>) -> Result<bool> {
        if self.is_done {
            self.follow(self.segment + 1, out)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && !self.is_done
    }

    /// Begins a later segment, with those packets again that it shares with the one before.
    fn follow(&mut self, segment: usize, out: &mut Vec<Encoded>) -> Result<()> {
        self.begin(segment)?;
        let again: Vec<Packet> = self.recent.drain(..).collect();
        for packet in again {
            if self.is_for(&packet, segment) {
                self.decode(Some(&packet), out)?;
            }
            if self.is_for(&packet, segment + 1) {
                self.recent.push_back(packet);
            }
        }
        if self.ended {
            self.decode(None, out)?;
        }
        Ok(())
    }

    /// Whether a segment, if there is one of that number, needs a packet.
    fn is_for(&self, packet: &Packet, segment: usize) -> bool {
        let at = packet.pts().or(packet.dts()).map(|t| us(t, self.time_base, self.start_us));
        let begins = self.boundaries_us.get(segment);
        begins.is_some_and(|b| at.is_none_or(|t| t >= self.needs_from_us(*b)))
    }

    fn decode(&mut self, packet: Option<&Packet>, out: &mut Vec<Encoded>) -> Result<()> {
        if self.is_done {
            return Ok(());
        }
        self.decoder.send(packet);
        let mut frame = Frame::new();
        while self.decoder.receive(&mut frame) {
            let at = frame.time().map(|t| us(t, self.time_base, self.start_us));
            self.place(&frame, at)?;
            self.encode(out)?;
        }
        if packet.is_none() {
            if let Some((resampler, _)) = &mut self.resampler {
                resampler.convert(None, &mut self.fifo)?;
            }
            // What is left, and the encoder's delay, with silence up to a whole frame.
            let fill = (self.frame_size + self.padding) as usize;
            if self.started {
                self.silence(fill);
                self.encode(out)?;
            }
        }
        Ok(())
    }

    fn silence(&mut self, samples: usize) {
        for channel in &mut self.fifo {
            channel.resize(channel.len() + samples, 0.0);
        }
    }

    /// Puts a decoded frame where its time says.
    fn place(&mut self, frame: &Frame, at_us: Option<i64>) -> Result<()> {
        let shape = frame.sound();
        if self.resampler.as_ref().is_none_or(|(_, of)| *of != shape) {
            let new = Resampler::new(frame, self.settings.channels, self.settings.sample_rate)?;
            self.resampler = Some((new, shape));
        }
        let rate = i64::from(self.settings.sample_rate);
        let Some((resampler, _)) = &mut self.resampler else {
            return Ok(());
        };
        let expected = self.fifo_at + self.fifo[0].len() as i64 + resampler.delay();
        if let Some(at_us) = at_us {
            let at = exact(at_us, self.origin_us, frame, rate);
            let at = if self.started { at } else { self.seen.place(at, frame, rate) };
            let off = at - expected;
            let slack = if self.started { SLACK_MS * rate / 1000 } else { 0 };
            if off > slack {
                // Nothing to hear for that long. A gap beyond the segment is the next one's too;
                // the bound keeps a lying time stamp from filling memory.
                let end = match self.boundaries_us.get(self.segment + 1) {
                    Some(end) if self.segment + 2 < self.boundaries_us.len() => end * rate / 1_000_000 + rate,
                    _ => i64::MAX,
                };
                let most = end.saturating_sub(expected).max(0).min(rate * LONGEST_GAP_S);
                let gap = off.min(most);
                self.silence(gap as usize);
                if off > most {
                    self.started = true;
                    return Ok(());
                }
            } else if off < -slack {
                let mut piece = vec![Vec::new(); self.fifo.len()];
                resampler.convert(Some(frame), &mut piece)?;
                let cut = usize::try_from(-off).unwrap_or(usize::MAX).min(piece[0].len());
                for (to, from) in self.fifo.iter_mut().zip(&piece) {
                    to.extend_from_slice(&from[cut..]);
                }
                self.started |= cut < piece[0].len();
                return Ok(());
            }
        }
        self.started = true;
        if let Some((resampler, _)) = &mut self.resampler {
            resampler.convert(Some(frame), &mut self.fifo)?;
        }
        Ok(())
    }

    fn segment_of(&self, frame: i64) -> usize {
        let at_us = frame * self.frame_size * 1_000_000 / i64::from(self.settings.sample_rate);
        let last = self.boundaries_us.len().saturating_sub(2);
        self.boundaries_us.partition_point(|b| *b <= at_us).saturating_sub(1).min(last)
    }

    fn encode(&mut self, out: &mut Vec<Encoded>) -> Result<()> {
        let size = self.frame_size as usize;
        let mut used = 0;
        let mut packet = Packet::new();
        while !self.is_done && self.fifo[0].len() - used >= size {
            let mut frame = Frame::audio(
                self.settings.format(),
                self.settings.channels,
                self.settings.sample_rate,
                self.frame_size as i32,
            )?;
            fill(&mut frame, &self.settings.encoder, &self.fifo, used, size);
            frame.set_pts(self.fifo_at + used as i64);
            let Some(encoder) = &mut self.encoder else {
                return Ok(());
            };
            encoder.send(Some(&frame))?;
            used += size;
            while self.encoder.as_mut().is_some_and(|e| e.receive(&mut packet)) {
                let segment = self.segment_of(self.frame);
                if segment > self.segment {
                    self.is_done = true;
                    break;
                }
                if segment == self.segment && self.frame >= 0 {
                    let at = self.frame * self.frame_size;
                    out.push(Encoded { segment, at, packet: packet.take() });
                }
                self.frame += 1;
            }
        }
        for channel in &mut self.fifo {
            channel.drain(..used);
        }
        self.fifo_at += used as i64;
        Ok(())
    }
}

/// The time of a frame in output samples. Where the clock is coarse and all frames are of one
/// length, it is a whole number of frames after the first.
fn exact(at_us: i64, origin_us: Option<i64>, frame: &Frame, rate: i64) -> i64 {
    let samples = |us: i128| ((us * i128::from(rate) + 500_000).div_euclid(1_000_000)) as i64;
    let (size, of) = (i128::from(frame.samples()), i128::from(frame.sound().1.max(1)));
    // A frame must be longer than the doubt about its time.
    if let Some(origin) = origin_us
        && size * 1_000_000 > of * 4_000
    {
        let since = i128::from(at_us) - i128::from(origin);
        let k = (since * of + size * 500_000).div_euclid(size * 1_000_000);
        let grid = i128::from(origin) + k * size * 1_000_000 / of;
        if (grid - i128::from(at_us)).abs() <= 1_000 {
            return samples(grid);
        }
    }
    samples(i128::from(at_us))
}

impl Seen {
    /// Where a frame belongs by all time stamps so far.
    fn place(&mut self, at: i64, frame: &Frame, rate: i64) -> i64 {
        let is_jump = self.count > 0
            && (at - self.samples - self.sum.div_euclid(self.count)).abs() > SLACK_MS * rate / 1000;
        if is_jump {
            *self = Self::default();
        }
        self.sum += at - self.samples;
        self.count += 1;
        let placed = self.sum.div_euclid(self.count) + self.samples;
        self.samples += i64::from(frame.samples()) * rate / i64::from(frame.sound().1.max(1));
        placed
    }
}

fn fill(frame: &mut Frame, encoder: &str, fifo: &[Vec<f32>], from: usize, size: usize) {
    let channels = fifo.len();
    match encoder {
        "libopus" => {
            let to = frame.floats_mut(0, size * channels);
            for (i, value) in to.iter_mut().enumerate() {
                *value = fifo[i % channels][from + i / channels];
            }
        }
        "flac" => {
            let to = frame.ints_mut(0, size * channels);
            for (i, value) in to.iter_mut().enumerate() {
                *value = (fifo[i % channels][from + i / channels].clamp(-1.0, 1.0) * 2_147_483_392.0) as i32;
            }
        }
        _ => {
            for (c, channel) in fifo.iter().enumerate() {
                frame.floats_mut(c, size).copy_from_slice(&channel[from..from + size]);
            }
        }
    }
}

/// One frame of silence, encoded: AC-3 and E-AC-3 are described by their first packet.
pub(crate) fn silent_packet(settings: &AudioSettings) -> Result<Option<Packet>> {
    let mut encoder = Encoder::audio(settings)?;
    let size = if encoder.frame_size() > 0 { encoder.frame_size() } else { 4096 };
    let fifo = vec![vec![0.0; size as usize]; settings.channels as usize];
    let mut packet = Packet::new();
    for i in 0..4 {
        let mut frame = Frame::audio(settings.format(), settings.channels, settings.sample_rate, size)?;
        fill(&mut frame, &settings.encoder, &fifo, 0, size as usize);
        frame.set_pts(i64::from(size) * i);
        encoder.send(Some(&frame))?;
        if encoder.receive(&mut packet) {
            return Ok(Some(packet));
        }
    }
    Ok(None)
}
