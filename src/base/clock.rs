//! Time as a parameter: the wall clock for records, the monotonic clock for durations.
//!
//! Nothing outside this file reads a clock, so that a test can say what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch, UTC.
    fn unix_us(&self) -> i64;
    /// Microseconds on `CLOCK_MONOTONIC`, the clock that the kernel's tracers are told to use.
    fn monotonic_us(&self) -> u64;
}

/// A shared clock, as components keep it.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_us(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that all others take")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        monotonic_us()
    }
}

/// Microseconds on `CLOCK_MONOTONIC`.
///
/// `std::time::Instant` is that clock on Linux but hides its value; block events carry the
/// value, so reads must too. The offset between the two is taken once.
fn monotonic_us() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(t.tv_nsec).unwrap_or(0);
    seconds * 1_000_000 + nanos / 1_000
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    unix_us: AtomicU64,
    monotonic_us: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `unix_us`, with the monotonic clock at zero.
    #[must_use]
    pub fn at(unix_us: u64) -> Self {
        Self { unix_us: AtomicU64::new(unix_us), monotonic_us: AtomicU64::new(0) }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.unix_us.fetch_add(us, Ordering::Relaxed);
        self.monotonic_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_us(&self) -> i64 {
        i64::try_from(self.unix_us.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        self.monotonic_us.load(Ordering::Relaxed)
    }
}

/// A point on the monotonic clock for deadlines of code that waits by the standard library.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that the standard library is asked")]
pub fn instant() -> Instant {
    Instant::now()
}

/// `unix_us` as RFC 3339 in UTC with milliseconds, as the API writes every time.
#[must_use]
pub fn rfc3339(unix_us: i64) -> String {
    let rounded = i128::from(unix_us / 1_000) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(rounded)
        .ok()
        .and_then(|t| t.format(&Rfc3339).ok())
        .unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

/// `unix_us` as an IMF-fixdate (RFC 9110 section 5.6.7), as `Date` and `Last-Modified` carry it.
#[must_use]
pub fn http_date(unix_us: i64) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = unix_us.div_euclid(1_000_000);
    let t = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[usize::from(t.weekday().number_days_from_monday())],
        t.day(),
        MONTHS[usize::from(u8::from(t.month())) - 1],
        t.year(),
        t.hour(),
        t.minute(),
        t.second()
    )
}

/// Reads an HTTP date: the IMF-fixdate and the two obsolete forms that RFC 9110 section 5.6.7
/// still obliges a recipient to accept. `None` for anything else.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<i64> {
    let fields: Vec<&str> = text.split([' ', ',', '-']).filter(|f| !f.is_empty()).collect();
    // IMF-fixdate and RFC 850 both read: day-name day month year time "GMT"; asctime reads:
    // day-name month day time year.
    let (day, month, year, clock) = match fields.as_slice() {
        [_, day, month, year, clock, "GMT"] => (*day, *month, *year, *clock),
        [_, month, day, clock, year] => (*day, *month, *year, *clock),
        _ => return None,
    };
    let month = u8::try_from(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
            .iter()
            .position(|m| *m == month)?
            + 1,
    )
    .ok()?;
    let mut year: i32 = year.parse().ok()?;
    if year < 100 {
        // RFC 9110: a two-digit year that looks more than 50 years ahead is in the past century.
        year += if year >= 70 { 1900 } else { 2000 };
    }
    let mut parts = clock.split(':').map(str::parse::<u8>);
    let (h, m, s) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let date =
        time::Date::from_calendar_date(year, time::Month::try_from(month).ok()?, day.parse().ok()?).ok()?;
    let at = date.with_hms(h, m, s.min(59)).ok()?.assume_utc();
    at.unix_timestamp().checked_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_date_forms_of_rfc_9110_name_the_same_second() {
        let at = 784_111_777_000_000;
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_http_date(text), Some(at), "{text}");
        }
        assert_eq!(http_date(at), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(rfc3339(at), "1994-11-06T08:49:37Z");
    }

    #[test]
    fn nonsense_is_no_date() {
        for text in ["", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT", "0", "Sun, 06 Nov 1994"] {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
    }
}
