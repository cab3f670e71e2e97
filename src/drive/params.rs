//! What a drive is: figures from data sheets, as presets or from a file of `key = value` lines.

use std::fmt;

/// The figures of one drive. Times in seconds, rates in bytes a second, positions in bytes from the outer edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Bytes of the device; they are spread over `stroke`.
    pub size_bytes: u64,
    /// The part of the whole stroke (0 outer edge, 1 inner edge) that the device covers. A small image that covers all
    /// of it has a big disk's seeks and a small disk's tracks, which is what a test wants.
    pub stroke: (f64, f64),
    /// Turns a minute; 0: nothing turns, see `access_s`.
    pub rpm: f64,
    /// Shortest seek, to the next track.
    pub seek_track_s: f64,
    /// Seek over a third of the stroke, the "average" of data sheets.
    pub seek_third_s: f64,
    /// Seek over the whole stroke.
    pub seek_full_s: f64,
    /// Media rate at the outer edge.
    pub outer_bytes_s: f64,
    /// Media rate at the inner edge.
    pub inner_bytes_s: f64,
    /// Zones of equal rate between the edges.
    pub zones: u32,
    /// Rate from the drive's own memory over the bus.
    pub bus_bytes_s: f64,
    /// Fixed cost of a command.
    pub overhead_s: f64,
    /// Segments of the drive's memory that hold what it read ahead; 0: no look-ahead.
    pub segments: usize,
    /// Size of one of them.
    pub segment_bytes: u64,
    /// Commands that the drive holds and sorts (NCQ).
    pub queue: usize,
    /// A command older than this goes first, however far away it is.
    pub ageing_s: f64,
    /// Solid state: time to reach any byte, the same everywhere.
    pub access_s: f64,
    /// Solid state: commands whose `access_s` overlap.
    pub channels: usize,
}

/// A key, number or preset that makes no drive.
#[derive(Debug, PartialEq)]
pub struct BadParams(pub String);

impl fmt::Display for BadParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadParams {}

/// The names that [`Params::preset`] knows.
pub const PRESETS: [&str; 4] = ["hdd7200", "hdd5400", "hdd15k", "ssd"];

impl Params {
    /// One of [`PRESETS`].
    ///
    /// hdd7200 is a 3.5" drive of a home server (data sheets: seek 8.5 ms, 210 to 100 MB/s, 4.16 ms half a turn); hdd5400 a
    /// 2.5" or "green" one; hdd15k an enterprise 2.5" one; ssd a SATA one.
    ///
    /// # Errors
    /// On any other name.
    pub fn preset(name: &str, size_bytes: u64) -> Result<Self, BadParams> {
        let hdd = Self {
            size_bytes,
            stroke: (0.0, 1.0),
            rpm: 7200.0,
            seek_track_s: 0.8e-3,
            seek_third_s: 8.5e-3,
            seek_full_s: 16e-3,
            outer_bytes_s: 210e6,
            inner_bytes_s: 100e6,
            zones: 16,
            bus_bytes_s: 520e6,
            overhead_s: 80e-6,
            segments: 16,
            segment_bytes: 2 << 20,
            queue: 32,
            ageing_s: 0.5,
            access_s: 0.0,
            channels: 1,
        };
        Ok(match name {
            "hdd7200" => hdd,
            "hdd5400" => Self {
                rpm: 5400.0,
                seek_track_s: 1.0e-3,
                seek_third_s: 12e-3,
                seek_full_s: 22e-3,
                outer_bytes_s: 150e6,
                inner_bytes_s: 70e6,
                segments: 8,
                segment_bytes: 1 << 20,
                ..hdd
            },
            "hdd15k" => Self {
                rpm: 15_000.0,
                seek_track_s: 0.3e-3,
                seek_third_s: 3.4e-3,
                seek_full_s: 7e-3,
                outer_bytes_s: 230e6,
                inner_bytes_s: 150e6,
                bus_bytes_s: 1.1e9,
                overhead_s: 50e-6,
                queue: 64,
                ..hdd
            },
            "ssd" => Self {
                rpm: 0.0,
                overhead_s: 15e-6,
                segments: 0,
                access_s: 75e-6,
                channels: 8,
                outer_bytes_s: 530e6,
                inner_bytes_s: 530e6,
                bus_bytes_s: 530e6,
                ..hdd
            },
            _ => return Err(BadParams(format!("no preset `{name}` (there are {})", PRESETS.join(", ")))),
        })
    }

    /// The drive of the worst case: one segment of 1 MiB, so that interleaved readers find nothing read ahead. Real
    /// drives lie between this and the preset; a figure that is to hold should be given for both.
    #[must_use]
    pub fn pessimistic(self) -> Self {
        Self { segments: 1, segment_bytes: 1 << 20, ..self }
    }

    /// A file of `key = value` lines: `preset` first if at all, `#` begins a comment, keys as in [`Params::set`].
    ///
    /// # Errors
    /// Names the line that is not understood.
    pub fn from_text(text: &str, size_bytes: u64) -> Result<Self, BadParams> {
        let mut params = Self::preset("hdd7200", size_bytes)?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let at = |e: &dyn fmt::Display| BadParams(format!("line {}: {e}", number + 1));
            let (key, value) = line.split_once('=').ok_or_else(|| at(&"expected `key = value`"))?;
            let (key, value) = (key.trim(), value.trim());
            if key == "preset" {
                params = Self::preset(value, size_bytes).map_err(|e| at(&e))?;
            } else {
                params.set(key, value).map_err(|e| at(&e))?;
            }
        }
        params.check()?;
        Ok(params)
    }

    /// Sets one figure. Units as people write them on data sheets: milliseconds, MB/s, KiB.
    ///
    /// # Errors
    /// On an unknown key and on what is not a number.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadParams> {
        let number: f64 = value
            .parse()
            .ok()
            .filter(|n: &f64| n.is_finite() && *n >= 0.0)
            .ok_or_else(|| BadParams(format!("`{key} = {value}` is not a number of 0 or more")))?;
        let whole = number as u64;
        match key {
            "rpm" => self.rpm = number,
            "seek_track_ms" => self.seek_track_s = number / 1e3,
            "seek_third_ms" => self.seek_third_s = number / 1e3,
            "seek_full_ms" => self.seek_full_s = number / 1e3,
            "outer_mb_s" => self.outer_bytes_s = number * 1e6,
            "inner_mb_s" => self.inner_bytes_s = number * 1e6,
            "zones" => self.zones = u32::try_from(whole).unwrap_or(u32::MAX),
            "bus_mb_s" => self.bus_bytes_s = number * 1e6,
            "overhead_us" => self.overhead_s = number / 1e6,
            "segments" => self.segments = whole as usize,
            "segment_kib" => self.segment_bytes = whole << 10,
            "queue" => self.queue = whole as usize,
            "ageing_ms" => self.ageing_s = number / 1e3,
            "access_us" => self.access_s = number / 1e6,
            "channels" => self.channels = whole as usize,
            "stroke_from" => self.stroke.0 = number,
            "stroke_to" => self.stroke.1 = number,
            _ => return Err(BadParams(format!("unknown key `{key}`"))),
        }
        Ok(())
    }

    /// Whether a drive can be made of this: nothing would divide by zero or run backwards.
    ///
    /// # Errors
    /// Names the figure that is impossible.
    pub fn check(&self) -> Result<(), BadParams> {
        let bad = |what: &str| Err(BadParams(what.to_owned()));
        if self.size_bytes == 0 {
            return bad("a drive has at least one byte");
        }
        if self.outer_bytes_s < 1.0 || self.inner_bytes_s < 1.0 || self.bus_bytes_s < 1.0 {
            return bad("rates must be above 0");
        }
        if self.zones == 0 || self.queue == 0 || self.channels == 0 {
            return bad("zones, queue and channels are at least 1");
        }
        if !(0.0..=1.0).contains(&self.stroke.0) || self.stroke.1 <= self.stroke.0 || self.stroke.1 > 1.0 {
            return bad("stroke_from < stroke_to, both from 0 to 1");
        }
        if self.seek_track_s > self.seek_third_s || self.seek_third_s > self.seek_full_s {
            return bad("a longer seek must not be shorter: seek_track <= seek_third <= seek_full");
        }
        Ok(())
    }

    /// Whether something turns.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.rpm > 0.0
    }

    /// Time of one turn.
    #[must_use]
    pub fn turn_s(&self) -> f64 {
        60.0 / self.rpm
    }

    /// Where on the stroke a byte lies: 0 outer edge, 1 inner edge.
    #[must_use]
    pub fn radius(&self, at: u64) -> f64 {
        let share = (at as f64 / self.size_bytes as f64).min(1.0);
        self.stroke.0 + (self.stroke.1 - self.stroke.0) * share
    }

    /// Media rate where a byte lies. The same within a zone, so that a track has one size there.
    #[must_use]
    pub fn media_bytes_s(&self, at: u64) -> f64 {
        let last = f64::from(self.zones - 1);
        let zone = (self.radius(at) * f64::from(self.zones)).floor().min(last);
        let depth = if last > 0.0 { zone / last } else { 0.0 };
        self.outer_bytes_s + (self.inner_bytes_s - self.outer_bytes_s) * depth
    }

    /// Time to move the head from one byte to another: accelerating and braking (a square root) up to a third
    /// of the stroke, then at full speed. No time at all to where it is.
    #[must_use]
    pub fn seek_s(&self, from: u64, to: u64) -> f64 {
        if from == to || !self.is_rotating() {
            return 0.0;
        }
        let way = (self.radius(from) - self.radius(to)).abs();
        const THIRD: f64 = 1.0 / 3.0;
        if way <= THIRD {
            self.seek_track_s + (self.seek_third_s - self.seek_track_s) * (way / THIRD).sqrt()
        } else {
            self.seek_third_s + (self.seek_full_s - self.seek_third_s) * (way - THIRD) / (1.0 - THIRD)
        }
    }

    /// How long the platter still turns until a byte comes by the head, for a head that arrives at `now_s`. The
    /// platter's angle was 0 at time 0.
    #[must_use]
    pub fn turn_to_s(&self, to: u64, now_s: f64) -> f64 {
        if !self.is_rotating() {
            return 0.0;
        }
        let track_bytes = self.media_bytes_s(to) * self.turn_s();
        let wanted = (to as f64 / track_bytes).fract();
        let is_at = (now_s / self.turn_s()).fract();
        let left = wanted - is_at;
        (if left < 0.0 { left + 1.0 } else { left }) * self.turn_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeks_follow_the_three_figures_of_the_data_sheet() {
        let p = Params::preset("hdd7200", 3_000_000_000).unwrap();
        assert_eq!(p.seek_s(7, 7), 0.0);
        assert!((p.seek_s(0, 4096) - 0.8e-3).abs() < 1e-4);
        assert!((p.seek_s(0, 1_000_000_000) - 8.5e-3).abs() < 1e-9);
        assert!((p.seek_s(3_000_000_000, 0) - 16e-3).abs() < 1e-9);
    }

    #[test]
    fn the_wait_for_an_angle_is_less_than_a_turn_and_ends_at_the_angle() {
        let p = Params::preset("hdd7200", 1 << 40).unwrap();
        for i in 0..1000_u64 {
            let (at, now) = (i * 7_919_000_448 % (1 << 40), i as f64 * 0.001_37);
            let wait = p.turn_to_s(at, now);
            assert!((0.0..p.turn_s()).contains(&wait));
            // Arriving then, there is nothing left to wait for (or a whole turn, by rounding).
            let again = p.turn_to_s(at, now + wait);
            assert!(again < 1e-6 || p.turn_s() - again < 1e-6, "{again}");
        }
    }

    #[test]
    fn zones_go_from_the_outer_rate_to_the_inner_rate() {
        let p = Params::preset("hdd7200", 1 << 40).unwrap();
        assert_eq!(p.media_bytes_s(0), 210e6);
        assert_eq!(p.media_bytes_s((1 << 40) - 1), 100e6);
        assert!(p.media_bytes_s(1 << 39) < 170e6);
    }

    #[test]
    fn a_file_of_parameters_starts_from_a_preset_and_names_a_bad_line() {
        let p =
            Params::from_text("# mine\npreset = hdd5400\nseek_third_ms = 13 # slow\n\n", 1 << 30).unwrap();
        assert_eq!((p.rpm, p.seek_third_s), (5400.0, 0.013));
        for (text, mention) in [
            ("rpm = fast", "line 1"),
            ("\nwings = 2", "line 2: unknown key `wings`"),
            ("preset = floppy", "hdd7200"),
            ("rpm = -1", "0 or more"),
            ("zones = 0", "at least 1"),
            ("seek_full_ms = 1", "longer seek"),
            ("rpm", "key = value"),
        ] {
            let error = Params::from_text(text, 1 << 30).unwrap_err().to_string();
            assert!(error.contains(mention), "{text}: {error}");
        }
    }
}
