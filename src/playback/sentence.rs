//! A decision in one sentence, for the page, the command line and programs alike. Nothing is decided here.

use crate::decide::{Action, Decision, Method, TrackVerdict};

impl Decision {
    /// How the film reaches `client`, in one sentence: what goes out unchanged, and what is made of the rest. Why is told by
    /// the reasons.
    #[must_use]
    pub fn sentence(&self, client: &str) -> String {
        if let Some(reason) = self.refusal {
            let why = reason.sentence().trim_end_matches('.');
            return format!("{client} cannot play it: {}.", lower(why));
        }
        let mut out = match self.method {
            Method::DirectPlay => format!("{client} plays the file as it is"),
            Method::DirectStream => format!("{client} gets it repacked: {}", self.tracks()),
            Method::Transcode => format!("{client} gets it converted: {}", self.tracks()),
        };
        if let Some(text) = self.shown() {
            out.push_str(text);
        }
        out.push('.');
        out
    }

    fn tracks(&self) -> String {
        let copied = |t: &Option<TrackVerdict>| t.as_ref().is_some_and(|t| t.action == Action::Copy);
        if copied(&self.video) && copied(&self.audio) {
            return "picture and sound are copied".to_owned();
        }
        let picture = self.video.as_ref().map(|v| match v.action {
            Action::Copy => "the picture is copied".to_owned(),
            Action::Drop => "the picture is left out".to_owned(),
            Action::Encode | Action::Burn => picture(v),
        });
        let sound = self.audio.as_ref().map(|a| match a.action {
            Action::Copy => "the sound is copied".to_owned(),
            Action::Drop => "the sound is left out".to_owned(),
            Action::Encode | Action::Burn => sound(a),
        });
        [picture, sound].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// What becomes of the chosen subtitles, where that is not what everybody expects.
    fn shown(&self) -> Option<&'static str> {
        let subtitle = self.subtitle.as_ref()?;
        match subtitle.action {
            Action::Burn => Some(", and the subtitles are drawn into the picture"),
            Action::Drop => Some(", without the subtitles, which it cannot show"),
            Action::Copy | Action::Encode => None,
        }
    }
}

fn picture(v: &TrackVerdict) -> String {
    let mut out = format!("the picture becomes {}", codec(&v.codec));
    if let (Some(w), Some(h)) = (v.max_width, v.max_height) {
        out.push_str(&format!(" of at most {w}x{h}"));
    }
    if v.tone_map {
        out.push_str(" in SDR");
    }
    if v.deinterlace {
        out.push_str(", deinterlaced");
    }
    out
}

fn sound(a: &TrackVerdict) -> String {
    let channels = match a.channels {
        Some(1) => " in mono".to_owned(),
        Some(2) => " in stereo".to_owned(),
        Some(6) => " 5.1".to_owned(),
        Some(8) => " 7.1".to_owned(),
        Some(n) => format!(" of {n} channels"),
        None => String::new(),
    };
    format!("the sound becomes {}{channels}", codec(&a.codec))
}

/// A codec as people write it; one that is not known stays as it is.
fn codec(name: &str) -> &str {
    match name {
        "h264" => "H.264",
        "hevc" => "HEVC",
        "av1" => "AV1",
        "aac" => "AAC",
        "ac3" => "AC-3",
        "eac3" => "E-AC-3",
        "opus" => "Opus",
        "flac" => "FLAC",
        other => other,
    }
}

fn lower(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_lowercase().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use spindle_media::info::MediaInfo;

    use crate::decide::samples::{audio, file, subtitle, video};
    use crate::{Choice, ClientProfile, SubtitleChoice, decide};

    fn told(streams: &[spindle_media::info::Stream], container: &str, choice: &Choice) -> String {
        let profile = json!({"name": "plain",
            "direct_play": [{"container": "mp4", "video": ["h264"], "audio": ["aac"]}],
            "video": [{"codec": "h264"}], "audio": [{"codec": "aac", "max_channels": 2}],
            "subtitles": [{"format": "webvtt", "delivery": "external"}]});
        let profile = ClientProfile::from_json(&profile.to_string()).unwrap();
        let film: MediaInfo = file(container, streams);
        decide(&profile, &film, choice).sentence("The television")
    }

    #[test]
    fn each_way_is_one_sentence_that_names_what_becomes_of_each_track() {
        let plain = Choice::default();
        let shown = Choice { subtitle: SubtitleChoice::Stream(2), ..Choice::default() };
        let h264 = video("h264", "High", |_| {});
        let fields = video("h264", "High", |v| v.interlaced = true);
        let hevc = video("hevc", "Main", |_| {});
        let (stereo, six) = (audio(1, "aac", 2), audio(1, "ac3", 6));
        let (pgs, text) = (subtitle(2, "hdmv_pgs_subtitle"), subtitle(2, "subrip"));
        for (streams, container, choice, expected) in [
            (vec![h264.clone(), stereo.clone()], "mp4", &plain, "plays the file as it is."),
            (
                vec![h264.clone(), stereo.clone()],
                "mkv",
                &plain,
                "gets it repacked: picture and sound are copied.",
            ),
            (
                vec![h264.clone(), six],
                "mkv",
                &plain,
                "gets it repacked: the picture is copied, the sound becomes AAC in stereo.",
            ),
            (
                vec![hevc, stereo.clone(), text],
                "mp4",
                &shown,
                "gets it converted: the picture becomes H.264 of at most 1920x1080, the sound is copied.",
            ),
            (
                vec![fields, stereo.clone()],
                "mp4",
                &plain,
                "gets it converted: the picture becomes H.264 of at most 1920x1080, deinterlaced, the sound is copied.",
            ),
            (
                vec![h264, stereo, pgs],
                "mp4",
                &shown,
                "gets it converted: the picture becomes H.264 of at most 1920x1080, the sound is copied, and the \
                 subtitles are drawn into the picture.",
            ),
            (
                vec![],
                "mp4",
                &plain,
                "cannot play it: the file has neither picture nor sound that can be played.",
            ),
        ] {
            assert_eq!(told(&streams, container, choice), format!("The television {expected}"));
        }
    }
}
