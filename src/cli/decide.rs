//! `spindle decide FILE --client NAME-or-PROFILE.json`: the playback decision, dry.

use std::path::PathBuf;

use clap::Args;
use spindle_playback::{Choice, ClientProfile, SubtitleChoice, builtin, builtin_names, decide};

use super::{Failure, Outcome, print, print_json};
use crate::examine::Examiner;
use crate::sessions::word;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A media file
    file: PathBuf,
    /// Name of a built-in client, or a profile file (JSON)
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let profile = profile(&arguments.client)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let examined = runtime.block_on(async {
        let examiner = Examiner::start()?;
        let examined = examiner.examine(&arguments.file).await;
        examiner.close().await;
        examined
    })?;
    let choice = Choice {
        audio: arguments.audio,
        subtitle: arguments.subtitle.map_or(SubtitleChoice::Default, SubtitleChoice::Stream),
        max_bitrate_bps: arguments.max_bitrate,
    };
    let decision = decide(&profile, &examined.info, &choice);
    if arguments.json {
        return print_json(&decision);
    }
    let mut text = format!("{} on {}\n", word(decision.method), profile.name);
    for reason in &decision.reasons {
        text.push_str(&format!("  {}\n", reason.sentence()));
    }
    print(&text);
    Ok(())
}

fn profile(client: &str) -> Result<ClientProfile, Failure> {
    if let Some(profile) = builtin(client) {
        return Ok(profile);
    }
    let path = std::path::Path::new(client);
    let is_file = path.extension().is_some_and(|e| e == "json") || client.contains('/');
    if !is_file {
        let known = builtin_names().join(", ");
        return Err(Failure::Usage(format!(
            "unknown client `{client}`; known are {known}, or name a profile file"
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Failed(format!("unable to read the profile `{client}`: {e}")))?;
    serde_json::from_str(&text)
        .map_err(|e| Failure::Failed(format!("the profile `{client}` is not valid: {e}")))
}
