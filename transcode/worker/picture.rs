//! Pictures, decoded, made fit (deinterlaced, scaled, turned, tone-mapped, drawn upon) and encoded.
//! Each segment has an encoder of its own: its bytes depend on nothing before it, and it is whole
//! as soon as its last picture went in, without waiting for a look ahead into the next.

use spindle_transcode::VideoPlan;

use crate::ff::{
    AVPixelFormat, Decoder, Encoder, Facts, Fail, Frame, Graph, Packet, Result, VIDEO_CLOCK, VideoSettings,
};
use crate::probe;
use crate::subtitle::Burn;

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
            // Scaled first, in 10 bit: what follows works on 32-bit floats and costs by the pixel.
            chain.push_str(&format!(
                "setparams=color_primaries={primaries}:color_trc={transfer}:colorspace={matrix},\
                 zscale=w={w}:h={h}:filter=bilinear,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,\
                 tonemap=tonemap=mobius:desat=0,zscale=t=bt709:m=bt709:r=tv,format={format},"
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

/// The fastest preset that still keeps up: by pixels a second and processor. Measured here with
/// all of decode, scale and encode: `veryfast` makes 22 million a second on two processors 2.4
/// times as fast as they are shown, `ultrafast` 3.6 times. A rule by size and not by load, so that
/// a segment has the same bytes whenever it is made.
fn preset(width: i32, height: i32, fps: f64) -> &'static str {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
    match f64::from(width) * f64::from(height) * fps / processors {
        p if p <= 16e6 => "veryfast",
        p if p <= 32e6 => "superfast",
        _ => "ultrafast",
    }
}

/// An encoded picture: its time in ticks of [`VIDEO_CLOCK`].
pub(crate) struct Encoded {
    pub(crate) segment: usize,
    pub(crate) at: i64,
    pub(crate) sync: bool,
    pub(crate) packet: Packet,
}

pub(crate) struct Pictures {
    decoder: Decoder,
    shape: Shape,
    settings: VideoSettings,
    graph: Option<(Graph, (i32, i32, i32))>,
    encoder: Option<(Encoder, usize)>,
    /// Time of the first picture of the segment that is being encoded.
    began_at: i64,
    boundaries: Vec<i64>,
    fps_cap: Option<i64>,
    last_slot: i64,
    last_at: i64,
    from_segment: usize,
    pub(crate) burn: Option<Burn>,
}

impl Pictures {
    pub(crate) fn new(
        decoder: Decoder,
        f: &Facts,
        plan: &VideoPlan,
        boundaries_us: &[i64],
        burn: Option<Burn>,
    ) -> Result<Self> {
        let VideoPlan::Encode { codec, max_width, max_height, max_bitrate_bps, fps_cap, tone_map, .. } = plan
        else {
            return Err(Fail::request("this plan copies the picture"));
        };
        if codec != "h264" {
            return Err(Fail::request(format!("no encoder for `{codec}` here, only h264")));
        }
        let shape = Shape::new(f, *max_width, *max_height, *tone_map, "yuv420p")?;
        let rate = [f.avg_rate, f.real_rate].into_iter().find(|r| r.0 > 0 && r.1 > 0).unwrap_or((25, 1));
        let fps = (f64::from(rate.0) / f64::from(rate.1)).min(fps_cap.map_or(f64::MAX, f64::from));
        let settings = VideoSettings {
            encoder: "libx264",
            width: shape.width,
            height: shape.height,
            rate,
            max_rate: max_bitrate_bps.and_then(|b| i64::try_from(b).ok()),
            preset: preset(shape.width, shape.height, fps),
            pixel_format: AVPixelFormat::AV_PIX_FMT_YUV420P,
            colors: shape.colors.clone(),
            still: false,
        };
        let clock = i64::from(VIDEO_CLOCK);
        Ok(Self {
            decoder,
            shape,
            settings,
            graph: None,
            encoder: None,
            began_at: 0,
            boundaries: boundaries_us.iter().map(|us| (us * clock + 500_000).div_euclid(1_000_000)).collect(),
            fps_cap: fps_cap.map(i64::from),
            last_slot: i64::MIN,
            last_at: i64::MIN,
            from_segment: 0,
            burn,
        })
    }

    /// An encoder as every segment gets it, for the init segment.
    pub(crate) fn sample_encoder(&self) -> Result<Encoder> {
        Encoder::video(&self.settings)
    }

    pub(crate) fn restart(&mut self, segment: usize) {
        self.decoder.flush();
        self.graph = None;
        self.encoder = None;
        self.last_slot = i64::MIN;
        self.last_at = i64::MIN;
        self.from_segment = segment;
    }

    /// Decodes a packet (or drains everything) and gives what encoders finished. `ticks` turns a
    /// time of the stream into ticks of the presentation.
    pub(crate) fn feed(
        &mut self,
        packet: Option<&Packet>,
        ticks: impl Fn(i64) -> i64,
        out: &mut Vec<Encoded>,
    ) -> Result<()> {
        self.decoder.send(packet);
        let mut frame = Frame::new();
        while self.decoder.receive(&mut frame) {
            let Some(at) = frame.time().map(&ticks) else { continue };
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
            self.collect(out)?;
        }
        if packet.is_none() {
            if let Some((graph, _)) = &mut self.graph {
                graph.send(None)?;
            }
            self.collect(out)?;
            self.finish_segment(out)?;
        }
        Ok(())
    }

    fn collect(&mut self, out: &mut Vec<Encoded>) -> Result<()> {
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
                self.finish_segment(out)?;
                self.encoder = Some((Encoder::video(&self.settings)?, segment));
                self.began_at = at;
            }
            if let Some(burn) = &mut self.burn {
                burn.draw(
                    &mut frame,
                    at * 1_000_000 / i64::from(VIDEO_CLOCK),
                    (self.shape.width, self.shape.height),
                )?;
            }
            frame.set_pts(at);
            if let Some((encoder, _)) = &mut self.encoder {
                encoder.send(Some(&frame))?;
            }
            self.drain(out);
        }
        Ok(())
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

    fn finish_segment(&mut self, out: &mut Vec<Encoded>) -> Result<()> {
        if let Some((encoder, _)) = &mut self.encoder {
            encoder.send(None)?;
            self.drain(out);
        }
        self.encoder = None;
        Ok(())
    }

    fn drain(&mut self, out: &mut Vec<Encoded>) {
        let Some((encoder, segment)) = &mut self.encoder else { return };
        let mut packet = Packet::new();
        while encoder.receive(&mut packet) {
            out.push(Encoded {
                segment: *segment,
                at: packet.pts().unwrap_or(0),
                sync: packet.is_key(),
                packet: packet.take(),
            });
        }
    }

    /// The segment that is being encoded, and the time of its first picture: all segments before
    /// it are whole.
    pub(crate) fn current(&self) -> Option<(usize, i64)> {
        self.encoder.as_ref().map(|(_, segment)| (*segment, self.began_at))
    }
}
