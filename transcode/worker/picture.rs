//! Pictures, decoded, made fit (deinterlaced, scaled, turned, tone-mapped, drawn upon) and encoded.
//!
//! Each segment has an encoder of its own, which ends with the segment: it is whole as soon as its last
//! picture went in, without a look ahead into the next, and is decoded without anything before it. So that
//! the processor never waits for an encoder that fills or drains, the work is done in a row of threads: who
//! reads hands packets to one that decodes and filters; that one hands pictures to the encoder of their
//! segment, a thread each; while one drains, the next fills.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spindle_transcode::{VideoPlan, bitstream};

use crate::ff::{
    AVPixelFormat, Decoder, Encoder, Facts, Fail, Frame, Graph, Packet, Result, VIDEO_CLOCK, VideoSettings,
};
use crate::probe;
use crate::subtitle::Burn;

/// Packets that wait for the decoder: enough that it never waits for who reads, few enough that a jump
/// is not followed by a second of old work.
const PACKETS: usize = 16;
/// Pictures that wait for an encoder: at most 3 MB each.
const PICTURES: usize = 6;
/// Encoders at once: one fills, one drains, one may have a very short segment between them.
const ENCODERS: usize = 3;

/// What the pictures become.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) width: i32,
    pub(crate) height: i32,
    chain: String,
    pub(crate) colors: [Option<String>; 3],
}

impl Shape {
    /// Square pixels, even sides, upright, never larger than the source or the limits.
    pub(crate) fn new(
        f: &Facts,
        max_width: Option<u32>,
        max_height: Option<u32>,
        tone_map: bool,
        format: &str,
    ) -> Result<Self> {
        if f.width <= 0 || f.height <= 0 {
            return Err(Fail::unreadable("the picture has no size"));
        }
        let sar = if f.sar.0 > 0 && f.sar.1 > 0 { f64::from(f.sar.0) / f64::from(f.sar.1) } else { 1.0 };
        // Pixels are made square by widening or by heightening, so that no line is lost.
        let (mut w, mut h) = if sar >= 1.0 {
            (f64::from(f.width) * sar, f64::from(f.height))
        } else {
            (f64::from(f.width), f64::from(f.height) / sar)
        };
        let turned = f.rotation % 180 == 90;
        let (max_w, max_h) = if turned { (max_height, max_width) } else { (max_width, max_height) };
        let fit = [(max_w, w), (max_h, h)]
            .into_iter()
            .filter_map(|(max, is)| max.map(|m| f64::from(m.max(2)) / is))
            .fold(1.0, f64::min);
        w *= fit;
        h *= fit;
        let even = |x: f64| ((x / 2.0).round() as i32 * 2).max(2);
        let (w, h) = (even(w), even(h));
        let mut chain = String::new();
        if probe::is_interlaced(f) {
            chain.push_str("bwdif=mode=send_frame:deint=interlaced,");
        }
        let colors = if tone_map {
            let transfer = f.color_transfer.as_deref().unwrap_or("smpte2084");
            let primaries = f.color_primaries.as_deref().unwrap_or("bt2020");
            let matrix = f.color_space.as_deref().unwrap_or("bt2020nc");
            // Scaled first, in 10 bit: what follows works on 32-bit floats and costs by the pixel. Integers at the end of it, of 16
            // bit, cut off what BT.709 does not have: the curve of negative light is zimg's to choose, by processor, and on some
            // it made red black.
            chain.push_str(&format!(
                "setparams=color_primaries={primaries}:color_trc={transfer}:colorspace={matrix},\
                 zscale=w={w}:h={h}:filter=bilinear,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,\
                 tonemap=tonemap=mobius:desat=0,zscale,format=gbrp16le,zscale=t=bt709:m=bt709:r=tv,format={format},"
            ));
            [Some("bt709".to_owned()), Some("bt709".to_owned()), Some("bt709".to_owned())]
        } else {
            chain.push_str(&format!("scale=w={w}:h={h}:flags=bicubic:out_range=tv,format={format},"));
            [f.color_primaries.clone(), f.color_transfer.clone(), f.color_space.clone()]
        };
        chain.push_str(match f.rotation {
            90 => "transpose=clock,",
            180 => "hflip,vflip,",
            270 => "transpose=cclock,",
            _ => "",
        });
        chain.push_str("setsar=1");
        let (width, height) = if turned { (h, w) } else { (w, h) };
        Ok(Self { width, height, chain, colors })
    }

    pub(crate) fn graph(&self, first: &Frame) -> Result<Graph> {
        Graph::new(first, &self.chain)
    }
}

/// What pictures are encoded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coded {
    H264,
    Hevc,
}

impl Coded {
    /// By FFmpeg's name.
    fn named(codec: &str) -> Option<Self> {
        match codec {
            "h264" => Some(Self::H264),
            "hevc" => Some(Self::Hevc),
            _ => None,
        }
    }

    fn encoder(self) -> &'static str {
        match self {
            Self::H264 => "libx264",
            Self::Hevc => "libx265",
        }
    }

    /// The most thorough preset that still keeps up: by pixels a second and processor. Measured here with
    /// all of decode, scale and encode: x264's `veryfast` makes 22 million a second on two processors 2.4
    /// times as fast as they are shown, `ultrafast` 3.6 times. A rule by size and not by load: it decides
    /// what stands in the init segment. What the machine has left beyond it is [`Pace`]'s.
    fn preset(self, pixels_per_second: f64) -> &'static str {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
        let each = pixels_per_second / processors;
        let (presets, limits) = match self {
            Self::H264 => (["veryfast", "superfast", "ultrafast"], [16e6, 32e6]),
            Self::Hevc => (["veryfast", "superfast", "ultrafast"], [4e6, 8e6]),
        };
        presets[limits.iter().filter(|limit| each > **limit).count()]
    }

    /// Appends an encoder's packet as a sample of MP4 has it.
    fn sample(self, data: &[u8], out: &mut Vec<u8>) {
        match self {
            // x264 and x265 give start codes whatever their headers are asked to be.
            Self::H264 => bitstream::annex_b_to_lengths(data, false, out),
            Self::Hevc => bitstream::annex_b_to_lengths(data, true, out),
        }
    }
}

/// An encoded picture: its time in ticks of [`VIDEO_CLOCK`], and its bytes as MP4 has them.
pub(crate) struct Encoded {
    pub(crate) at: i64,
    pub(crate) sync: bool,
    pub(crate) bytes: Vec<u8>,
}

/// What the threads made.
pub(crate) enum Made {
    /// The first picture of a segment is shown at `at`, which ends the last one before it.
    Begun { at: i64 },
    /// All of a segment.
    Segment { segment: usize, pictures: Vec<Encoded> },
    /// There will be no more: the film has ended.
    End,
}

/// What the threads are asked for.
enum Job {
    Restart { segment: usize },
    Packet(Packet),
    Caption { packet: Packet, at_us: i64 },
    End,
}

/// What threads share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Counts up with every restart. Work of an older one is given up as soon as it is seen.
    run: AtomicU64,
    /// Counts pictures that went through a stage: a thread that hangs does not count.
    steps: AtomicU64,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    made: VecDeque<Made>,
    failed: Option<Fail>,
    /// The decoding thread is at a job.
    at_work: bool,
    encoders: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left nothing half-done that another would believe.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, run: u64) -> bool {
        self.run.load(Ordering::Acquire) != run
    }

    /// Tells who reads, unless it has gone elsewhere.
    fn tell(&self, run: u64, made: Made) {
        let mut state = self.lock();
        if !self.is_over(run) {
            state.made.push_back(made);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn fail(&self, run: u64, fail: Fail) {
        let mut state = self.lock();
        if !self.is_over(run) {
            state.failed.get_or_insert(fail);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// The end of the row that who reads has in hand.
pub(crate) struct Pictures {
    shared: Arc<Shared>,
    sample: Option<Encoder>,
}

impl Pictures {
    pub(crate) fn new(
        decoder: Decoder,
        f: &Facts,
        plan: &VideoPlan,
        boundaries_us: &[i64],
        burn: Option<Burn>,
        ticks: impl Fn(i64) -> i64 + Send + 'static,
    ) -> Result<Self> {
        let VideoPlan::Encode { codec, max_width, max_height, max_bitrate_bps, fps_cap, tone_map, .. } = plan
        else {
            return Err(Fail::request("this plan copies the picture"));
        };
        let coded = Coded::named(codec)
            .ok_or_else(|| Fail::request(format!("no encoder for `{codec}` here, only h264 and hevc")))?;
        let shape = Shape::new(f, *max_width, *max_height, *tone_map, "yuv420p")?;
        let rate = [f.avg_rate, f.real_rate].into_iter().find(|r| r.0 > 0 && r.1 > 0).unwrap_or((25, 1));
        let fps = (f64::from(rate.0) / f64::from(rate.1)).min(fps_cap.map_or(f64::MAX, f64::from));
        let settings = VideoSettings {
            encoder: coded.encoder(),
            width: shape.width,
            height: shape.height,
            rate,
            max_rate: max_bitrate_bps.and_then(|b| i64::try_from(b).ok()),
            preset: coded.preset(f64::from(shape.width) * f64::from(shape.height) * fps),
            quick: false,
            pixel_format: AVPixelFormat::AV_PIX_FMT_YUV420P,
            colors: shape.colors.clone(),
            still: false,
        };
        let clock = i64::from(VIDEO_CLOCK);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            run: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        });
        let sample = Encoder::video(&settings)?;
        let line = Line {
            shared: Arc::clone(&shared),
            run: 0,
            decoder,
            shape,
            settings,
            coded,
            headers: sample.headers().into(),
            pace: Pace::default(),
            graph: None,
            encoder: None,
            drains: None,
            boundaries: boundaries_us.iter().map(|us| (us * clock + 500_000).div_euclid(1_000_000)).collect(),
            fps_cap: fps_cap.map(i64::from),
            last_slot: i64::MIN,
            last_at: i64::MIN,
            from_segment: 0,
            burn,
        };
        std::thread::Builder::new()
            .name("pictures".to_owned())
            .spawn(move || line.work(ticks))
            .map_err(|e| Fail::fault(format!("unable to start a thread: {e}")))?;
        Ok(Self { shared, sample: Some(sample) })
    }

    /// An encoder as every segment gets it, for the init segment. There is one.
    pub(crate) fn sample_encoder(&mut self) -> Result<Encoder> {
        self.sample.take().ok_or_else(|| Fail::fault("the init segment was made before"))
    }

    /// Gives up what is under way and begins anew: what follows is for output from `segment` on.
    pub(crate) fn restart(&mut self, segment: usize) {
        let mut state = self.shared.lock();
        self.shared.run.fetch_add(1, Ordering::AcqRel);
        state.jobs.clear();
        state.made.clear();
        state.failed = None;
        state.jobs.push_back(Job::Restart { segment });
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Hands a packet to the decoder; `false` if there is no room for it yet, and it was not taken.
    pub(crate) fn offer(&mut self, packet: &mut Packet) -> bool {
        let mut state = self.shared.lock();
        if state.jobs.len() >= PACKETS {
            return false;
        }
        state.jobs.push_back(Job::Packet(packet.take()));
        drop(state);
        self.shared.changed.notify_all();
        true
    }

    /// Hands a picture of a subtitle stream in.
    pub(crate) fn caption(&mut self, packet: Packet, at_us: i64) {
        self.shared.lock().jobs.push_back(Job::Caption { packet, at_us });
        self.shared.changed.notify_all();
    }

    /// The film has ended.
    pub(crate) fn end(&mut self) {
        self.shared.lock().jobs.push_back(Job::End);
        self.shared.changed.notify_all();
    }

    /// What was made since.
    pub(crate) fn take(&mut self) -> Result<VecDeque<Made>> {
        let mut state = self.shared.lock();
        match state.failed.take() {
            Some(fail) => Err(fail),
            None => Ok(std::mem::take(&mut state.made)),
        }
    }

    /// Waits until something was made or another packet can be taken, at most `most`.
    pub(crate) fn wait(&mut self, most: Duration, for_room: bool) {
        let state = self.shared.lock();
        let nothing =
            |s: &mut State| s.made.is_empty() && s.failed.is_none() && !(for_room && s.jobs.len() < PACKETS);
        let _ = self.shared.changed.wait_timeout_while(state, most, nothing);
    }

    /// Whether nothing more comes unless another packet goes in.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.jobs.is_empty() && !state.at_work && state.made.is_empty() && state.encoders <= 1
    }

    /// Counts up while the threads get on.
    pub(crate) fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }
}

/// The decoding thread.
struct Line {
    shared: Arc<Shared>,
    run: u64,
    decoder: Decoder,
    shape: Shape,
    settings: VideoSettings,
    coded: Coded,
    graph: Option<(Graph, (i32, i32, i32))>,
    encoder: Option<(SyncSender<Frame>, usize)>,
    /// The encoder before it, which may still be at work.
    drains: Option<JoinHandle<()>>,
    /// Parameter sets that every encoder must have.
    headers: Arc<[u8]>,
    pace: Pace,
    boundaries: Vec<i64>,
    fps_cap: Option<i64>,
    last_slot: i64,
    last_at: i64,
    from_segment: usize,
    burn: Option<Burn>,
}

impl Line {
    /// Until the process ends. `ticks` turns a time of the stream into ticks of the presentation.
    fn work(mut self, ticks: impl Fn(i64) -> i64) {
        loop {
            let waits = Instant::now();
            let (job, run) = self.next();
            self.run = run;
            self.pace.idle += waits.elapsed();
            if let Err(fail) = self.carry_out(job, &ticks) {
                self.shared.fail(run, fail);
            }
        }
    }

    fn next(&self) -> (Job, u64) {
        let mut state = self.shared.lock();
        state.at_work = false;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.at_work = true;
                // Under the lock, under which it is counted up.
                let run = self.shared.run.load(Ordering::Acquire);
                drop(state);
                self.shared.changed.notify_all();
                return (job, run);
            }
            self.shared.changed.notify_all();
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&mut self, job: Job, ticks: &impl Fn(i64) -> i64) -> Result<()> {
        match job {
            Job::Restart { segment } => {
                self.decoder.flush();
                self.graph = None;
                self.encoder = None;
                self.last_slot = i64::MIN;
                self.last_at = i64::MIN;
                self.from_segment = segment;
                self.pace = Pace::default();
                Ok(())
            }
            Job::Packet(packet) => self.feed(Some(&packet), ticks),
            Job::Caption { packet, at_us } => {
                if let Some(burn) = &mut self.burn {
                    burn.feed(&packet, at_us);
                }
                Ok(())
            }
            Job::End => {
                self.feed(None, ticks)?;
                self.encoder = None;
                if let Some(last) = self.drains.take() {
                    let _ = last.join();
                }
                self.shared.tell(self.run, Made::End);
                Ok(())
            }
        }
    }

    /// Decodes a packet, or drains.
    fn feed(&mut self, packet: Option<&Packet>, ticks: &impl Fn(i64) -> i64) -> Result<()> {
        self.decoder.send(packet);
        let mut frame = Frame::new();
        while !self.shared.is_over(self.run) && self.decoder.receive(&mut frame) {
            self.shared.step();
            let Some(at) = frame.time().map(ticks) else { continue };
            frame.set_pts(at);
            let shape = frame.shape();
            // Recorders change the picture size in mid-file: the graph is made anew, the result
            // keeps its size.
            if self.graph.as_ref().is_none_or(|(_, of)| *of != shape) {
                self.graph = Some((self.shape.graph(&frame)?, shape));
            }
            if let Some((graph, _)) = &mut self.graph {
                graph.send(Some(&mut frame))?;
            }
            self.collect()?;
        }
        if packet.is_none() {
            if let Some((graph, _)) = &mut self.graph {
                graph.send(None)?;
            }
            self.collect()?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        let mut frame = Frame::new();
        while self.graph.as_mut().is_some_and(|(graph, _)| graph.receive(&mut frame)) {
            let at = frame.pts();
            if at < 0 || at <= self.last_at || !self.in_time(at) {
                continue;
            }
            self.last_at = at;
            let last = self.boundaries.len().saturating_sub(2);
            let segment = self.boundaries.partition_point(|b| *b <= at).saturating_sub(1).min(last);
            if segment < self.from_segment {
                continue;
            }
            if self.encoder.as_ref().is_none_or(|(_, of)| *of != segment) {
                self.begin(segment, at)?;
            }
            if let Some(burn) = &mut self.burn {
                burn.draw(
                    &mut frame,
                    at * 1_000_000 / i64::from(VIDEO_CLOCK),
                    (self.shape.width, self.shape.height),
                )?;
            }
            frame.set_pts(at);
            if let Some((encoder, _)) = &self.encoder
                && encoder.send(frame.take()).is_err()
            {
                // It has failed and said so, or was given up.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts the encoder of a segment whose first picture is shown at `at`.
    fn begin(&mut self, segment: usize, at: i64) -> Result<()> {
        self.shared.tell(self.run, Made::Begun { at });
        // Whoever had it before gets no more: it drains.
        self.encoder = None;
        self.wait_for_an_encoder();
        let quick = self.pace.next(at, Instant::now());
        let settings = VideoSettings { quick, ..self.settings.clone() };
        let (headers, coded) = (Arc::clone(&self.headers), self.coded);
        let (frames, inbox) = sync_channel(PICTURES);
        let (shared, run, before) = (Arc::clone(&self.shared), self.run, self.drains.take());
        let count = Counted(Arc::clone(&self.shared));
        let thread = std::thread::Builder::new()
            .name("encode".to_owned())
            .spawn(move || {
                let _count = count;
                let made = encode(&shared, run, settings, coded, &headers, &inbox);
                // Segments are told in their order.
                if let Some(before) = before {
                    let _ = before.join();
                }
                match made {
                    Ok(pictures) => shared.tell(run, Made::Segment { segment, pictures }),
                    Err(fail) => shared.fail(run, fail),
                }
            })
            .map_err(|e| Fail::fault(format!("unable to start a thread: {e}")))?;
        self.drains = Some(thread);
        self.encoder = Some((frames, segment));
        Ok(())
    }

    fn wait_for_an_encoder(&self) {
        let state = self.shared.lock();
        let full = |s: &mut State| s.encoders >= ENCODERS;
        let mut state = self.shared.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        state.encoders += 1;
    }

    /// Whether a picture may be shown under the cap: at most one in each slot of a fixed grid.
    fn in_time(&mut self, at: i64) -> bool {
        let Some(cap) = self.fps_cap else { return true };
        // A quarter of a slot of jitter stays in its slot.
        let clock = i64::from(VIDEO_CLOCK);
        let slot = (at * cap + clock / 4).div_euclid(clock);
        let fresh = slot != self.last_slot;
        self.last_slot = slot;
        fresh
    }
}

/// How fast the row is, and with it how much search a picture is worth: as much as the preset says where
/// that is done well before it is shown, little where not, and little for the first segment of a run, which
/// somebody waits for.
#[derive(Default)]
struct Pace {
    /// Time of the last segment's first picture, and when it came.
    last: Option<(i64, Instant)>,
    /// How long the row has waited for packets since.
    idle: Duration,
    is_quick: bool,
}

impl Pace {
    /// Whether the encoder that begins `at` has to be quick.
    fn next(&mut self, at: i64, now: Instant) -> bool {
        let idle = std::mem::take(&mut self.idle);
        let Some((last_at, last)) = self.last.replace((at, now)) else {
            self.is_quick = true;
            return true;
        };
        let worked = now.saturating_duration_since(last).saturating_sub(idle).as_secs_f64();
        let shown = (at - last_at) as f64 / f64::from(VIDEO_CLOCK);
        let speed = shown / worked.max(1e-6);
        // Quick is nearly twice as fast: from there back to the preset there must be room for that.
        self.is_quick = if self.is_quick { speed < 2.0 * BARELY } else { speed < BARELY };
        self.is_quick
    }
}

/// Seconds of the film a second below which a viewer would soon wait. A busy machine's own ups and downs
/// take some, a second viewer more.
const BARELY: f64 = 1.25;

/// An encoder that is counted; its end is noticed however it ends.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().encoders -= 1;
        self.0.changed.notify_all();
    }
}

/// Encodes what comes until nothing comes any more.
fn encode(
    shared: &Shared,
    run: u64,
    mut settings: VideoSettings,
    coded: Coded,
    headers: &[u8],
    inbox: &Receiver<Frame>,
) -> Result<Vec<Encoded>> {
    let mut encoder = Encoder::video(&settings)?;
    if settings.quick && encoder.headers() != headers {
        settings.quick = false;
        encoder = Encoder::video(&settings)?;
    }
    if encoder.headers() != headers {
        return Err(Fail::fault("the encoder's parameter sets are not those of the init segment"));
    }
    let mut out = Vec::new();
    let mut packet = Packet::new();
    let mut drain = |encoder: &mut Encoder| {
        while !shared.is_over(run) && encoder.receive(&mut packet) {
            shared.step();
            let mut bytes = Vec::with_capacity(packet.data().len() + 16);
            coded.sample(packet.data(), &mut bytes);
            out.push(Encoded { at: packet.pts().unwrap_or(0), sync: packet.is_key(), bytes });
        }
    };
    for frame in inbox {
        if shared.is_over(run) {
            return Ok(Vec::new());
        }
        encoder.send(Some(&frame))?;
        drain(&mut encoder);
    }
    encoder.send(None)?;
    drain(&mut encoder);
    Ok(out)
}
