//! Sound, decoded and encoded anew on one grid of samples: frame `k` of the output starts at
//! sample `k * frame_size` of the presentation, whichever segment was asked for first.

use crate::ff::{AudioSettings, Decoder, Encoder, Frame, Packet, Resampler, Result};

/// Frames that are encoded and thrown away after a start: the encoder's own delay and the overlap
/// that the first kept frame needs to sound like its predecessor in an unbroken run.
const PRE_ROLL: i64 = 4;
/// A gap or overlap of the source below this is the rounding of its time stamps (1 ms in
/// Matroska) or jitter, and is not touched; above it, silence goes in or sound goes out.
const SLACK_MS: i64 = 40;

/// An encoded frame: its number of samples from the presentation's start, and its bytes.
pub(crate) struct Encoded {
    pub(crate) at: i64,
    pub(crate) packet: Packet,
}

pub(crate) struct Sound {
    decoder: Decoder,
    settings: AudioSettings,
    encoder: Option<Encoder>,
    resampler: Option<(Resampler, (i32, i32, i32))>,
    /// Output samples that wait for a full frame; the first is sample `fifo_at`.
    fifo: Vec<Vec<f32>>,
    fifo_at: i64,
    /// Frames below this are pre-roll.
    first_kept: i64,
    frame: i64,
    frame_size: i64,
    padding: i64,
    started: bool,
}

impl Sound {
    pub(crate) fn new(decoder: Decoder, settings: AudioSettings) -> Result<Self> {
        let encoder = Encoder::audio(&settings)?;
        let frame_size = match encoder.frame_size() {
            n if n > 0 => n.into(),
            _ => 4096,
        };
        let channels = usize::try_from(settings.channels).unwrap_or(2);
        Ok(Self {
            decoder,
            padding: encoder.padding().into(),
            encoder: None,
            settings,
            resampler: None,
            fifo: vec![Vec::new(); channels],
            fifo_at: 0,
            first_kept: 0,
            frame: 0,
            frame_size,
            started: false,
        })
    }

    pub(crate) fn frame_size(&self) -> i64 {
        self.frame_size
    }

    /// Makes everything fresh, for output that is kept from `at_us` on.
    pub(crate) fn restart(&mut self, at_us: i64) -> Result<()> {
        self.decoder.flush();
        self.resampler = None;
        self.encoder = Some(Encoder::audio(&self.settings)?);
        let at = at_us * i64::from(self.settings.sample_rate) / 1_000_000;
        self.first_kept = at.max(0).div_euclid(self.frame_size) - 1;
        self.frame = self.first_kept - PRE_ROLL;
        // The encoder's output for frame k comes from input that lies `padding` later.
        self.fifo_at = self.frame * self.frame_size + self.padding;
        self.fifo.iter_mut().for_each(Vec::clear);
        self.started = false;
        Ok(())
    }

    /// The earliest time of sound that a start at `at_us` needs.
    pub(crate) fn needs_from_us(&self, at_us: i64) -> i64 {
        at_us - (PRE_ROLL + 2) * self.frame_size * 1_000_000 / i64::from(self.settings.sample_rate)
    }

    /// Decodes a packet (or drains) and gives what the encoder finished. `time_us` turns a time of
    /// the stream into microseconds of the presentation.
    pub(crate) fn feed(
        &mut self,
        packet: Option<&Packet>,
        time_us: impl Fn(i64) -> i64,
        out: &mut Vec<Encoded>,
    ) -> Result<()> {
        self.decoder.send(packet);
        let mut frame = Frame::new();
        while self.decoder.receive(&mut frame) {
            self.place(&frame, frame.time().map(&time_us))?;
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
            let at = (i128::from(at_us) * i128::from(rate) + 500_000).div_euclid(1_000_000) as i64;
            let off = at - expected;
            let slack = if self.started { SLACK_MS * rate / 1000 } else { 0 };
            if off > slack {
                // Nothing to hear for that long; the bound keeps a lying time stamp from filling memory.
                let gap = off.min(rate * 600) as usize;
                self.silence(gap);
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

    fn encode(&mut self, out: &mut Vec<Encoded>) -> Result<()> {
        let size = self.frame_size as usize;
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        let mut used = 0;
        let mut packet = Packet::new();
        while self.fifo[0].len() - used >= size {
            let mut frame = Frame::audio(
                self.settings.format(),
                self.settings.channels,
                self.settings.sample_rate,
                self.frame_size as i32,
            )?;
            fill(&mut frame, &self.settings.encoder, &self.fifo, used, size);
            frame.set_pts(self.fifo_at + used as i64);
            encoder.send(Some(&frame))?;
            used += size;
            while encoder.receive(&mut packet) {
                let at = self.frame * self.frame_size;
                if self.frame >= self.first_kept && self.frame >= 0 {
                    out.push(Encoded { at, packet: packet.take() });
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
