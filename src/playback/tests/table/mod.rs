//! Every sample on every built-in client, written down for people: shared by the test that holds the
//! table and the example that makes it.

use std::collections::BTreeMap;

use spindle_media::info::{MediaInfo, StreamKind};
use spindle_playback::{Action, Choice, Decider, Decision, TrackVerdict, builtin, builtin_names};

/// A sample and its description.
pub(crate) struct Sample {
    pub(crate) file: String,
    pub(crate) info: MediaInfo,
}

/// The samples, as `transcode/client/examples/describe.rs` described them.
pub(crate) fn samples() -> Vec<Sample> {
    #[derive(serde::Deserialize)]
    struct Line {
        file: String,
        info: MediaInfo,
    }
    include_str!("../fixtures/samples.jsonl")
        .lines()
        .map(|l| {
            let line: Line = serde_json::from_str(l).expect("a description");
            Sample { file: line.file, info: line.info }
        })
        .collect()
}

/// The clients, ready.
pub(crate) fn clients() -> Vec<(&'static str, Decider)> {
    let ready = |name| (name, Decider::new(&builtin(name).expect("a built-in client")));
    builtin_names().into_iter().map(ready).collect()
}

/// One block a sample: what it is, then each outcome with the clients that get it.
pub(crate) fn table(samples: &[Sample]) -> String {
    let clients = clients();
    let mut out = String::new();
    for sample in samples {
        let mut outcomes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, client) in &clients {
            let decision = client.decide(&sample.info, &Choice::default());
            outcomes.entry(row(&decision)).or_default().push(name);
        }
        out.push_str(&format!("{}\n  is {}\n", sample.file, what(&sample.info)));
        for (outcome, names) in outcomes {
            out.push_str(&format!("  {outcome}\n      {}\n", names.join(" ")));
        }
    }
    out
}

fn row(d: &Decision) -> String {
    let track = |t: &Option<TrackVerdict>| match t {
        None => "-".to_owned(),
        Some(t) if t.action == Action::Copy => format!("copy {}", t.codec),
        Some(t) if t.action == Action::Drop => format!("no {}", t.codec),
        Some(t) => {
            let mut out = t.codec.clone();
            if let Some(n) = t.channels {
                out.push_str(&format!(" {n}ch"));
            }
            if let (Some(w), Some(h)) = (t.max_width, t.max_height) {
                out.push_str(&format!(" {w}x{h}"));
            }
            for (set, word) in [(t.tone_map, " tone-mapped"), (t.deinterlace, " deinterlaced")] {
                out.push_str(if set { word } else { "" });
            }
            out
        }
    };
    let reasons: Vec<String> = d
        .reasons
        .iter()
        .map(|r| serde_json::to_value(r).expect("a word").as_str().expect("a word").to_owned())
        .collect();
    let method = if d.refusal.is_some() { "refused" } else { d.method.word() };
    format!(
        "{method} {} | {} | {} | {}",
        d.container,
        track(&d.video),
        track(&d.audio),
        if reasons.is_empty() { "-".to_owned() } else { reasons.join(", ") }
    )
}

fn what(info: &MediaInfo) -> String {
    let mut out = info.container.clone();
    for s in &info.streams {
        let profile = s.profile.as_deref().map(|p| format!(" {p}")).unwrap_or_default();
        out.push_str(&match &s.kind {
            StreamKind::Video(_) if s.disposition.attached_picture => ", a cover".to_owned(),
            StreamKind::Video(v) => {
                let mut text = format!(
                    ", {}{profile} level {} {} bit {}x{} at {:.2}",
                    s.codec,
                    v.level.unwrap_or(0),
                    v.bit_depth.unwrap_or(0),
                    v.width,
                    v.height,
                    v.fps.unwrap_or(0.0)
                );
                text.push_str(&match (v.hdr, v.dv_profile) {
                    (hdr, Some(p)) => format!(" {} (profile {p})", hdr.word()),
                    (hdr, None) => format!(" {}", hdr.word()),
                });
                if v.interlaced {
                    text.push_str(" interlaced");
                }
                if v.rotation != 0 {
                    text.push_str(&format!(" turned {}", v.rotation));
                }
                if let Some([w, h]) = v.anamorphic() {
                    text.push_str(&format!(" aspect {w}:{h}"));
                }
                if v.lead_in_ms > 0 {
                    text.push_str(&format!(" from {} ms after a key frame", v.lead_in_ms));
                }
                if let Some(tag) = s.codec_tag.as_deref().filter(|_| s.codec == "hevc") {
                    text.push_str(&format!(" as {tag}"));
                }
                text
            }
            StreamKind::Audio(a) => {
                let default = if s.disposition.default { " default" } else { "" };
                format!(", {}{profile} {} ch {} Hz{default}", s.codec, a.channels, a.sample_rate)
            }
            StreamKind::Subtitle(_) => format!(", {} subtitles", s.codec),
            StreamKind::Data => ", data".to_owned(),
        });
    }
    out
}
