//! `spindle decide FILE --client NAME-or-PROFILE.json`: the playback decision, dry.

use std::path::PathBuf;

use clap::Args;
use spindle_media::info::{MediaInfo, StreamKind};
use spindle_playback::{Choice, ClientProfile, Decision, Profiles, RuleVerdict, SubtitleChoice, decide};

use super::serve::Common;
use super::{Failure, Outcome, print, print_json};
use crate::app::load_profiles;
use crate::examine::Examiner;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A media file
    file: PathBuf,
    /// Name of a client (built in, or a file in DATA-DIR/profiles), or a profile file (JSON)
    #[arg(long, value_name = "NAME-or-PROFILE.json")]
    client: String,
    /// Limit in bits per second
    #[arg(long, value_name = "N")]
    max_bitrate: Option<u64>,
    /// Sound stream to play
    #[arg(long, value_name = "STREAM")]
    audio: Option<u32>,
    /// Subtitle stream to show
    #[arg(long, value_name = "STREAM")]
    subtitle: Option<u32>,
    /// Folder of the server's data, where its own profiles are
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Show every rule, not only those that failed
    #[arg(long)]
    rules: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let profile = profile(&arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let examined = runtime.block_on(async {
        let examiner = Examiner::start()?;
        let examined = examiner.examine(&arguments.file).await;
        examiner.close().await;
        examined
    })?;
    chosen_stream(&examined.info, arguments.audio, "sound", |k| matches!(k, StreamKind::Audio(_)))?;
    chosen_stream(&examined.info, arguments.subtitle, "subtitle", |k| matches!(k, StreamKind::Subtitle(_)))?;
    let choice = Choice {
        audio: arguments.audio,
        subtitle: arguments.subtitle.map_or(SubtitleChoice::Default, SubtitleChoice::Stream),
        max_bitrate_bps: arguments.max_bitrate,
        ..Choice::default()
    };
    let decision = decide(&profile, &examined.info, &choice);
    if arguments.json {
        return print_json(&decision);
    }
    print(&text(&decision, &profile.name, arguments.rules));
    Ok(())
}

/// A stream that was asked for must be one of its kind.
fn chosen_stream(
    info: &MediaInfo,
    chosen: Option<u32>,
    kind: &str,
    is_one: impl Fn(&StreamKind) -> bool,
) -> Outcome {
    let Some(chosen) = chosen else { return Ok(()) };
    let there: Vec<u32> = info.streams.iter().filter(|s| is_one(&s.kind)).map(|s| s.index).collect();
    if there.contains(&chosen) {
        return Ok(());
    }
    let known = match there.as_slice() {
        [] => "it has none".to_owned(),
        some => format!("it has {}", some.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::Failed(format!("the file has no {kind} stream {chosen}; {known}")))
}

fn text(decision: &Decision, client: &str, all: bool) -> String {
    let method = decision.refusal.map_or(decision.method.word(), |_| "refused");
    let mut out = format!("{method}: {}\n", decision.sentence(client));
    for reason in &decision.reasons {
        out.push_str(&format!("  {}\n", reason.sentence()));
    }
    for rule in &decision.rules {
        let word = match rule.verdict {
            RuleVerdict::Pass if !all => continue,
            RuleVerdict::Unknown if !all => continue,
            RuleVerdict::Pass => "pass",
            RuleVerdict::Note => "note",
            RuleVerdict::Fail => "FAIL",
            RuleVerdict::Unknown => "?",
        };
        let stream = rule.stream.map_or(String::new(), |n| format!(" #{n}"));
        out.push_str(&format!(
            "  {word:4} {}{stream}: wanted {}, found {}\n",
            rule.rule, rule.wanted, rule.found
        ));
    }
    out
}

/// A name goes before a file: `chrome` is a client, `./chrome.json` a file.
fn profile(arguments: &Arguments) -> Result<ClientProfile, Failure> {
    let client = arguments.client.as_str();
    if let Some(dir) = arguments.data_dir.as_ref().filter(|d| !d.is_dir()) {
        return Err(Failure::Failed(format!("there is no folder `{}`", super::named(dir))));
    }
    let common = Common { data_dir: arguments.data_dir.clone(), libraries: Vec::new() };
    // Without a data directory the built-in ones are known all the same.
    let known = match common.layers(None)?.build() {
        Ok(config) => load_profiles(&config.data_dir),
        Err(_) => Profiles::default(),
    };
    if let Some(profile) = known.get(client) {
        return Ok(profile.clone());
    }
    let path = std::path::Path::new(client);
    let is_file = path.extension().is_some_and(|e| e == "json") || client.contains('/');
    if !is_file {
        let rejected = known.rejected().iter().find(|r| r.file.strip_suffix(".json") == Some(client));
        if let Some(rejected) = rejected {
            return Err(Failure::Failed(format!(
                "the profile `{}` is not valid: {}",
                rejected.file, rejected.why
            )));
        }
        return Err(Failure::Usage(format!(
            "unknown client `{client}`; known are {}, or name a profile file",
            known.names()
        )));
    }
    let text = crate::config::regular_file::read(path)
        .map_err(|e| Failure::Failed(format!("unable to read the profile `{client}`: {e}")))?;
    let invalid = |e: spindle_playback::ProfileError| {
        Failure::Failed(format!("the profile `{client}` is not valid: {e}"))
    };
    let profile = ClientProfile::from_json(&text).map_err(invalid)?;
    profile.check().map_err(invalid)?;
    Ok(profile)
}
