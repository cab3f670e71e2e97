//! Recorded sessions on a layout of devices, in real time: a thread a session, which sleeps until its next request is due, sends its commands
//! to the devices together, and waits for the answers. What `spindle simulate` works out in virtual time is held against it.
//!
//! Which bytes lie where and which copy is read comes from `spindle-simulate` (that is held against the server's block map and the kernels
//! elsewhere); what happens when, and in which order, comes from threads and from devices that answer when a drive would.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use spindle_simulate::choose::{Chooser, Reader};
use spindle_simulate::layout::Layout;
use spindle_simulate::replay::{Host, sends};
use spindle_simulate::session::Session;

use crate::device::{Command, Device, now_s};
use crate::drive::Kind;
use crate::log::{Format, Log};
use crate::params::Params;

/// A session, where its film begins, and the number of its thread.
pub struct Part {
    /// What it reads.
    pub session: Session,
    /// Byte of the volume.
    pub place: u64,
    /// For layouts that choose a copy by it.
    pub thread: u64,
}

/// Runs the sessions, all from now on. Gives what each device says of itself, as JSON, and the seconds that it took. Images are files
/// without names in `folder`; `logs` makes a log for each device's name.
///
/// # Errors
/// Files or threads that cannot be had; a read that failed.
pub fn run(
    layout: &Layout,
    params: &Params,
    parts: Vec<Part>,
    folder: &std::path::Path,
    logs: impl Fn(&str) -> io::Result<Option<File>>,
) -> io::Result<(Vec<String>, f64)> {
    let delays = Arc::new(AtomicBool::new(true));
    let mut devices = Vec::new();
    for number in 0..layout.disks() {
        let name = format!("disk{number}");
        let path = folder.join(format!(".{name}-{}", std::process::id()));
        let image = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        image.set_len(params.size_bytes)?;
        let log = Log::new(logs(&name)?, Format::Csv)?;
        devices.push(Device::start(&name, image, params.clone(), Arc::clone(&delays), log)?);
    }
    let chooser = Arc::new(Mutex::new(Chooser::new(layout.policy(), layout.disks(), params.is_rotating())));
    let began_s = now_s() + 0.05;
    let mut threads = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let (layout, devices, chooser) = (layout.clone(), devices.clone(), Arc::clone(&chooser));
        let thread = std::thread::Builder::new().name(format!("session {number}"));
        threads.push(thread.spawn(move || one(&layout, &devices, &chooser, &part, began_s))?);
    }
    let mut outcome = Ok(());
    for thread in threads {
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a session's thread panicked")));
        outcome = outcome.and(ended);
    }
    outcome?;
    let took_s = now_s() - began_s;
    for device in &devices {
        device.flush_log()?;
        device.close();
    }
    Ok((devices.iter().map(|d| d.totals()).collect(), took_s))
}

fn one(
    layout: &Layout,
    devices: &[Arc<Device>],
    chooser: &Arc<Mutex<Chooser>>,
    part: &Part,
    began_s: f64,
) -> io::Result<()> {
    let host = Host::default();
    for (number, request) in (0..).zip(&part.session.requests) {
        let wait_s = began_s + request.at_s - now_s();
        if wait_s > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(wait_s));
        }
        let reader = Reader { thread: part.thread, request: number };
        let at = part.place + request.offset;
        let commands = {
            let mut chooser = chooser.lock().unwrap_or_else(PoisonError::into_inner);
            sends(layout, &mut chooser, &host, at, request.len_bytes, reader)
        };
        let (answer, answers) = mpsc::channel();
        for send in commands {
            let device = devices
                .get(send.place.disk)
                .ok_or_else(|| io::Error::other(format!("the layout has no disk {}", send.place.disk)))?;
            let (answer, chooser) = (answer.clone(), Arc::clone(chooser));
            device.submit(Command {
                kind: Kind::Read,
                at: send.place.offset,
                len_bytes: send.len_bytes,
                data: Vec::new(),
                answer: Box::new(move |result| {
                    let mut chooser = chooser.lock().unwrap_or_else(PoisonError::into_inner);
                    for _ in 0..send.pieces {
                        chooser.done(send.place.disk, send.place.offset + send.len_bytes);
                    }
                    drop(chooser);
                    // Nobody hangs up before the last answer.
                    let _ = answer.send(result.map(|bytes| bytes.len()));
                }),
            });
        }
        drop(answer);
        for result in answers {
            result.map_err(io::Error::from_raw_os_error)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody asks how long it took: what each disk was asked for is what the simulator says.
    #[test]
    fn a_session_in_real_time_asks_the_same_disks_for_the_same_bytes_as_in_virtual_time() {
        let rows: Vec<_> = (0..12_u64)
            .map(|i| serde_json::json!({"at_ms": i * 5, "offset": i << 20, "length_bytes": 1 << 20}))
            .collect();
        let session = Session::from_value("s", serde_json::json!({ "requests": rows })).unwrap();
        let params = Params::preset("ssd", 1 << 30).unwrap();
        for text in ["mirror,disks=4,columns=2,read=primary", "btrfs-raid10,disks=4", "parity,disks=3"] {
            let layout = Layout::parse(text, 1 << 30).unwrap();
            let streams = [spindle_simulate::replay::Stream::whole(&session.requests, 0, 0.0, 1)];
            let predicted = spindle_simulate::replay::replay(
                &layout,
                &params,
                &Host::default(),
                &streams,
                &mut |_, _| true,
            )
            .unwrap();
            let part = Part { session: session.clone(), place: 0, thread: 1 };
            let (told, _) = run(&layout, &params, vec![part], &std::env::temp_dir(), |_| Ok(None)).unwrap();
            for (disk, totals) in predicted.disks.iter().zip(&told) {
                let real: serde_json::Value = serde_json::from_str(totals).unwrap();
                assert_eq!(real["read_bytes"], disk.bytes, "{text}: {totals}");
                assert_eq!(real["reads"], disk.requests, "{text}: {totals}");
            }
        }
    }
}
