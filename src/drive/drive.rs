//! The mechanism of one drive: what a request costs, given where the head is, how the platter stands and what the drive
//! has read ahead. A state machine over numbers; whoever calls says what time it is.

use crate::params::Params;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the media or the drive's memory.
    Read,
    /// Into the drive's memory, and from there to the media.
    Write,
    /// Everything written is on the media: nothing is held back here, so it costs one command.
    Flush,
}

/// What serving a command took, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Service {
    /// When the answer is complete.
    pub done_s: f64,
    /// Moving the head.
    pub seek_s: f64,
    /// Waiting for the angle.
    pub rotation_s: f64,
    /// Reading or writing, and the bus.
    pub transfer_s: f64,
    /// Bytes that were in the drive's memory already.
    pub cached_bytes: u64,
    /// How far the head moved.
    pub distance_bytes: u64,
}

/// A part of the drive's memory: bytes `start..end` of the media.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    used_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Filling {
    segment: usize,
    /// After a pause the head must wait for the platter to come round again.
    from_s: f64,
    is_paused: bool,
}

/// A drive.
#[derive(Clone, Debug)]
pub struct Drive {
    params: Params,
    /// The byte after the last one under the head.
    head: u64,
    /// Since when the media is not used by a command.
    idle_since_s: f64,
    segments: Vec<Segment>,
    /// The segment that look-ahead fills while no command uses the media, and from when.
    filling: Option<Filling>,
    /// Solid state: when each channel is free, and the bus.
    channels_s: Vec<f64>,
    bus_free_s: f64,
}

impl Drive {
    /// A drive that has been idle, its head at byte 0.
    #[must_use]
    pub fn new(params: Params) -> Self {
        let channels_s = vec![0.0; params.channels];
        Self {
            params,
            head: 0,
            idle_since_s: 0.0,
            segments: Vec::new(),
            filling: None,
            channels_s,
            bus_free_s: 0.0,
        }
    }

    /// Its figures.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Where the head is.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// When it can begin another command.
    #[must_use]
    pub fn free_at_s(&self) -> f64 {
        if self.params.is_rotating() {
            self.idle_since_s
        } else {
            self.channels_s.iter().copied().fold(f64::INFINITY, f64::min)
        }
    }

    /// What reaching the first byte that is not in memory would take at `now_s`: what the drive sorts its queue by.
    #[must_use]
    pub fn positioning_s(&self, at: u64, len_bytes: u64, now_s: f64) -> f64 {
        let cached = self.cached(at, len_bytes).map_or(0, |(n, _)| n);
        if cached == len_bytes {
            return 0.0;
        }
        let target = at + cached;
        if target == self.head && self.is_streaming(now_s) {
            return 0.0;
        }
        let seek_s = self.params.seek_s(self.head, target);
        seek_s + self.params.turn_to_s(target, now_s + seek_s)
    }

    /// Serves a command that begins at `now_s`, which must not lie before [`Drive::free_at_s`].
    pub fn serve(&mut self, kind: Kind, at: u64, len_bytes: u64, now_s: f64) -> Service {
        if kind == Kind::Flush {
            return Service { done_s: now_s + self.params.overhead_s, ..Service::default() };
        }
        if !self.params.is_rotating() {
            return self.serve_solid(len_bytes, now_s);
        }
        self.look_ahead_until(now_s);
        match kind {
            Kind::Read => self.read(at, len_bytes, now_s),
            _ => self.write(at, len_bytes, now_s),
        }
    }

    fn serve_solid(&mut self, len_bytes: u64, now_s: f64) -> Service {
        let begin_s = now_s + self.params.overhead_s;
        let first =
            (0..self.channels_s.len()).min_by(|a, b| self.channels_s[*a].total_cmp(&self.channels_s[*b]));
        let channel = first.unwrap_or(0);
        let ready_s = begin_s.max(self.channels_s[channel]) + self.params.access_s;
        let transfer_s = len_bytes as f64 / self.params.bus_bytes_s;
        let done_s = ready_s.max(self.bus_free_s) + transfer_s;
        self.bus_free_s = done_s;
        self.channels_s[channel] = done_s;
        Service { done_s, transfer_s, ..Service::default() }
    }

    fn read(&mut self, at: u64, len_bytes: u64, now_s: f64) -> Service {
        let begin_s = now_s + self.params.overhead_s;
        let (cached, segment) = self.cached(at, len_bytes).map_or((0, None), |(n, i)| (n, Some(i)));
        let bus_s = cached as f64 / self.params.bus_bytes_s;
        if let (true, Some(i)) = (cached == len_bytes, segment) {
            // The media goes on with what it does: look-ahead is not disturbed.
            self.hand_over(i, at + len_bytes, now_s);
            self.resume_look_ahead(i, now_s);
            return Service {
                done_s: begin_s + bus_s,
                transfer_s: bus_s,
                cached_bytes: cached,
                ..Service::default()
            };
        }
        let target = at + cached;
        // The head that is already reading this very place has nothing to wait for.
        let (seek_s, rotation_s) = if target == self.head && self.is_streaming(now_s) {
            (0.0, 0.0)
        } else {
            let seek_s = self.params.seek_s(self.head, target);
            (seek_s, self.params.turn_to_s(target, begin_s + seek_s))
        };
        let media_s = (len_bytes - cached) as f64 / self.params.media_bytes_s(target);
        let done_s = begin_s + seek_s + rotation_s + media_s + bus_s;
        let distance_bytes = self.head.abs_diff(target);
        self.head = at + len_bytes;
        self.idle_since_s = done_s;
        let segment = self.segment_for(segment, at, now_s);
        self.filling = segment.map(|segment| Filling { segment, from_s: done_s, is_paused: false });
        if let Some(i) = segment {
            self.segments[i].end = at + len_bytes;
            self.hand_over(i, at + len_bytes, now_s);
        }
        Service {
            done_s,
            seek_s,
            rotation_s,
            transfer_s: media_s + bus_s,
            cached_bytes: cached,
            distance_bytes,
        }
    }

    /// A write goes into the drive's memory first, which hides the turn and, by sorting, half of the seek.
    fn write(&mut self, at: u64, len_bytes: u64, now_s: f64) -> Service {
        let begin_s = now_s + self.params.overhead_s;
        let seek_s = self.params.seek_s(self.head, at) / 2.0;
        let transfer_s = len_bytes as f64 / self.params.media_bytes_s(at);
        let distance_bytes = self.head.abs_diff(at);
        for segment in &mut self.segments {
            if at < segment.end && at + len_bytes > segment.start {
                segment.end = segment.start;
            }
        }
        self.head = at + len_bytes;
        self.filling = None;
        self.idle_since_s = begin_s + seek_s + transfer_s;
        Service { done_s: self.idle_since_s, seek_s, transfer_s, distance_bytes, ..Service::default() }
    }

    /// Lets the idle media read ahead up to `now_s`.
    fn look_ahead_until(&mut self, now_s: f64) {
        if let Some(filling) = self.filling.filter(|f| !f.is_paused) {
            let idle_s = (now_s - filling.from_s.max(self.idle_since_s)).max(0.0);
            let segment = &mut self.segments[filling.segment];
            let room = room(&self.params, segment);
            let could = (idle_s * self.params.media_bytes_s(segment.end)) as u64;
            segment.end += could.min(room);
            self.head = segment.end;
            if could >= room {
                // Full: the head rests here, and the platter turns away below it.
                self.filling = Some(Filling { is_paused: true, ..filling });
            }
        }
        self.idle_since_s = self.idle_since_s.max(now_s);
    }

    /// A reader has taken from a full segment: once half of it is free, the drive goes on when the place comes round.
    fn resume_look_ahead(&mut self, i: usize, now_s: f64) {
        let end = self.segments[i].end;
        if self.filling.is_some_and(|f| f.is_paused && f.segment == i)
            && room(&self.params, &self.segments[i]) >= self.params.segment_bytes / 2
        {
            let from_s = now_s + self.params.turn_to_s(end, now_s);
            self.filling = Some(Filling { segment: i, from_s, is_paused: false });
        }
    }

    /// Whether the media is being read at the head's place at `now_s`, so that going on costs no turn.
    fn is_streaming(&self, now_s: f64) -> bool {
        self.filling.is_some_and(|f| !f.is_paused && f.from_s <= now_s)
    }

    /// Bytes at the front of a request that are in memory, and in which segment.
    fn cached(&self, at: u64, len_bytes: u64) -> Option<(u64, usize)> {
        let i = self.segments.iter().position(|s| s.start <= at && at <= s.end && s.end > s.start)?;
        Some(((self.segments[i].end - at).min(len_bytes), i))
    }

    /// The segment that a request from the media goes to: the one that it continues, a free one, or the one that was not
    /// used for longest.
    fn segment_for(&mut self, continued: Option<usize>, at: u64, now_s: f64) -> Option<usize> {
        if continued.is_some() || self.params.segments == 0 {
            return continued;
        }
        let fresh = Segment { start: at, end: at, used_s: now_s };
        if self.segments.len() < self.params.segments {
            self.segments.push(fresh);
            return Some(self.segments.len() - 1);
        }
        let oldest = (0..self.segments.len())
            .min_by(|a, b| self.segments[*a].used_s.total_cmp(&self.segments[*b].used_s))?;
        self.segments[oldest] = fresh;
        Some(oldest)
    }

    /// Up to `end` has been given to the host. An eighth of a segment is kept behind it, for readers a little apart; the
    /// rest of its room is for what comes.
    fn hand_over(&mut self, i: usize, end: u64, now_s: f64) {
        let keep = self.params.segment_bytes / 8;
        let segment = &mut self.segments[i];
        segment.used_s = now_s;
        segment.start = segment.start.max(end.saturating_sub(keep)).min(segment.end);
    }
}

/// How much more look-ahead may put into a segment.
fn room(params: &Params, segment: &Segment) -> u64 {
    let room = (segment.start + params.segment_bytes).saturating_sub(segment.end);
    room.min(params.size_bytes.saturating_sub(segment.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(preset: &str) -> Drive {
        Drive::new(Params::preset(preset, 1 << 40).unwrap())
    }

    /// Requests one after the other; bytes a second.
    fn rate(drive: &mut Drive, len_bytes: u64, count: u64, place: impl Fn(u64) -> u64) -> f64 {
        let mut now_s = 0.01;
        for i in 0..count {
            now_s = drive.serve(Kind::Read, place(i), len_bytes, now_s).done_s;
        }
        (count * len_bytes) as f64 / (now_s - 0.01)
    }

    #[test]
    fn the_parts_of_a_service_add_up_to_its_time() {
        let mut d = drive("hdd7200");
        let s = d.serve(Kind::Read, 500 << 30, 1 << 20, 1.0);
        let parts = d.params().overhead_s + s.seek_s + s.rotation_s + s.transfer_s;
        assert!((s.done_s - 1.0 - parts).abs() < 1e-9);
        assert_eq!((s.cached_bytes, s.distance_bytes), (0, 500 << 30));
        assert_eq!((d.head(), d.free_at_s()), ((500 << 30) + (1 << 20), s.done_s));
    }

    #[test]
    fn a_sequential_reader_gets_the_media_rate_and_finds_its_bytes_read_ahead() {
        let mut d = drive("hdd7200");
        let got = rate(&mut d, 128 << 10, 2000, |i| i * (128 << 10));
        assert!((130e6..=210e6).contains(&got), "{got}");
        let s = d.serve(Kind::Read, 2000 * (128 << 10), 128 << 10, 60.0);
        assert_eq!((s.cached_bytes, s.seek_s, s.rotation_s), (128 << 10, 0.0, 0.0));
    }

    #[test]
    fn without_look_ahead_every_small_request_misses_a_turn() {
        let mut d = Drive::new(Params { segments: 0, ..drive("hdd7200").params().clone() });
        let got = rate(&mut d, 128 << 10, 500, |i| i * (128 << 10));
        let turn = (128 << 10) as f64 / d.params().turn_s();
        assert!(got < turn * 1.2, "{got} against {turn}");
    }

    #[test]
    fn a_write_makes_what_was_read_ahead_stale() {
        let mut d = drive("hdd7200");
        d.serve(Kind::Read, 0, 1 << 20, 0.0);
        assert!(d.serve(Kind::Read, 1 << 20, 64 << 10, 1.0).cached_bytes > 0);
        d.serve(Kind::Write, 1 << 20, 1 << 20, 2.0);
        assert_eq!(d.serve(Kind::Read, 1 << 20, 64 << 10, 3.0).cached_bytes, 0);
    }

    #[test]
    fn more_readers_than_segments_find_nothing_read_ahead() {
        let cached = |mut d: Drive| {
            let at = |i: u64| (i % 8) * (64 << 30) + (i / 8) * (128 << 10);
            (0..800).map(|i| d.serve(Kind::Read, at(i), 128 << 10, i as f64 * 0.05).cached_bytes).sum::<u64>()
        };
        let roomy = drive("hdd7200");
        let poor = Drive::new(roomy.params().clone().pessimistic());
        assert!(cached(roomy) > 700 * (128 << 10));
        assert_eq!(cached(poor), 0);
    }

    #[test]
    fn a_solid_state_drive_overlaps_access_and_shares_one_bus() {
        let mut d = drive("ssd");
        let one = d.serve(Kind::Read, 0, 4096, 0.0).done_s;
        assert!((80e-6..130e-6).contains(&one), "{one}");
        // Eight at once: hardly later than one.
        let mut last = 0.0_f64;
        for i in 1..9 {
            last = last.max(d.serve(Kind::Read, i * 4096, 4096, 1.0).done_s);
        }
        assert!(last - 1.0 < 2.0 * one, "{last}");
        let got = rate(&mut drive("ssd"), 1 << 20, 200, |i| i * (1 << 20));
        assert!((450e6..=530e6).contains(&got), "{got}");
    }

    #[test]
    fn the_same_requests_take_the_same_time_to_the_last_bit() {
        let run = || {
            let mut d = drive("hdd7200");
            (0..500_u64)
                .map(|i| d.serve(Kind::Read, (i * 7_000_003) << 12, 65536, i as f64 * 0.02).done_s.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
