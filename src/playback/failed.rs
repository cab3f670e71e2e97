//! What failed on a client, so that the next best way follows by itself and is remembered.

use std::collections::HashMap;
use std::fmt::Write as _;

use spindle_media::info::{MediaInfo, StreamKind};

use crate::decide::{Decision, Method};

/// Entries kept; the one that was not asked for the longest goes first. A house has some tens of
/// clients, and a library some tens of kinds of files.
const MAX_ENTRIES: usize = 1_024;

/// What of a file decides whether a client plays it: container, and everything that rules look at of
/// the picture and of the sound that played. Two files of one signature fail alike.
#[must_use]
pub fn signature(file: &MediaInfo, decision: &Decision) -> String {
    let mut out = file.container.clone();
    let tracks = [&decision.video, &decision.audio];
    for track in tracks.into_iter().flatten() {
        let Some(stream) = file.streams.iter().find(|s| s.index == track.stream) else { continue };
        out.push('/');
        out.push_str(&stream.codec);
        if let Some(profile) = &stream.profile {
            // Writing to a string does not fail.
            let _ = write!(out, " {profile}");
        }
        match &stream.kind {
            StreamKind::Video(v) => {
                let _ = write!(
                    out,
                    " l{} {}bit {} {} {}{}",
                    v.level.unwrap_or(0),
                    v.bit_depth.unwrap_or(0),
                    v.hdr.word(),
                    lines(v.height),
                    stream.codec_tag.as_deref().unwrap_or("-"),
                    if v.interlaced { " i" } else { "" },
                );
            }
            StreamKind::Audio(a) => {
                let _ = write!(out, " {}ch {}", a.channels, a.sample_rate);
            }
            StreamKind::Subtitle(_) | StreamKind::Data => {}
        }
    }
    out
}

/// Sizes that decoders tell apart.
fn lines(height: u32) -> &'static str {
    match height {
        0..=576 => "sd",
        577..=1088 => "hd",
        1089..=2304 => "uhd",
        _ => "8k",
    }
}

/// What failed on which client, bounded, the latest kept. Times are seconds of any one clock.
#[derive(Debug, Clone, Default)]
pub struct Failures(HashMap<(String, String), Entry>);

#[derive(Debug, Clone, Copy)]
struct Entry {
    furthest: Method,
    used_s: i64,
}

impl Failures {
    /// The furthest way that failed on `client` with files of this signature.
    pub fn of(&mut self, client: &str, signature: &str, now_s: i64) -> Option<Method> {
        let entry = self.0.get_mut(&(client.to_owned(), signature.to_owned()))?;
        entry.used_s = now_s;
        Some(entry.furthest)
    }

    /// Notes that `method` failed.
    pub fn note(&mut self, client: &str, signature: &str, method: Method, now_s: i64) {
        let key = (client.to_owned(), signature.to_owned());
        if self.0.len() >= MAX_ENTRIES
            && !self.0.contains_key(&key)
            && let Some(oldest) = self.0.iter().min_by_key(|(_, e)| e.used_s).map(|(k, _)| k.clone())
        {
            self.0.remove(&oldest);
        }
        let entry = self.0.entry(key).or_insert(Entry { furthest: method, used_s: now_s });
        entry.furthest = entry.furthest.max(method);
        entry.used_s = now_s;
    }

    /// Forgets what failed on `client`: its software was changed, or the viewer says so.
    pub fn forget(&mut self, client: &str) {
        self.0.retain(|(of, _), _| of != client);
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing has failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::Choice;
    use crate::decide::samples::{audio, file, video};
    use crate::reason::Reason;
    use crate::{Action, builtin, decide};

    fn film() -> MediaInfo {
        file("mp4", &[video("h264", "High", |_| {}), audio(1, "aac", 2)])
    }

    #[test]
    fn each_failure_is_followed_by_the_next_way_and_then_by_a_refusal() {
        let chrome = builtin("chrome").unwrap();
        let of = |failed| decide(&chrome, &film(), &Choice { failed, ..Choice::default() });
        let ways = [
            (None, Method::DirectPlay, None, None),
            (Some(Method::DirectPlay), Method::DirectStream, Some(Action::Copy), None),
            (Some(Method::DirectStream), Method::Transcode, Some(Action::Encode), None),
            (Some(Method::Transcode), Method::Transcode, Some(Action::Encode), Some(Reason::EveryWayFailed)),
        ];
        for (failed, method, video, refusal) in ways {
            let d = of(failed);
            assert_eq!((d.method, d.refusal), (method, refusal), "{failed:?}");
            if let Some(action) = video {
                assert_eq!(d.video.as_ref().unwrap().action, action);
                assert!(d.reasons.contains(&Reason::FailedBefore));
                assert_eq!(
                    d.rule_of(Reason::FailedBefore).unwrap().found.to_string(),
                    failed.unwrap().word()
                );
            }
        }
    }

    #[test]
    fn files_that_decoders_take_for_equal_have_one_signature() {
        let chrome = builtin("chrome").unwrap();
        let of = |info: &MediaInfo| signature(info, &decide(&chrome, info, &Choice::default()));
        let mut other = film();
        other.size_bytes += 1;
        other.streams[0].bitrate_bps = Some(1);
        assert_eq!(of(&film()), of(&other));
        assert_eq!(of(&film()), "mp4/h264 High l40 8bit sdr hd -/aac 2ch 48000");
        other.container = "mkv".to_owned();
        assert_ne!(of(&film()), of(&other));
        let surround = file("mp4", &[video("h264", "High", |_| {}), audio(1, "aac", 6)]);
        assert_ne!(of(&film()), of(&surround));
    }

    #[test]
    fn failures_are_kept_by_client_and_signature_and_are_bounded() {
        let mut failures = Failures::default();
        failures.note("tv", "a", Method::DirectStream, 1);
        failures.note("tv", "a", Method::DirectPlay, 2);
        assert_eq!(failures.of("tv", "a", 3), Some(Method::DirectStream), "the furthest is kept");
        assert_eq!(failures.of("tv", "b", 3), None);
        assert_eq!(failures.of("phone", "a", 3), None);
        for n in 0..2 * MAX_ENTRIES {
            failures.note("tv", &format!("s{n}"), Method::DirectPlay, i64::try_from(n).unwrap());
        }
        assert_eq!(failures.len(), MAX_ENTRIES);
        let newest = format!("s{}", 2 * MAX_ENTRIES - 1);
        assert_eq!(failures.of("tv", &newest, 0), Some(Method::DirectPlay));
        failures.forget("tv");
        assert!(failures.is_empty());
    }
}
