//! Records that are kept: list, show, remove.

use std::path::Path;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;
use spindle_bench::copy::CopyRow;
use spindle_bench::net::{Direction, NetRow};
use spindle_bench::pattern::PatternRow;
use spindle_bench::{Kind, Record, Store};

use super::table::Table;
use crate::cli::{Outcome, human_bytes, print, print_json, printable};

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// As `spindle bench list` names it
    id: String,
    /// Print the whole record as JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the rows as comma-separated values
    #[arg(long)]
    csv: bool,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// As `spindle bench list` names it
    id: String,
}

pub(super) fn list(data_dir: &Path, arguments: &ListArguments) -> Outcome {
    let all = Store::in_data_dir(data_dir).list()?;
    if arguments.json {
        return print_json(&all);
    }
    let mut table = Table::new(&["id", "kind", "started", "what came of it"]);
    for row in all {
        let told = match (row.unreadable, row.interrupted) {
            (Some(why), _) => format!("cannot be read: {why}"),
            (None, Some(why)) => format!("interrupted ({why}); {}", row.verdict),
            (None, None) => row.verdict,
        };
        let kind = row.kind.map_or("?", Kind::name).to_owned();
        table.row(vec![row.id, kind, row.started.unwrap_or_default(), told]);
    }
    print(&printable(&table.left(3).to_string()));
    Ok(())
}

pub(super) fn show(data_dir: &Path, arguments: &ShowArguments) -> Outcome {
    let record = Store::in_data_dir(data_dir).get(&arguments.id)?;
    if arguments.json {
        return print_json(&record);
    }
    if arguments.csv {
        print(&record.to_csv());
        return Ok(());
    }
    print(&printable(&text(&record)));
    Ok(())
}

pub(super) fn remove(data_dir: &Path, arguments: &RemoveArguments) -> Outcome {
    Ok(Store::in_data_dir(data_dir).remove(&arguments.id)?)
}

/// A record for people: what it was about, its table, the verdict, and what has to be known.
pub(super) fn text(record: &Record) -> String {
    let mut out = String::new();
    for (path, volume) in [(&record.path, &record.topology), (&record.to, &record.to_topology)] {
        let Some(path) = path else { continue };
        out.push_str(path);
        if let Some(v) = volume {
            let level = v.level.as_deref().map(|l| format!(" {l}")).unwrap_or_default();
            let disks = if v.disks.is_empty() { "no disk of its own".to_owned() } else { v.disks.join(" ") };
            out.push_str(&format!(
                ": {} on {}{level}, {} column(s), {} cop{} ({disks})",
                v.filesystem,
                v.kind,
                v.columns,
                v.copies,
                if v.copies == 1 { "y" } else { "ies" },
            ));
        }
        out.push('\n');
    }
    out.push_str(&rows(record));
    if !record.verdict.is_empty() {
        out.push_str(&format!("{}\n", record.verdict));
    }
    for note in &record.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    if let Some(why) = &record.interrupted {
        out.push_str(&format!("interrupted: {why}\n"));
    }
    out
}

/// The table of a record: its kind's own, or the rows as they are.
fn rows(record: &Record) -> String {
    let own = match record.kind {
        Kind::Corners | Kind::Blocks => patterns(record),
        Kind::Copy => copied(record),
        Kind::Net => flows(record),
        Kind::Stream => Some(super::stream::text(record)),
    };
    own.unwrap_or_else(|| any_rows(record))
}

/// Rows of one type; `None` where another version has written others.
fn typed<T: DeserializeOwned>(record: &Record) -> Option<Vec<T>> {
    record.rows.iter().map(|row| serde_json::from_value(row.clone()).ok()).collect()
}

fn patterns(record: &Record) -> Option<String> {
    let mut table =
        Table::new(&["pattern", "block", "depth", "IOPS", "MB/s", "half ms", "99 % ms", "longest ms"]);
    for row in typed::<PatternRow>(record)? {
        table.row(vec![
            row.pattern.replace('_', " "),
            human_bytes(row.block_bytes),
            row.depth.to_string(),
            format!("{:.1}", row.iops),
            format!("{:.2}", row.bytes_per_s / 1e6),
            format!("{:.2}", row.p50_us / 1e3),
            format!("{:.2}", row.p99_us / 1e3),
            format!("{:.1}", row.max_us / 1e3),
        ]);
    }
    Some(table.to_string())
}

fn copied(record: &Record) -> Option<String> {
    let mut table =
        Table::new(&["", "side", "read MB", "written MB", "MB/s", "busy", "for each byte"]).left(1);
    for row in typed::<CopyRow>(record)? {
        table.row(vec![
            row.name,
            row.side,
            format!("{:.1}", row.read_bytes as f64 / 1e6),
            format!("{:.1}", row.write_bytes as f64 / 1e6),
            format!("{:.1}", row.bytes_per_s / 1e6),
            row.busy_share.map(|b| format!("{:.0} %", b * 100.0)).unwrap_or_default(),
            format!("{:.2}", row.per_byte),
        ]);
    }
    Some(table.to_string())
}

fn flows(record: &Record) -> Option<String> {
    let mut table = Table::new(&["", "connections", "MB/s", "Mbit/s"]);
    for row in typed::<NetRow>(record)? {
        let name = match row.direction {
            Direction::Down => "from the server",
            Direction::Up => "to the server",
        };
        table.row(vec![
            name.to_owned(),
            row.connections.to_string(),
            format!("{:.1}", row.bytes_per_s / 1e6),
            format!("{:.0}", row.bits_per_s / 1e6),
        ]);
    }
    Some(table.to_string())
}

fn any_rows(record: &Record) -> String {
    let mut names: Vec<String> = Vec::new();
    for key in record.rows.iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys) {
        if !names.contains(key) {
            names.push(key.clone());
        }
    }
    let heads: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads);
    for row in &record.rows {
        let cell = |name: &String| match row.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        table.row(names.iter().map(cell).collect());
    }
    table.to_string()
}
