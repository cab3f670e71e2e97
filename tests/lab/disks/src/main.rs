//! `spindle-disks serve`: files that answer like disks, as loop devices' files or over NBD.
//! `spindle-disks replay`: recorded sessions on a layout of such devices, in real time.
//! `spindle-disks simulate`: how many players a volume of such disks carries, in virtual time.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use spindle_disks::control::Control;
use spindle_disks::device::Device;
use spindle_disks::layout::Layout;
use spindle_disks::log::{Format, Log};
use spindle_disks::params::Params;
use spindle_disks::queue::Policy;
use spindle_disks::simulate::{Volume, most_players, players, run};
use spindle_disks::{fuse, nbd};

const USAGE: &str = "\
spindle-disks serve [--fuse DIR] [--nbd DIR] [--control SOCKET] [--log DIR] [--log-json] [--no-delays] [--while-stdin]
                    [--disk PRESET|FILE] [KEY=VALUE]... NAME=IMAGE...
    DIR/NAME is a file for `losetup --direct-io=on`, or DIR/NAME.sock a socket for QEMU's nbd driver. Prints `ready`.
    --log writes DIR/NAME.csv (or .json), a line a request. --no-delays starts as fast as the image is; `delays on` over
    the control socket changes that. --while-stdin ends the program when standard input ends, with whoever started it.
    PRESET: hdd7200 hdd5400 hdd15k ssd. KEY: rpm seek_track_ms seek_third_ms seek_full_ms outer_mb_s inner_mb_s zones
    bus_mb_s overhead_us segments segment_kib queue ageing_ms access_us channels stroke_from stroke_to

spindle-disks simulate [--disk PRESET|FILE] [KEY=VALUE]... [rate_mbit=8] [request_kib=2048] [policy=deadline]
                       [columns=1] [copies=1] [interleave_kib=256] [buffers=2] [seconds=180] [disk_gb=8000] [players=N]
    Without players: the largest number that never runs empty. policy: fifo deadline nearest sweep.

spindle-disks replay --layout LAYOUT [--disk PRESET|FILE] [--log DIR] [--folder DIR] [KEY=VALUE]... [size_mib=8192] [place=BYTES,...]
                     [thread=N,...] RECORD.json...
    LAYOUT as of `spindle simulate`. Prints a line of JSON: what each device did. --folder: where its images may be.
spindle-disks predict ...     the same words: what `spindle simulate` says to it, as its JSON
spindle-disks figures         what docs/striping.md tells of layouts, in virtual time, as JSON";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.split_first() {
        Some((command, rest)) if command == "serve" => serve(rest),
        Some((command, rest)) if command == "simulate" => simulate(rest),
        Some((command, rest)) if command == "replay" => recorded(rest, true),
        Some((command, rest)) if command == "predict" => recorded(rest, false),
        Some((command, [])) if command == "figures" => spindle_disks::figures::print(),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("spindle-disks: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A preset, or a file of parameters.
fn disk(name: &str, size_bytes: u64) -> Result<Params, String> {
    if let Ok(params) = Params::preset(name, size_bytes) {
        return Ok(params);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|e| format!("`{name}` is neither a preset nor a readable file: {e}"))?;
    Params::from_text(&text, size_bytes).map_err(|e| format!("{name}: {e}"))
}

#[derive(Default)]
struct Options {
    fuse: Option<PathBuf>,
    nbd: Option<PathBuf>,
    control: Option<PathBuf>,
    log: Option<PathBuf>,
    is_json: bool,
    no_delays: bool,
    while_stdin: bool,
    disk: Option<String>,
    settings: Vec<(String, String)>,
    images: Vec<(String, PathBuf)>,
}

fn parse(words: &[String]) -> Result<Options, String> {
    let mut o = Options::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--fuse" => o.fuse = Some(value()?.into()),
            "--nbd" => o.nbd = Some(value()?.into()),
            "--control" => o.control = Some(value()?.into()),
            "--log" => o.log = Some(value()?.into()),
            "--log-json" => o.is_json = true,
            "--no-delays" => o.no_delays = true,
            "--while-stdin" => o.while_stdin = true,
            "--disk" => o.disk = Some(value()?),
            _ => {
                let (key, value) = word.split_once('=').ok_or_else(|| format!("not understood: `{word}`"))?;
                // A name of a device is followed by a path, a key by a number.
                if value.parse::<f64>().is_ok() {
                    o.settings.push((key.into(), value.into()));
                } else if key.is_empty() || key.contains('/') {
                    return Err(format!("`{key}` is no name for a device"));
                } else {
                    o.images.push((key.into(), value.into()));
                }
            }
        }
    }
    if o.images.is_empty() || (o.fuse.is_none() && o.nbd.is_none()) {
        return Err("needs at least one NAME=IMAGE, and --fuse or --nbd".into());
    }
    Ok(o)
}

fn start_devices(o: &Options, delays: &Arc<AtomicBool>) -> Result<Vec<Arc<Device>>, String> {
    let mut devices = Vec::new();
    for (name, path) in &o.images {
        let at = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let file = File::options().read(true).write(true).open(path).map_err(|e| at(&e))?;
        let size_bytes = file.metadata().map_err(|e| at(&e))?.len();
        let mut params = disk(o.disk.as_deref().unwrap_or("hdd7200"), size_bytes)?;
        for (key, value) in &o.settings {
            params.set(key, value).map_err(|e| e.to_string())?;
        }
        params.check().map_err(|e| e.to_string())?;
        let (format, end) = if o.is_json { (Format::Json, "json") } else { (Format::Csv, "csv") };
        let log = match &o.log {
            Some(folder) => Some(File::create(folder.join(format!("{name}.{end}"))).map_err(|e| at(&e))?),
            None => None,
        };
        let log = Log::new(log, format).map_err(|e| at(&e))?;
        devices.push(Device::start(name, file, params, Arc::clone(delays), log).map_err(|e| at(&e))?);
    }
    Ok(devices)
}

fn serve(words: &[String]) -> Result<(), String> {
    let o = parse(words)?;
    let delays = Arc::new(AtomicBool::new(!o.no_delays));
    // Waits are some milliseconds; the usual 50 microseconds of slack would be seen in them. Not every kernel lets us.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
    let devices = start_devices(&o, &delays)?;
    if let Some(folder) = &o.nbd {
        for device in &devices {
            let socket = folder.join(format!("{}.sock", device.name()));
            nbd::listen(&socket, Arc::clone(device)).map_err(|e| format!("{}: {e}", socket.display()))?;
        }
    }
    let mounted = match &o.fuse {
        Some(folder) => Some(
            fuse::mount(folder, devices.clone())
                .map_err(|e| format!("mounting on {}: {e}", folder.display()))?,
        ),
        None => None,
    };
    let (end, ends) = std::sync::mpsc::channel::<()>();
    if let Some(socket) = &o.control {
        let end = end.clone();
        let control = Control { devices: devices.clone(), delays };
        control
            .listen(socket, move || {
                let _ = end.send(());
            })
            .map_err(|e| format!("{}: {e}", socket.display()))?;
    }
    if o.while_stdin {
        let end = end.clone();
        std::thread::spawn(move || {
            let mut byte = [0; 64];
            while std::io::stdin().read(&mut byte).is_ok_and(|n| n > 0) {}
            let _ = end.send(());
        });
    }
    if let Some(mounted) = mounted {
        let end = end.clone();
        std::thread::spawn(move || {
            if let Err(error) = mounted.serve() {
                eprintln!("spindle-disks: fuse: {error}");
            }
            let _ = end.send(());
        });
    }
    println!("ready");
    // `end` itself is alive, so this waits for a reason to end.
    let _ = ends.recv();
    if let Some(folder) = &o.fuse {
        // Gone already where the unmount was the reason.
        let _ = fuse::unmount(folder);
    }
    for device in &devices {
        device.flush_log().map_err(|e| format!("the log of {}: {e}", device.name()))?;
        device.close();
    }
    Ok(())
}

/// Records on a layout: in real time on devices, or as `spindle simulate` predicts it.
fn recorded(words: &[String], is_real: bool) -> Result<(), String> {
    let (mut name, mut layout, mut log, mut folder) =
        ("hdd7200".to_owned(), None, None, std::env::temp_dir());
    let (mut size_mib, mut places, mut threads) = (8192_u64, Vec::new(), Vec::new());
    let (mut settings, mut records) = (Vec::new(), Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--disk" => name = value()?,
            "--layout" => layout = Some(value()?),
            "--log" => log = Some(PathBuf::from(value()?)),
            "--folder" => folder = value()?.into(),
            _ => match word.split_once('=') {
                Some(("size_mib", n)) => {
                    size_mib = n.parse().map_err(|_| format!("`{word}`: not a number"))?
                }
                Some(("place", list)) => {
                    places = list
                        .split(',')
                        .map(spindle_simulate::layout::parse::bytes)
                        .collect::<Result<_, _>>()?;
                }
                Some(("thread", list)) => {
                    threads = list
                        .split(',')
                        .map(|n| n.parse().map_err(|_| format!("`{word}`: not numbers")))
                        .collect::<Result<_, _>>()?;
                }
                Some((key, value)) if value.parse::<f64>().is_ok() => settings.push((key, value)),
                _ => records.push(word),
            },
        }
    }
    let layout = layout.ok_or("--layout is missing")?;
    let mut params = disk(&name, size_mib << 20)?;
    for (key, value) in settings {
        params.set(key, value).map_err(|e| e.to_string())?;
    }
    params.check().map_err(|e| e.to_string())?;
    let layout = spindle_simulate::Layout::parse(&layout, params.size_bytes).map_err(|e| e.to_string())?;
    let (mut parts, mut sessions) = (Vec::new(), Vec::new());
    for (number, path) in records.into_iter().enumerate() {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
        let session = spindle_simulate::Session::from_json(path, &text).map_err(|e| e.to_string())?;
        let place = places.get(number).copied().unwrap_or(0);
        if place.saturating_add(session.end_bytes()) > layout.size_bytes() {
            return Err(format!("{path}: its film does not fit at byte {place}"));
        }
        let thread = threads.get(number).copied().unwrap_or(number as u64);
        sessions.push(session.clone());
        parts.push(spindle_disks::replay::Part { session, place, thread });
    }
    if !is_real {
        let plan = spindle_simulate::report::Plan {
            disk_name: name,
            disk: params,
            host: spindle_simulate::replay::Host::default(),
            starts_s: Vec::new(),
            places: parts.iter().map(|p| p.place).collect(),
            threads: parts.iter().map(|p| p.thread).collect(),
            fit: None,
        };
        let report = spindle_simulate::report::simulate(&layout, &plan, &sessions, &mut |_, _, _| true);
        let report = report.map_err(|e| e.to_string())?;
        println!("{}", serde_json::to_string(&report).map_err(|e| e.to_string())?);
        return Ok(());
    }
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
    let log_of = |name: &str| log.as_ref().map(|l| File::create(l.join(format!("{name}.csv")))).transpose();
    let (devices, took_s) =
        spindle_disks::replay::run(&layout, &params, parts, &folder, log_of).map_err(|e| e.to_string())?;
    println!("{{\"elapsed_s\":{took_s:.6},\"disks\":[{}]}}", devices.join(","));
    Ok(())
}

fn simulate(words: &[String]) -> Result<(), String> {
    let (mut name, mut settings) = ("hdd7200".to_owned(), Vec::new());
    let mut own = [8.0, 2048.0, 1.0, 1.0, 256.0, 2.0, 180.0, 8000.0, 0.0];
    const OWN: [&str; 9] = [
        "rate_mbit",
        "request_kib",
        "columns",
        "copies",
        "interleave_kib",
        "buffers",
        "seconds",
        "disk_gb",
        "players",
    ];
    let mut policy = Policy::Deadline;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--disk" {
            name = rest.next().ok_or("--disk needs a value")?.clone();
            continue;
        }
        let (key, value) = word.split_once('=').ok_or_else(|| format!("not understood: `{word}`"))?;
        if key == "policy" {
            policy = Policy::by_name(value).ok_or_else(|| format!("no policy `{value}`"))?;
        } else if let Some(i) = OWN.iter().position(|o| *o == key) {
            own[i] = value
                .parse()
                .ok()
                .filter(|n| *n > 0.0)
                .ok_or_else(|| format!("`{word}`: not a number above 0"))?;
        } else {
            settings.push((key, value));
        }
    }
    let [rate_mbit, request_kib, columns, copies, interleave_kib, buffers, seconds, disk_gb, count] = own;
    let mut params = disk(&name, (disk_gb * 1e9) as u64)?;
    for (key, value) in settings {
        params.set(key, value).map_err(|e| e.to_string())?;
    }
    params.check().map_err(|e| e.to_string())?;
    let layout = Layout::Striped {
        columns: (columns as usize).max(1),
        copies: (copies as usize).max(1),
        interleave_bytes: (interleave_kib as u64).max(1) << 10,
    };
    let volume = Volume { disk: params, layout, policy };
    let (bytes_s, request, buffers) =
        (rate_mbit * 1e6 / 8.0, (request_kib as u64).max(1) << 10, (buffers as u32).max(1));
    let fit =
        if count >= 1.0 { count as usize } else { most_players(&volume, bytes_s, request, buffers, seconds) };
    let outcome = run(&volume, &players(&volume, fit, bytes_s, request, buffers), seconds);
    let late: u64 = outcome.readers.iter().map(|r| r.late).sum();
    println!(
        "{fit} players of {rate_mbit} Mbit/s by {request_kib} KiB ({policy:?}): {:.1} MB/s, {late} late, {:.0} MiB of buffers",
        outcome.bytes_s() / 1e6,
        fit as f64 * f64::from(buffers) * request_kib / 1024.0
    );
    for (i, disk) in outcome.disks.iter().enumerate() {
        println!(
            "disk {i}: {} requests, {:.1} MB/s, busy {:.0} % (seek {:.0} %, rotation {:.0} %)",
            disk.requests,
            disk.bytes as f64 / seconds / 1e6,
            disk.busy_s / seconds * 100.0,
            disk.seek_s / seconds * 100.0,
            disk.rotation_s / seconds * 100.0
        );
    }
    Ok(())
}
