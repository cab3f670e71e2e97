//! The decision: one pass over the rules gives a verdict for every track, the method that follows
//! from the verdicts, and every rule with what it wanted and what it found.
//!
//! In order:
//! 1. tracks are chosen (`choose`);
//! 2. video and audio are held against the client's limits, each for itself: a reason against one
//!    never changes the verdict on the other;
//! 3. container, sample entry, protocol, number of streams, sound track and bitrate are held against
//!    what the client plays as it is;
//! 4. subtitles are placed: beside, inside, in the playlist, or, pictures only, burnt in;
//! 5. what failed before on this client is left out;
//! 6. nothing against it: direct play. Else what goes out is the kind that copies the most tracks;
//!    video copied, or sound alone repacked: direct stream; else transcode;
//! 7. what cannot be made is refused, with the reason.

use serde::Serialize;
use spindle_media::info::MediaInfo;

use crate::choose::{self, Choice, SubtitleChoice};
use crate::client::{ClientProfile, SubtitleDelivery};
use crate::compiled::Compiled;
use crate::reason::Reason;

pub use crate::client::Protocol;
pub use rule::{Rule, RuleVerdict, Text};

mod audio;
mod output;
mod rule;
#[cfg(test)]
pub(crate) mod samples;
mod subtitle;
#[cfg(test)]
mod tests;
mod video;

use rule::Rules;

/// How a film goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The file as it is.
    DirectPlay,
    /// Repacked; the video is copied.
    DirectStream,
    /// Re-encoded.
    Transcode,
}

impl Method {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::DirectPlay => "direct_play",
            Self::DirectStream => "direct_stream",
            Self::Transcode => "transcode",
        }
    }
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
    /// Why it does not go out at all: one of the reasons, where it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Reason>,
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
    /// Encode no wider, in pixels as shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u32>,
    /// Encode no higher, in pixels as shown.
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

impl Decision {
    /// The rule that failed for a reason: what was wanted and what was found.
    #[must_use]
    pub fn rule_of(&self, reason: Reason) -> Option<&Rule> {
        self.rules.iter().find(|r| r.reason == Some(reason))
    }
}

/// A client's profile, ready for many decisions.
#[derive(Debug, Clone)]
pub struct Decider(Compiled);

/// Decides how `file` reaches the client. For many files at once: [`Decider`].
#[must_use]
pub fn decide(profile: &ClientProfile, file: &MediaInfo, choice: &Choice) -> Decision {
    Decider::new(profile).decide(file, choice)
}

impl Decider {
    /// Makes a profile ready.
    #[must_use]
    pub fn new(profile: &ClientProfile) -> Self {
        Self(Compiled::new(profile))
    }

    /// The client's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Decides how `file` reaches the client.
    #[must_use]
    pub fn decide(&self, file: &MediaInfo, choice: &Choice) -> Decision {
        let profile = &self.0;
        let mut rules = Rules::new();
        let pictured = file.main_video();
        let audio_in = choose::audio(file, choice.audio, &choice.preferences);
        let spoken = audio_in.and_then(|(s, _)| s.language.as_deref());
        let subtitle_in = choose::subtitle(file, choice.subtitle, &choice.preferences, spoken);
        let limit_bps = [profile.max_bitrate, choice.max_bitrate_bps].into_iter().flatten().min();

        // A loudspeaker gets the sound of a film and no picture.
        let mute_picture = audio_in.is_some() && !profile.plays_any_video();
        let video_in = pictured.filter(|_| !mute_picture);
        let left_out = pictured.filter(|_| mute_picture).map(|(s, _)| {
            let r = Reason::VideoCodecNotSupported;
            rules.must(r, "video_codec", Some(s.index), "no picture", s.codec.clone(), false);
            TrackVerdict {
                stream: s.index,
                action: Action::Drop,
                codec: s.codec.clone(),
                reasons: vec![r],
                ..TrackVerdict::default()
            }
        });

        // Each track for itself.
        let mut against_video =
            video_in.map_or_else(Vec::new, |v| video::check(profile, v, file, &mut rules));
        let mut against_audio = audio_in.map_or_else(Vec::new, |a| audio::check(profile, a, &mut rules));
        let over = output::check_bitrate(file, video_in, audio_in, limit_bps, &mut rules);
        if over.picture() {
            against_video.push(Reason::BitrateOverLimit);
        }
        if over.sound() {
            against_audio.push(Reason::BitrateOverLimit);
        }

        // The file as it is.
        let mut whole = output::check_whole(profile, file, video_in, audio_in, &mut rules);
        whole.extend(left_out.iter().flat_map(|t| t.reasons.iter().copied()));
        if over == output::Bitrate::OtherTracksTooMuch {
            whole.push(Reason::BitrateOverLimit);
        }
        let failed = choice.failed;
        if failed.is_some() {
            let found = failed.map_or("nothing", Method::word);
            rules.must(Reason::FailedBefore, "failed_before", None, "nothing", found, false);
            whole.push(Reason::FailedBefore);
            if failed >= Some(Method::DirectStream) {
                against_video.extend(video_in.map(|_| Reason::FailedBefore));
                against_audio.extend(audio_in.map(|_| Reason::FailedBefore));
            }
        }
        let as_it_is = against_video.is_empty() && against_audio.is_empty() && whole.is_empty();

        let placed =
            subtitle_in.map(|s| subtitle::place(profile, s, as_it_is, video_in.is_some(), &mut rules));
        if let Some(verdict) = &placed {
            if verdict.action == Action::Burn {
                against_video.push(Reason::SubtitleBurnIn);
            }
            if verdict.reasons.contains(&Reason::SubtitleNeedsHls) {
                whole.push(Reason::SubtitleNeedsHls);
            }
        }
        if video_in.is_none() && audio_in.is_none() {
            rules.must(Reason::NothingToPlay, "streams", None, "picture or sound", "neither", false);
            whole.push(Reason::NothingToPlay);
        }

        // What goes out when the file does not: not every codec that the client decodes may travel.
        let direct = against_video.is_empty() && against_audio.is_empty() && whole.is_empty();
        let out = if direct {
            output::Output::as_it_is(file)
        } else {
            let copies_video = against_video.is_empty();
            let copies_audio = against_audio.is_empty();
            let out = output::Output::of(
                profile,
                video_in.filter(|_| copies_video),
                audio_in.filter(|_| copies_audio),
            );
            if let Some((s, v)) = video_in {
                out.check_video(profile, file, (s, v), &mut against_video, &mut rules);
            }
            if let Some((s, _)) = audio_in {
                out.check_audio(profile, s, &mut against_audio, &mut rules);
            }
            out
        };

        let audio = audio_in.map(|a| audio::verdict(profile, &out, a, against_audio, limit_bps, &mut rules));
        let mut video = video_in.map(|v| {
            video::verdict(profile, &out, v, against_video, limit_bps, audio.as_ref(), audio_in, &mut rules)
        });
        if let Some(video) = &mut video {
            video.burn_subtitle = placed.as_ref().filter(|p| p.action == Action::Burn).map(|p| p.stream);
            if !direct {
                repacked_entry(video, video_in.and_then(|(_, v)| v.dv_profile.zip(v.dv_level)));
            }
        }

        let method = method(direct, video.as_ref(), audio.as_ref());
        let video = video.or(left_out);
        if failed == Some(Method::Transcode) {
            rules.must(Reason::EveryWayFailed, "ways_left", None, "one", "none", false);
            whole.push(Reason::EveryWayFailed);
        }
        let mut reasons = whole;
        let tracks = [&video, &audio];
        reasons.extend(tracks.into_iter().flatten().flat_map(|t| &t.reasons));
        reasons.sort_unstable();
        reasons.dedup();
        note_missing(file, choice, &mut rules);
        Decision {
            method,
            refusal: reasons.iter().copied().find(|r| r.refuses()),
            reasons,
            protocol: out.protocol,
            container: out.container,
            video,
            audio,
            subtitle: placed,
            rules: rules.done(),
        }
    }
}

/// A repacked track has the sample entry whose parameter sets are outside the pictures: Apple's
/// players open no other, and everybody else opens it too (ISO/IEC 14496-15 section 8.4.1.1).
///
/// Dolby Vision profile 5 has an entry of its own, since what it holds is no picture for anybody else.
fn repacked_entry(video: &mut TrackVerdict, dolby: Option<(u8, u8)>) {
    if let (Some((5, level)), Action::Copy, "hevc") = (dolby, video.action, video.codec.as_str()) {
        video.codec_string = Some(format!("dvh1.05.{level:02}"));
        return;
    }
    if let Some(codecs) = &mut video.codec_string {
        for (inside, outside) in
            [("hev1.", "hvc1."), ("dvhe.", "dvh1."), ("avc3.", "avc1."), ("dvav.", "dva1.")]
        {
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
    rules.must(Reason::ChosenStreamMissing, "chosen_stream", None, wanted, "no such stream", false);
}
