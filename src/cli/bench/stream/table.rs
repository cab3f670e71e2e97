//! A record of streams for people. From the saved record alone, so that `spindle bench show` prints the same.

use std::fmt::Write as _;

use serde_json::Value;
use spindle_bench::Record;

use super::super::table::Table;
use crate::cli::human_bytes;

/// Scenario, films, streams with their disks, whole disks, the system.
pub(in crate::cli::bench) fn text(record: &Record) -> String {
    let mut out = String::new();
    let detail = |name: &str| record.details.get(name).unwrap_or(&Value::Null);
    let mut line = |text: String| {
        let _infallible = writeln!(out, "{text}");
    };
    let pace = if detail("pace") == "full_speed" { "as fast as it goes" } else { "at the films' bitrates" };
    line(format!("{}: {}; {} s, {pace}", word(detail("scenario")), word(detail("about")), detail("seconds")));
    for (n, film) in (1..).zip(list(detail("films"))) {
        line(format!(
            "film {n}: {}, {}, {:.1} Mbit/s",
            word(&film["file"]),
            size(&film["size_bytes"]),
            figure(&film["bitrate_bps"]) / 1e6
        ));
    }
    for stream in list(detail("streams")) {
        line(stream_line(stream));
    }
    out.push_str(&disks_of_streams(record));
    out.push_str(&whole_disks(detail("disks")));
    let (striping, system) = (detail("striping"), detail("system"));
    let _infallible = writeln!(
        out,
        "columns used {} of {}, evenness {:.2}",
        striping["columns_used"],
        striping["columns"],
        figure(&striping["evenness"])
    );
    let cpu: Vec<f64> = list(&detail("counters")["cpu_share"]).iter().map(figure).collect();
    #[expect(clippy::cast_precision_loss, reason = "a mean of some hundred values")]
    let mean = cpu.iter().sum::<f64>() / cpu.len().max(1) as f64;
    let names: Vec<String> = list(&system["disks"]).iter().map(word).collect();
    let on = if names.is_empty() { "its disk is not known".to_owned() } else { names.join(", ") };
    let _infallible = writeln!(
        out,
        "data folder ({on}): {} read, {} written; {mean:.2} processors at work",
        size(&system["read_bytes"]),
        size(&system["write_bytes"])
    );
    out
}

fn stream_line(stream: &Value) -> String {
    let io = &stream["record"];
    let asked = list(&stream["asked"]);
    let firsts: Vec<String> =
        asked.iter().take(5).filter_map(|a| Some(format!("{} ms", a["first_byte_ms"].as_u64()?))).collect();
    let more = if asked.len() > 5 { " .." } else { "" };
    let waits: f64 = list(&stream["waits"])
        .iter()
        .filter(|w| w["why"] != "stall")
        .map(|w| figure(&w["duration_ms"]))
        .sum();
    let stalls = match stream["stalls"].as_u64() {
        Some(0) | None => "no stall".to_owned(),
        Some(1) => format!("one stall of {:.1} s", figure(&stream["stalled_ms"]) / 1000.0),
        Some(n) => format!("{n} stalls of {:.1} s together", figure(&stream["stalled_ms"]) / 1000.0),
    };
    let failed = stream["failed"].as_str().map(|why| format!("; ended early: {why}")).unwrap_or_default();
    format!(
        "stream {}: film {}, {}: {} received, {} read from disks, {} from memory; first bytes after {}{more}; {:.1} s until it played, {stalls}{failed}",
        stream["stream"],
        stream["film"],
        word(&stream["method"]).replace('_', " "),
        size(&stream["received_bytes"]),
        size(&io["read_bytes"]),
        human_bytes(
            io["cached_bytes"].as_u64().unwrap_or(0) + io["input_cached_bytes"].as_u64().unwrap_or(0)
        ),
        if firsts.is_empty() { "-".to_owned() } else { firsts.join(" ") },
        waits / 1000.0,
    )
}

fn disks_of_streams(record: &Record) -> String {
    let mut table =
        Table::new(&["disk", "stream", "read", "share", "requests", "mean", "in order", "p50", "p95", "p99"]);
    for row in &record.rows {
        table.row(vec![
            word(&row["disk"]),
            row["stream"].to_string(),
            size(&row["read_bytes"]),
            percent(&row["share"]),
            row["reads"].to_string(),
            size(&row["mean_request_bytes"]),
            percent(&row["sequential_share"]),
            millis(&row["p50_us"]),
            millis(&row["p95_us"]),
            millis(&row["p99_us"]),
        ]);
    }
    table.to_string()
}

fn whole_disks(disks: &Value) -> String {
    let mut table =
        Table::new(&["disk", "read in all", "for streams", "metadata", "others", "written", "busy"]);
    for d in list(disks) {
        table.row(vec![
            word(&d["disk"]),
            size(&d["total_read_bytes"]),
            size(&d["stream_bytes"]),
            size(&d["metadata_bytes"]),
            size(&d["others_bytes"]),
            size(&d["total_write_bytes"]),
            percent(&d["busy_share"]),
        ]);
    }
    table.to_string()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn size(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), human_bytes)
}

fn percent(value: &Value) -> String {
    format!("{:.0} %", figure(value) * 100.0)
}

fn millis(us: &Value) -> String {
    format!("{:.1} ms", figure(us) / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use spindle_base::clock::{ManualClock, SharedClock};
    use spindle_bench::Kind;

    use super::*;

    #[test]
    fn a_record_is_told_from_what_is_kept_and_one_that_lacks_everything_too() {
        let clock: SharedClock = Arc::new(ManualClock::at(0));
        let mut record = Record::begin(Kind::Stream, &clock);
        assert!(text(&record).starts_with("-: -; null s"), "{}", text(&record));
        record.detail("scenario", &"single");
        record.detail("about", &"one film from its beginning");
        record.detail("seconds", &30);
        record.detail("films", &json!([{"file": "/f.mkv", "size_bytes": 1 << 30, "bitrate_bps": 8_000_000}]));
        record.detail("streams", &json!([{
            "stream": 1, "film": 1, "method": "direct_play", "received_bytes": 1 << 20, "stalls": 2, "stalled_ms": 1500,
            "asked": [{"first_byte_ms": 31}], "waits": [{"why": "start", "duration_ms": 400}, {"why": "stall", "duration_ms": 1500}],
            "record": {"read_bytes": 2 << 20, "cached_bytes": 0},
        }]));
        record.row(&json!({"disk": "sda", "stream": 1, "read_bytes": 2 << 20, "share": 1.0, "reads": 2, "mean_request_bytes": 1 << 20,
            "sequential_share": 0.5, "p50_us": 12_000, "p95_us": 13_000, "p99_us": 13_000}));
        record.detail("disks", &json!([{"disk": "sda", "total_read_bytes": 3 << 20, "stream_bytes": 2 << 20, "busy_share": 0.25}]));
        record.detail("striping", &json!({"columns": 1, "columns_used": 1, "evenness": 1.0}));
        let told = text(&record);
        for part in [
            "single: one film from its beginning; 30 s, at the films' bitrates",
            "film 1: /f.mkv, 1.0 GiB, 8.0 Mbit/s",
            "stream 1: film 1, direct play: 1.0 MiB received, 2.0 MiB read from disks, 0 B from memory; first bytes after 31 ms; 0.4 s until it played, 2 stalls of 1.5 s together",
            "sda        1  2.0 MiB  100 %         2  1.0 MiB      50 %  12.0 ms  13.0 ms  13.0 ms",
            "columns used 1 of 1, evenness 1.00",
        ] {
            assert!(told.contains(part), "`{part}` is missing:\n{told}");
        }
    }
}
