//! The decision: one pass over the rules gives a verdict for every track, the method that follows
//! from the verdicts, and every rule with what it wanted and what it found.
//!
//! In order:
//! 1. tracks are chosen (`choose`);
//! 2. video and audio are held against the client's limits, each for itself: a reason against one
//!    never changes the verdict on the other;
//! 3. container, sample entry, protocol, sound track and bitrate are held against what the client
//!    plays as it is;
//! 4. subtitles are placed: beside, inside, in the playlist, or, pictures only, burnt in;
//! 5. nothing against it: direct play. Video copied, or sound alone repacked: direct stream. Else
//!    transcode.

use serde::Serialize;
use spindle_media::info::MediaInfo;

use crate::choose::{self, Choice, SubtitleChoice};
use crate::client::{ClientProfile, SubtitleDelivery};
use crate::names;
use crate::reason::Reason;

pub use crate::client::Protocol;

mod audio;
mod output;
#[cfg(test)]
pub(crate) mod samples;
mod subtitle;
#[cfg(test)]
mod tests;
mod video;

/// How a film goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The file as it is.
    DirectPlay,
    /// Repacked; the video is copied.
    DirectStream,
    /// Re-encoded.
    Transcode,
}

/// What happens to a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It goes out unchanged.
    Copy,
    /// It is re-encoded; for text subtitles: written in another format.
    Encode,
    /// It is drawn into the video.
    Burn,
    /// It is left out.
    Drop,
}

/// How subtitles go out.
pub type Delivery = SubtitleDelivery;

/// A decision, whole; serialises as `spindle decide --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// How the film goes out.
    pub method: Method,
    /// Why it does not go out as it is; empty for direct play.
    pub reasons: Vec<Reason>,
    /// How bytes travel.
    pub protocol: Protocol,
    /// Container that the client gets: the file's own, `fmp4` or `mpegts` segments, or `mp4` or
    /// `mpegts` in one piece.
    pub container: String,
    /// The moving picture, if there is one.
    pub video: Option<TrackVerdict>,
    /// The chosen sound, if there is one.
    pub audio: Option<TrackVerdict>,
    /// The chosen subtitles, if any.
    pub subtitle: Option<SubtitleVerdict>,
    /// Every rule that was held against the file, passed and failed.
    pub rules: Vec<Rule>,
}

/// What happens to a video or audio track. Limits are set for what is encoded and absent for what
/// is copied.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TrackVerdict {
    /// The stream's index in the file.
    pub stream: u32,
    /// Copy or encode.
    pub action: Action,
    /// Codec that goes out.
    pub codec: String,
    /// RFC 6381 string of a copied track, as far as the file tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec_string: Option<String>,
    /// What speaks against a copy.
    pub reasons: Vec<Reason>,
    /// Encode no wider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u32>,
    /// Encode no higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_height: Option<u32>,
    /// Encode with no more pictures a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fps: Option<f64>,
    /// Encode with no higher peak, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bitrate_bps: Option<u64>,
    /// Encode to this profile, in FFmpeg's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Encode to no higher level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_level: Option<u32>,
    /// Map HDR to SDR on the way.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tone_map: bool,
    /// Make frames of fields on the way.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deinterlace: bool,
    /// Draw this subtitle stream into the picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burn_subtitle: Option<u32>,
    /// Encode to this many channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Encode the sound at this bitrate, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitrate_bps: Option<u64>,
    /// Encode at this sample rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_rate: Option<u32>,
}

impl Default for Action {
    /// Unchanged is what every track is until a rule says otherwise.
    fn default() -> Self {
        Self::Copy
    }
}

/// What happens to the chosen subtitles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubtitleVerdict {
    /// The stream's index in the description of the file.
    pub stream: u32,
    /// Copy, encode (to another text format), burn or drop.
    pub action: Action,
    /// How they arrive; absent when burnt in or dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Format that goes out, in FFmpeg's words; absent when burnt in or dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// What speaks against showing them as they are.
    pub reasons: Vec<Reason>,
}

/// One rule, held against one track or the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name.
    pub rule: &'static str,
    /// The stream that it was held against; absent for the file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// What the client takes.
    pub wanted: String,
    /// What the file has.
    pub found: String,
    /// How that went.
    pub verdict: RuleVerdict,
}

/// How a rule went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleVerdict {
    /// It fits.
    Pass,
    /// It does not.
    Fail,
    /// Nobody knows what the file has; that alone refuses nothing.
    Unknown,
}

/// Collects rules and the reasons of those that failed.
#[derive(Debug, Default)]
struct Rules(Vec<Rule>);

impl Rules {
    /// Notes a rule and says whether it holds; what is not known holds.
    fn note(
        &mut self,
        rule: &'static str,
        stream: Option<u32>,
        wanted: impl Into<String>,
        found: impl Into<String>,
        verdict: RuleVerdict,
    ) -> bool {
        let (wanted, found) = (wanted.into(), found.into());
        self.0.push(Rule { rule, stream, wanted, found, verdict });
        verdict != RuleVerdict::Fail
    }

    /// As [`Self::note`], with pass or fail.
    fn holds(
        &mut self,
        rule: &'static str,
        stream: Option<u32>,
        wanted: impl Into<String>,
        found: impl Into<String>,
        holds: bool,
    ) -> bool {
        let verdict = if holds { RuleVerdict::Pass } else { RuleVerdict::Fail };
        self.note(rule, stream, wanted, found, verdict)
    }

    /// A number that must not be above a limit; no limit notes nothing.
    fn at_most<T: PartialOrd + ToString>(
        &mut self,
        rule: &'static str,
        stream: u32,
        limit: Option<T>,
        found: Option<T>,
    ) -> bool {
        let Some(limit) = limit else { return true };
        let wanted = format!("at most {}", limit.to_string());
        match found {
            Some(found) => {
                let holds = found <= limit;
                self.holds(rule, Some(stream), wanted, found.to_string(), holds)
            }
            None => self.note(rule, Some(stream), wanted, "unknown", RuleVerdict::Unknown),
        }
    }
}

/// Decides how `file` reaches the client.
#[must_use]
pub fn decide(profile: &ClientProfile, file: &MediaInfo, choice: &Choice) -> Decision {
    let mut rules = Rules::default();
    let video_in = file.main_video();
    let audio_in = choose::audio(file, choice.audio, &[]);
    let spoken = audio_in.and_then(|(s, _)| s.language.as_deref());
    let subtitle_in = choose::subtitle(file, choice.subtitle, spoken);
    let limit_bps = [profile.max_bitrate, choice.max_bitrate_bps].into_iter().flatten().min();

    // Each track for itself.
    let mut video_reasons = video_in.map_or_else(Vec::new, |v| video::check(profile, v, &mut rules));
    let mut audio_reasons = audio_in.map_or_else(Vec::new, |a| audio::check(profile, a, &mut rules));
    let over = output::check_bitrate(file, video_in, audio_in, limit_bps, &mut rules);
    match over {
        output::Bitrate::VideoTooMuch => video_reasons.push(Reason::BitrateOverLimit),
        output::Bitrate::AudioTooMuch => audio_reasons.push(Reason::BitrateOverLimit),
        output::Bitrate::BothTooMuch => {
            video_reasons.push(Reason::BitrateOverLimit);
            audio_reasons.push(Reason::BitrateOverLimit);
        }
        output::Bitrate::Fits | output::Bitrate::OtherTracksTooMuch => {}
    }

    // The file as it is.
    let mut whole = output::check_whole(profile, file, video_in, audio_in, &mut rules);
    if over == output::Bitrate::OtherTracksTooMuch {
        whole.push(Reason::BitrateOverLimit);
    }
    let as_it_is = video_reasons.is_empty() && audio_reasons.is_empty() && whole.is_empty();

    let placed = subtitle_in.map(|s| subtitle::place(profile, s, as_it_is, video_in.is_some(), &mut rules));
    if let Some(verdict) = &placed {
        if verdict.action == Action::Burn {
            video_reasons.push(Reason::SubtitleBurnIn);
        }
        if verdict.reasons.contains(&Reason::SubtitleNeedsHls) {
            whole.push(Reason::SubtitleNeedsHls);
        }
    }
    if video_in.is_none() && audio_in.is_none() {
        rules.holds("streams", None, "picture or sound", "neither", false);
        whole.push(Reason::NothingToPlay);
    }

    // What goes out when the file does not: not every codec that the client decodes may travel.
    let direct = video_reasons.is_empty() && audio_reasons.is_empty() && whole.is_empty();
    let out = if direct { output::Output::as_it_is(file) } else { output::Output::of(profile) };
    if !direct {
        if let Some((s, v)) = video_in {
            out.check_video(profile, s, v, &mut video_reasons, &mut rules);
        }
        if let Some((s, _)) = audio_in {
            out.check_audio(profile, s, &mut audio_reasons, &mut rules);
        }
    }

    let audio = audio_in.map(|a| audio::verdict(profile, &out, a, audio_reasons, limit_bps));
    let mut video =
        video_in.map(|v| video::verdict(profile, v, video_reasons, limit_bps, audio.as_ref(), audio_in));
    let burnt = placed.as_ref().filter(|p| p.action == Action::Burn).map(|p| p.stream);
    if let Some(video) = &mut video {
        video.burn_subtitle = burnt;
        if !direct {
            repacked_entry(video);
        }
    }

    let method = method(direct, video.as_ref(), audio.as_ref());
    let mut reasons = whole;
    let tracks = [&video, &audio];
    reasons.extend(tracks.into_iter().flatten().flat_map(|t| &t.reasons));
    reasons.sort_unstable();
    reasons.dedup();
    note_missing(file, choice, &mut rules);
    Decision {
        method,
        reasons,
        protocol: out.protocol,
        container: out.container,
        video,
        audio,
        subtitle: placed,
        rules: rules.0,
    }
}

/// A repacked track has the sample entry whose parameter sets are outside the pictures: Apple's
/// players open no other, and everybody else opens it too (ISO/IEC 14496-15 section 8.4.1.1).
fn repacked_entry(video: &mut TrackVerdict) {
    if let Some(codecs) = &mut video.codec_string {
        for (inside, outside) in [("hev1.", "hvc1."), ("dvhe.", "dvh1."), ("avc3.", "avc1.")] {
            if let Some(rest) = codecs.strip_prefix(inside) {
                *codecs = format!("{outside}{rest}");
                return;
            }
        }
    }
}

fn method(direct: bool, video: Option<&TrackVerdict>, audio: Option<&TrackVerdict>) -> Method {
    let copied = |t: &TrackVerdict| t.action == Action::Copy;
    if direct {
        Method::DirectPlay
    } else if video.or(audio).is_none_or(copied) {
        Method::DirectStream
    } else {
        Method::Transcode
    }
}

/// A stream that was asked for and is not there does not change the method, but it is told.
fn note_missing(file: &MediaInfo, choice: &Choice, rules: &mut Rules) {
    if choose::is_in(file, choice) {
        return;
    }
    let wanted = match choice.subtitle {
        SubtitleChoice::Stream(n) if !file.subtitles().any(|(s, _)| s.index == n) => {
            format!("subtitle stream {n}")
        }
        _ => format!("audio stream {}", choice.audio.unwrap_or(0)),
    };
    rules.holds("chosen_stream", None, wanted, "no such stream", false);
}

/// Whether `found` is one of the codecs, for a rule's text.
fn listed(list: &[String], found: &str) -> bool {
    names::codec_listed(list, found)
}
