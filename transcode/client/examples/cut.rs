//! Cuts a file into one fragmented MP4 through the worker, for a look at what it makes:
//! `cut WORKER FILE OUT copy|encode|tonemap|burn:STREAM [AUDIO_STREAM] [SEGMENTS]`.

#![expect(clippy::disallowed_methods, reason = "a tool for developers")]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use spindle_base::clock::SystemClock;
use spindle_base::shutdown::Shutdown;
use spindle_transcode::{
    AudioPlan, Boundaries, Config, FileKey, Input, Plan, RenditionKey, Transcoder, VideoPlan, WorkerRead,
};
use tokio_util::sync::CancellationToken;

struct Film(std::path::PathBuf);

impl Input for Film {
    fn open(&self) -> io::Result<OwnedFd> {
        File::open(&self.0).map(OwnedFd::from)
    }
    fn worker_started(&self, _: u32) {}
    fn reads(&self, _: Vec<WorkerRead>) {}
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, worker, file, out, mode, rest @ ..] = args.as_slice() else {
        return Err("cut WORKER FILE OUT copy|encode|tonemap|burn:STREAM [AUDIO_STREAM]".into());
    };
    let cache_dir = std::env::temp_dir().join("spindle-cut");
    let config = Config {
        worker_program: worker.into(),
        cache_dir,
        cache_bytes: 1 << 30,
        max_workers: 2,
        run_ahead: 3,
    };
    let transcoder = Transcoder::start(config, Arc::new(SystemClock), Shutdown::new())?;
    transcoder.ready().await?;
    let info = transcoder.probe(File::open(file)?.into(), file).await?;
    let video = info.main_video().map(|(s, _)| s.index).ok_or("no video")?;
    let audio = match rest.first() {
        Some(n) => Some(n.parse()?),
        None => info.audio().next().map(|(s, _)| s.index),
    };
    let end_us = (info.duration_s.unwrap_or(10.0) * 1e6) as i64;
    let copy = mode == "copy";
    let mut b = if copy {
        let index =
            transcoder.scan_keyframes(File::open(file)?.into(), file, CancellationToken::new()).await?;
        let mut b = vec![0];
        for at in index.at_us {
            if at - b[b.len() - 1] >= 2_000_000 {
                b.push(at);
            }
        }
        b
    } else {
        (0..).map(|i| i * 3_000_000).take_while(|t| *t < end_us - 500_000).collect()
    };
    b.push(end_us.max(b[b.len() - 1] + 1));
    let n = b.len() - 1;
    let plan = Plan {
        video: Some(if copy {
            VideoPlan::Copy { stream: video }
        } else {
            VideoPlan::Encode {
                stream: video,
                codec: "h264".to_owned(),
                max_width: Some(1280),
                max_height: Some(720),
                max_bitrate_bps: Some(4_000_000),
                fps_cap: Some(60),
                burn_subtitle: mode.strip_prefix("burn:").and_then(|s| s.parse().ok()),
                tone_map: mode == "tonemap",
            }
        }),
        audio: audio.map(|stream| {
            if copy {
                AudioPlan::Copy { stream }
            } else {
                AudioPlan::Encode {
                    stream,
                    codec: "aac".to_owned(),
                    channels: 6,
                    bitrate_bps: None,
                    sample_rate: None,
                }
            }
        }),
        boundaries: Boundaries(b.clone()),
        start_us: None,
    };
    let key = FileKey { dev: 0, ino: 0, size_bytes: info.size_bytes, modified_us: 0, changed_us: 0 };
    let began = Instant::now();
    let rendition = transcoder.rendition(RenditionKey::new(key, &plan), plan, Arc::new(Film(file.into())));
    let mut to = File::create(out)?;
    to.write_all(&rendition.init().await?.read()?)?;
    for i in 0..n {
        let segment = rendition.segment(i).await?;
        if i == 0 {
            writeln!(io::stderr(), "first segment after {:?}", began.elapsed())?;
        }
        to.write_all(&segment.read()?)?;
    }
    writeln!(io::stderr(), "{n} segments, {end_us} us, in {:?}", began.elapsed())?;
    Ok(())
}
