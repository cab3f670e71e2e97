//! `spindle probe FILE...`: what is in a file. One JSON object a file, one a line.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use spindle_media::info::{MediaInfo, StreamKind};
use spindle_media::keyframes::KeyframeIndex;

use super::{Failure, Outcome, human_bytes, print, print_json};
use crate::examine::Examiner;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Media files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    file: String,
    #[serde(flatten)]
    info: Option<&'a MediaInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyframes: Option<&'a KeyframeIndex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let examiner = Examiner::start()?;
        let mut failed = 0;
        for file in &arguments.files {
            let examined = examiner.examine(file).await;
            failed += usize::from(examined.is_err());
            if arguments.json {
                let (info, keyframes, error) = match &examined {
                    Ok(e) => (Some(&e.info), e.keyframes.as_ref(), None),
                    Err(error) => (None, None, Some(format!("{error:#}"))),
                };
                let file = file.display().to_string();
                print_json(&Line { file, info, keyframes, error })?;
            } else {
                match &examined {
                    Ok(e) => print(&for_people(file, &e.info, e.keyframes.as_ref())),
                    Err(error) => print(&format!("{}: cannot be read: {error:#}\n", super::named(file))),
                }
            }
        }
        examiner.close().await;
        if failed > 0 {
            return Err(Failure::Failed(format!(
                "{failed} of {} files could not be read",
                arguments.files.len()
            )));
        }
        Ok(())
    })
}

fn for_people(file: &Path, info: &MediaInfo, keyframes: Option<&KeyframeIndex>) -> String {
    let mut out = format!("{}: {}, {}", super::named(file), info.container, human_bytes(info.size_bytes));
    if let Some(seconds) = info.duration_s {
        let _infallible = write!(out, ", {seconds:.3} s");
    }
    if let Some(index) = keyframes {
        let _infallible = write!(out, ", {} key frames", index.at_us.len());
    }
    out.push('\n');
    for stream in &info.streams {
        let facts = match &stream.kind {
            StreamKind::Video(v) => format!("video {}x{} {}", v.width, v.height, v.hdr.word()),
            StreamKind::Audio(a) => format!("audio {} ch {} Hz", a.channels, a.sample_rate),
            StreamKind::Subtitle(_) => "subtitle".to_owned(),
            StreamKind::Data => "data".to_owned(),
        };
        let language = stream.language.as_deref().unwrap_or("");
        let _infallible = writeln!(out, "  #{} {} {facts} {language}", stream.index, stream.codec);
    }
    for chapter in &info.chapters {
        let title = chapter.title.as_deref().unwrap_or("");
        let _infallible = writeln!(out, "  chapter {:.3} s {title}", chapter.start_s);
    }
    out
}
