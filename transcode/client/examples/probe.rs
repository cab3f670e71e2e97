//! Describes files through the worker's prober and says how fast: `probe WORKER FILE...`.

#![expect(clippy::disallowed_methods, reason = "a tool for developers")]

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use spindle_base::clock::SystemClock;
use spindle_base::shutdown::Shutdown;
use spindle_transcode::{Config, Transcoder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let worker = args.next().ok_or("probe WORKER FILE...")?;
    let config = Config {
        worker_program: std::fs::canonicalize(worker)?,
        cache_dir: std::env::temp_dir().join("spindle-probe"),
        cache_bytes: 1 << 20,
        max_workers: 1,
        run_ahead: 1,
        spare_stays: std::time::Duration::from_secs(30),
    };
    let transcoder = Transcoder::start(config, Arc::new(SystemClock), Shutdown::new())?;
    transcoder.ready().await?;
    let began = Instant::now();
    let mut asked = Vec::new();
    for file in args {
        let (transcoder, name) = (transcoder.clone(), file.clone());
        let fd = File::open(&file)?;
        asked.push((file, tokio::spawn(async move { transcoder.probe(Box::new(fd), &name).await })));
    }
    let count = asked.len();
    for (file, answer) in asked {
        if let Err(error) = answer.await? {
            writeln!(io::stdout(), "{file}: {error}")?;
        }
    }
    let took = began.elapsed().as_secs_f64();
    writeln!(io::stderr(), "{count} files in {took:.3} s, {:.0} a second", count as f64 / took)?;
    Ok(())
}
