//! What docs/striping.md tells of layouts in virtual time: where the reads of one to eight viewers go, how many viewers fit, and how fast one
//! reader or writer is who is in a hurry. As JSON, for tests/lab/striping.py.

use serde_json::{Value, json};
use spindle_simulate::fit::{Limits, fit, place};
use spindle_simulate::layout::Layout;
use spindle_simulate::pace::{read_rate, write_rate};
use spindle_simulate::replay::{Host, Stream, replay};
use spindle_simulate::session::Session;

use crate::params::Params;

const DISK: u64 = 8 << 40;
const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// In the order of the page.
const LAYOUTS: [&str; 20] = [
    "single",
    "simple,disks=4",
    "mirror,disks=2",
    "mirror,disks=3,columns=1",
    "mirror,disks=4,columns=1",
    "mirror,disks=4,columns=2",
    "mirror,disks=6,columns=3",
    "parity,disks=3",
    "parity,disks=4",
    "md-raid1,disks=2",
    "md-raid1,disks=4",
    "md-raid10,disks=4",
    "md-raid10,disks=4,far=2",
    "md-raid10,disks=4,offset=2",
    "md-raid5,disks=4",
    "btrfs-raid1,disks=3",
    "btrfs-raid1,disks=4",
    "btrfs-raid10,disks=4",
    "zfs-mirror,disks=4",
    "zfs-raidz1,disks=4",
];

/// A viewer: 2 MiB at a time, as the server reads, for two minutes.
fn viewer(rate_mbit: u64) -> Result<Session, String> {
    let every_ms = (2 * M * 8) as f64 / (rate_mbit as f64 * 1e3);
    let count = (120_000.0 / every_ms) as u64;
    let rows: Vec<Value> = (0..count)
        .map(|i| json!({"at_ms": i as f64 * every_ms, "offset": i * 2 * M, "length_bytes": 2 * M}))
        .collect();
    Session::from_value("viewer", json!({"file": "film", "requests": rows})).map_err(|e| e.to_string())
}

fn where_reads_go(
    layout: &Layout,
    disk: &Params,
    viewers: usize,
    session: &Session,
) -> Result<Value, String> {
    let mut streams = Vec::new();
    for number in 0..viewers {
        let place = place(layout, number, "film", session.end_bytes()).map_err(|e| e.to_string())?;
        // They did not all press the button at once.
        streams.push(Stream::whole(&session.requests, place, number as f64 * 0.37, number as u64));
    }
    let o = replay(layout, disk, &Host::default(), &streams, &mut |_, _| true).map_err(|e| e.to_string())?;
    let total: u64 = o.disks.iter().map(|d| d.bytes).sum();
    let mut latency: Vec<f32> = o.streams.iter().flat_map(|s| s.latency_s.clone()).collect();
    latency.sort_unstable_by(f32::total_cmp);
    Ok(json!({
        "layout": layout.text(), "viewers": viewers,
        "shares": o.disks.iter().map(|d| d.bytes as f64 / total as f64).collect::<Vec<_>>(),
        "busy": (0..o.disks.len()).map(|d| o.busy_share(d)).collect::<Vec<_>>(),
        "p50_ms": latency.get(latency.len() / 2).map(|s| s * 1e3),
        "p95_ms": latency.get(latency.len() * 95 / 100).map(|s| s * 1e3),
        "stalls": o.streams.iter().map(|s| s.stalls).sum::<u64>(),
    }))
}

fn fits(layout: &Layout, disk: &Params, session: &Session) -> Result<usize, String> {
    let limits = Limits { window_s: 120.0, most: 512, ..Limits::default() };
    let found = fit(layout, disk, &Host::default(), std::slice::from_ref(session), &limits, &mut |_| true);
    found.map(|f| f.streams).map_err(|e| e.to_string())
}

fn of(text: &str) -> Result<Value, String> {
    let layout = Layout::parse(text, DISK).map_err(|e| e.to_string())?;
    let disk = Params::preset("hdd7200", DISK).map_err(|e| e.to_string())?;
    let film = viewer(25)?;
    let mut viewers = Vec::new();
    for count in [1, 2, 3, 4, 6, 8] {
        viewers.push(where_reads_go(&layout, &disk, count, &film)?);
    }
    let rate = |request, depth| read_rate(&layout, &disk, request, depth, 512 * M).map_err(|e| e.to_string());
    Ok(json!({
        "layout": text, "disks": layout.disks(), "columns": layout.columns(), "copies": layout.copies(), "policy": layout.policy().about(),
        "size_share": layout.size_bytes() as f64 / (DISK as f64 * layout.disks() as f64),
        "viewers": viewers,
        "fit_25": fits(&layout, &disk, &film)?,
        "fit_25_pessimistic": fits(&layout, &disk.clone().pessimistic(), &film)?,
        "fit_80": fits(&layout, &disk, &viewer(80)?)?,
        "read_512k": rate(512 * K, 1)?, "read_1m_q8": rate(M, 8)?, "read_8m": rate(8 * M, 1)?,
        "write_64k": write_rate(&layout, &disk, 64 * K, 64 * M), "write_512k": write_rate(&layout, &disk, 512 * K, 256 * M),
        "write_1m": write_rate(&layout, &disk, M, 256 * M), "write_row": write_rate(&layout, &disk, 12 * M, 768 * M),
    }))
}

/// Prints all of it.
///
/// # Errors
/// A layout that the simulator refuses.
pub fn print() -> Result<(), String> {
    let rows: Vec<Value> = LAYOUTS.iter().map(|text| of(text)).collect::<Result<_, _>>()?;
    println!("{}", json!({ "layouts": rows }));
    Ok(())
}
