//! Cuts a file through the worker, for a look at what it makes and how fast:
//! `cut WORKER FILE OUT_DIR PLAN [ORDER]`.
//!
//! `PLAN` is the JSON of a [`Plan`]; with empty boundaries a copied picture is cut at key frames
//! at least three seconds apart, everything else after 2, 4, 7, 10, … seconds. `ORDER` is a list of
//! segment numbers, `-` for none; without it all are made from first to last. `OUT_DIR` gets
//! `init.mp4` and `N.m4s`; standard output one line of JSON: the description, the boundaries, and
//! when each segment was there, in seconds after the rendition was asked for.

#![expect(clippy::disallowed_methods, reason = "a tool for developers")]

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use spindle_base::clock::SystemClock;
use spindle_base::shutdown::Shutdown;
use spindle_transcode::{
    Boundaries, BoxFuture, Config, FileKey, Input, InputFile, Plan, RenditionKey, Transcoder, VideoPlan,
    WorkerRead,
};
use tokio_util::sync::CancellationToken;

struct Film(PathBuf);

impl Input for Film {
    fn open(&self) -> BoxFuture<'_, io::Result<InputFile>> {
        Box::pin(async { Ok(Box::new(File::open(&self.0)?) as InputFile) })
    }
    fn worker_started(&self, _: u32) {}
    fn reads(&self, _: Vec<WorkerRead>) {}
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, worker, file, out, plan, rest @ ..] = args.as_slice() else {
        return Err("cut WORKER FILE OUT_DIR PLAN [ORDER]".into());
    };
    let (worker, file, out) = (Path::new(worker), Path::new(file), Path::new(out));
    std::fs::create_dir_all(out)?;
    let config = Config {
        worker_program: std::fs::canonicalize(worker)?,
        cache_dir: out.join("cache"),
        cache_bytes: 1 << 30,
        max_workers: 2,
        run_ahead: 3,
        spare_stays: std::time::Duration::from_secs(30),
    };
    let shutdown = Shutdown::new();
    let transcoder = Transcoder::start(config, Arc::new(SystemClock), shutdown)?;
    transcoder.ready().await?;
    let name = file.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let info = transcoder.probe(Box::new(File::open(file)?), name).await?;
    let mut plan: Plan = serde_json::from_str(plan)?;
    plan.clock_restarts.clone_from(&info.clock_restarts);
    if plan.boundaries.0.is_empty() {
        plan.boundaries = Boundaries(boundaries(&transcoder, file, name, &plan, info.duration_s).await?);
    }
    let segments = plan.boundaries.segments();
    let order: Vec<usize> = match rest.first().map(String::as_str) {
        None => (0..segments).collect(),
        Some("-") => Vec::new(),
        Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
    };
    let b = plan.boundaries.clone();
    // Idle workers load their libraries in the background.
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    let key = FileKey { dev: 0, ino: 0, size_bytes: info.size_bytes, modified_us: 0, changed_us: 0 };
    let began = Instant::now();
    let rendition = transcoder.rendition(RenditionKey::new(key, &plan), plan, Arc::new(Film(file.into())));
    std::fs::write(out.join("init.mp4"), rendition.init().await?.read()?)?;
    let mut at = vec![serde_json::json!(["init", began.elapsed().as_secs_f64()])];
    for n in order {
        let segment = rendition.segment(n).await?;
        at.push(serde_json::json!([n, began.elapsed().as_secs_f64()]));
        std::fs::write(out.join(format!("{n}.m4s")), segment.read()?)?;
    }
    let said = serde_json::json!({
        "info": info, "boundaries": b.0, "at": at, "status": rendition.status(),
    });
    writeln!(io::stdout(), "{said}")?;
    Ok(())
}

async fn boundaries(
    transcoder: &Transcoder,
    file: &Path,
    name: &str,
    plan: &Plan,
    duration_s: Option<f64>,
) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let end_us = (duration_s.unwrap_or(10.0) * 1e6) as i64;
    let mut b = if matches!(plan.video, Some(VideoPlan::Copy { .. })) {
        let index =
            transcoder.scan_keyframes(Box::new(File::open(file)?), name, CancellationToken::new()).await?;
        let mut b = vec![0];
        for at in index.at_us {
            if at - b[b.len() - 1] >= 3_000_000 {
                b.push(at);
            }
        }
        b
    } else {
        let after = |i: i64| if i < 3 { i * 2_000_000 } else { 4_000_000 + (i - 2) * 3_000_000 };
        (0..).map(after).take_while(|t| *t < end_us - 500_000).collect()
    };
    b.push(end_us.max(b[b.len() - 1] + 1));
    Ok(b)
}
