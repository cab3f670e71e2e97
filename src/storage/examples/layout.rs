//! `layout [verify] FILE [LEVELS]`: what `spindle layout` answers, as JSON, without the rest of the server: small enough for a
//! machine in memory. LEVELS: loop devices that are followed. Fails where a byte is not where the layout says. The time that
//! the answer took is told on the error stream.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use spindle_base::clock::{SystemClock, instant};
use spindle_storage::{Config, HelperMode, LayoutOptions, Storage};

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<bool, Box<dyn std::error::Error>> {
    let verify = arguments.first().is_some_and(|a| a == "verify");
    if verify {
        arguments.remove(0);
    }
    let file = arguments.first().ok_or("no file is named")?;
    let through_loops = arguments.get(1).map_or(Ok(0), |n| n.parse())?;
    let options = LayoutOptions { through_loops, ..LayoutOptions::default() };
    let config = Config { helper: HelperMode::Off, ..Config::default() };
    let storage = Storage::start(config, Arc::new(SystemClock))?;
    let began = instant();
    let (text, fine) = if verify {
        let verified = storage.verify_layout(Path::new(file), &options)?;
        (serde_json::to_string(&verified)?, verified.different_bytes == 0)
    } else {
        (serde_json::to_string(&storage.layout_with(Path::new(file), &options)?)?, true)
    };
    let took = began.elapsed();
    storage.close();
    writeln!(std::io::stdout(), "{text}")?;
    writeln!(std::io::stderr(), "{:.1} ms", took.as_secs_f64() * 1000.0)?;
    Ok(fine)
}
