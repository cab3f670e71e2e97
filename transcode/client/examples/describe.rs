//! Describes files as the library sees them, one JSON object a line: `describe WORKER FILE...`. Made
//! `src/playback/tests/fixtures/samples.jsonl`.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use spindle_base::clock::SystemClock;
use spindle_base::shutdown::Shutdown;
use spindle_media::guard::Limits;
use spindle_media::probe::probe;
use spindle_transcode::{Config, Transcoder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let worker = args.next().ok_or("describe WORKER FILE...")?;
    let config = Config {
        worker_program: std::fs::canonicalize(worker)?,
        cache_dir: std::env::temp_dir().join("spindle-describe"),
        cache_bytes: 1 << 20,
        max_workers: 1,
        run_ahead: 1,
        spare_stays: std::time::Duration::from_secs(30),
    };
    let transcoder = Transcoder::start(config, Arc::new(SystemClock), Shutdown::new())?;
    transcoder.ready().await?;
    let mut out = io::stdout().lock();
    for file in args {
        let size = std::fs::metadata(&file)?.len();
        // Our own parsers first, as the scanner does it; the worker knows the rest.
        let info = match probe(File::open(&file)?, size, &file, Limits::default()) {
            Ok(probed) => Ok(probed.info),
            Err(error) if error.worth_asking_the_worker() => {
                transcoder.probe(Box::new(File::open(&file)?), &file).await.map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match info {
            Ok(info) => writeln!(out, "{}", serde_json::json!({"file": file, "info": info}))?,
            Err(why) => writeln!(io::stderr(), "{file}: {why}")?,
        }
    }
    Ok(())
}
