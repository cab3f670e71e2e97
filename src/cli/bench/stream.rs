//! `spindle bench stream`: what a pool does when people watch films from it. The server that serves televisions runs in this
//! process, on loopback, and viewers ask it by HTTP as televisions do; what is measured is the record that it makes of each stream,
//! and the disks' own counters beside it. Films are only read.

mod client;
mod films;
mod rig;
mod table;
mod watch;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use spindle_base::clock::rfc3339;
use spindle_bench::stream::plan::{Scenario, Viewer, plan};
use spindle_bench::stream::player::Why;
use spindle_bench::stream::series::{Sampler, cpu_us};
use spindle_bench::stream::verdict::{Facts, sharing, verdict};
use spindle_bench::{Kind, Record, machine};
use spindle_storage::{AttributionMode, HelperMode, Node, Storage, Topology};
use tokio::task::JoinSet;

use self::films::Film;
use self::rig::{Rig, RunFolder};
use self::watch::{Room, Watched, watch};
use super::frame::{Consent, Frame};
use crate::cli::serve::Common;
use crate::cli::{Failure, Outcome, complain, human_bytes, named, printable};
use crate::config::Config;
use crate::sessions::IoView;

pub(super) use table::text;

/// Films that are looked at beyond those that are needed: some cannot be read, or are not of use.
const SPARE: usize = 3;
/// How long the disks are watched before, to see what others do.
const LOOK_BEFORE: Duration = Duration::from_secs(2);
/// How long it is waited for what the indexing has read.
const SETTLE_PATIENCE: Duration = Duration::from_secs(5);
/// Interval of the disks' counters.
const SAMPLE_MS: u64 = 500;
/// Others' share of what a disk read that is worth a note.
const NOTED_SHARE: f64 = 0.02;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Films, or folders of which the largest films are taken
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// What people do: single, skip-around, one-file-three-clients, three-files-one-transcode, or all
    #[arg(long, value_name = "NAME", default_value = "all")]
    scenario: String,
    /// How long each scenario takes
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..=3600))]
    seconds: u32,
    /// Viewers read at the film's bitrate (the default)
    #[arg(long, conflicts_with = "full_speed")]
    paced: bool,
    /// Viewers read as fast as it goes
    #[arg(long)]
    full_speed: bool,
    /// Wake disks that sleep
    #[arg(long)]
    wake: bool,
    /// Print the rows as JSON, a line for each scenario
    #[arg(long)]
    json: bool,
}

/// What is measured, and with what.
struct Run<'a> {
    frame: &'a Frame,
    arguments: &'a Arguments,
    rig: &'a Rig,
    /// Drops films from memory.
    storage: Storage,
    topology: Topology,
    /// Disks of all films.
    disks: Vec<String>,
    /// Disks of the data folder.
    system_disks: Vec<String>,
    notes: Vec<String>,
}

pub(super) fn run(data_dir: &Path, arguments: &Arguments) -> Outcome {
    let scenarios = scenarios(&arguments.scenario)?;
    let mut config = config(data_dir)?;
    // What the server says of every session is nobody's question here, and what hinders one is said of the stream.
    config.log_level = config.log_level.min(tracing::Level::ERROR);
    crate::cli::log::start(&config);
    let frame = Frame::open(data_dir)?;
    let storage = crate::examine::storage()?;
    let asked = look(&storage, arguments, data_dir);
    storage.close();
    let (topologies, system_disks) = asked?;
    wake(&topologies, arguments.wake)?;
    let needed = scenarios.iter().map(|s| s.films()).max().unwrap_or(1);
    frame.progress.say("looking for films", "");
    let found = films::find(&arguments.paths, needed + SPARE).map_err(Failure::Failed)?;
    let paths: Vec<PathBuf> = found.candidates.iter().map(|c| c.path.clone()).collect();
    let nothing = |why: &[String]| {
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        Failure::Failed(printable(&format!("there is no film that can be played{why}")))
    };
    if paths.is_empty() {
        return Err(nothing(&found.blocked));
    }
    let folder = RunFolder::make(data_dir)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("spindle-io").build()?;
    let outcome = runtime.block_on(async {
        let rig = Rig::start(&config, folder, &paths).await?;
        let measured = async {
            frame.progress.say("looking at the films", &format!("{} of them", paths.len()));
            let (films, bad) = rig.index(&paths, &frame.stop.token()).await?;
            if films.is_empty() {
                return Err(nothing(&bad));
            }
            let mut disks: Vec<String> = topologies.iter().flat_map(|t| t.disks.clone()).collect();
            disks.sort_unstable();
            disks.dedup();
            let quiet = spindle_storage::Config {
                helper: HelperMode::Off,
                record: false,
                ..spindle_storage::Config::default()
            };
            let mut run = Run {
                frame: &frame,
                arguments,
                rig: &rig,
                storage: Storage::start(quiet, frame.clock.clone())?,
                topology: topologies.first().cloned().ok_or_else(|| nothing(&[]))?,
                disks,
                system_disks,
                notes: bad.into_iter().map(|why| format!("left out: {why}")).collect(),
            };
            run.notes.extend(found.blocked.iter().map(|why| format!("not looked at: {why}")));
            if topologies.len() > 1 {
                run.notes.push(format!(
                    "the paths are on {} volumes; columns are those of the first",
                    topologies.len()
                ));
            }
            let outcome = run.all(&scenarios, &films).await;
            run.storage.close();
            outcome
        };
        let outcome = measured.await;
        frame.progress.say("clearing up", "");
        rig.close().await;
        frame.progress.clear();
        outcome
    });
    // A disk that hangs holds up nobody.
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

fn scenarios(word: &str) -> Result<Vec<Scenario>, Failure> {
    if word == "all" {
        return Ok(Scenario::ALL.to_vec());
    }
    let known = || Scenario::ALL.map(Scenario::name).join(", ");
    let scenario = Scenario::by_name(word).ok_or_else(|| {
        Failure::Usage(printable(&format!("unknown scenario `{word}`; there are {}, and all", known())))
    });
    Ok(vec![scenario?])
}

/// The owner's settings: the server of the experiment reads as theirs does.
fn config(data_dir: &Path) -> Result<Config, Failure> {
    let common = Common { data_dir: Some(data_dir.to_owned()), libraries: Vec::new() };
    common.layers(None)?.build().map_err(|e| Failure::Usage(e.to_string()))
}

/// The volumes under the paths, each once, and the disks under the data folder. Names are looked up, nothing is read.
fn look(
    storage: &Storage,
    arguments: &Arguments,
    data_dir: &Path,
) -> Result<(Vec<Topology>, Vec<String>), Failure> {
    let mut topologies: Vec<Topology> = Vec::new();
    for path in &arguments.paths {
        let topology = storage.topology(path)?;
        if !topologies.iter().any(|t| t.filesystem == topology.filesystem && t.disks == topology.disks) {
            topologies.push(topology);
        }
    }
    // Where that cannot be told, nothing is drawn beside the disks.
    let system = storage.topology(data_dir).map(|t| t.disks).unwrap_or_default();
    Ok((topologies, system))
}

/// Asks before disks that sleep are woken.
fn wake(topologies: &[Topology], wake: bool) -> Outcome {
    let mut asleep = Vec::new();
    for topology in topologies {
        sleepers(&topology.node, &mut asleep);
    }
    asleep.sort_unstable();
    asleep.dedup();
    if asleep.is_empty() || wake {
        return Ok(());
    }
    let who = asleep.join(", ");
    let (sleeps, them) = if asleep.len() == 1 { ("sleeps", "it") } else { ("sleep", "them") };
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{who} {sleeps}; --wake wakes {them}, and nobody is here to be asked"
        )));
    }
    Consent::Ask.ask(&format!("{who} {sleeps}. Wake {them}?"))
}

fn sleepers(node: &Node, out: &mut Vec<String>) {
    if node.disk.asleep == Some(true) {
        out.push(node.name.clone());
    }
    node.children.iter().for_each(|child| sleepers(child, out));
}

impl Run<'_> {
    async fn all(&mut self, scenarios: &[Scenario], films: &[Film]) -> Outcome {
        let mut has_run = false;
        for scenario in scenarios {
            let cast = films::cast(films, scenario.films(), scenario.conversions());
            if cast.len() < scenario.films() {
                let why = format!(
                    "{} needs {} films, and there are {}",
                    scenario.name(),
                    scenario.films(),
                    cast.len()
                );
                if scenarios.len() == 1 {
                    return Err(Failure::Failed(why));
                }
                self.frame.progress.clear();
                complain(&format!("{why}: it is left out"));
                continue;
            }
            if has_run && !self.arguments.json {
                crate::cli::print("\n");
            }
            let record = self.one(*scenario, &cast).await?;
            has_run = true;
            self.frame.finish(record, self.arguments.json)?;
        }
        Ok(())
    }

    async fn one(&self, scenario: Scenario, films: &[Film]) -> Result<Record, Failure> {
        let frame = self.frame;
        let mut record = frame.begin(Kind::Stream);
        let path =
            std::path::absolute(&self.arguments.paths[0]).unwrap_or_else(|_| self.arguments.paths[0].clone());
        record.about(&path, &self.topology);
        record.notes.clone_from(&self.notes);
        frame.progress.say(scenario.name(), "dropping the films from memory");
        self.cool(films, &mut record).await;
        frame.progress.say(scenario.name(), "looking at what others do");
        self.look_before(&mut record).await;
        let viewers = plan(scenario, self.arguments.seconds);
        let seconds = u64::from(self.arguments.seconds);
        for film in films {
            #[expect(clippy::cast_precision_loss, reason = "seconds")]
            if film.duration_s < seconds as f64 {
                record.notes.push(format!("{} is over after {:.0} s", named(&film.file), film.duration_s));
            }
        }
        let ran = self.streams(scenario, viewers, films).await;
        self.tell(scenario, films, ran, &mut record);
        Ok(record)
    }

    /// So that disks are read and not memory. Only these films are dropped.
    async fn cool(&self, films: &[Film], record: &mut Record) {
        for film in films {
            let (storage, file) = (self.storage.clone(), film.file.clone());
            let dropped = tokio::task::spawn_blocking(move || storage.drop_from_memory(&file)).await;
            let name = named(&film.file);
            match dropped {
                Ok(Ok(Some(0))) => {}
                Ok(Ok(Some(left))) => record.notes.push(format!(
                    "{} of {name} stay in memory all the same: what another program has mapped, say",
                    human_bytes(left)
                )),
                Ok(Ok(None)) => record
                    .notes
                    .push(format!("whether {name} was dropped from memory whole is told to its owner alone")),
                Ok(Err(error)) => {
                    record.notes.push(format!("{name} could not be dropped from memory: {error}"))
                }
                Err(error) => record.notes.push(format!("{name} could not be dropped from memory: {error}")),
            }
        }
    }

    /// Waits until what we ourselves began to read is read, then sees what is left.
    async fn look_before(&self, record: &mut Record) {
        let until_us =
            self.frame.clock.monotonic_us() + u64::try_from(SETTLE_PATIENCE.as_micros()).unwrap_or(0);
        let mut last = machine::counters(&self.disks);
        while self.frame.clock.monotonic_us() < until_us && !self.frame.stop.is_requested() {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = machine::counters(&self.disks);
            let is_quiet = now == last;
            last = now;
            if is_quiet {
                break;
            }
        }
        let began_us = self.frame.clock.monotonic_us();
        tokio::select! {
            () = tokio::time::sleep(LOOK_BEFORE) => {}
            () = self.frame.stop.requested() => {}
        }
        let passed_us = self.frame.clock.monotonic_us().saturating_sub(began_us);
        let loads = machine::rates(
            &last,
            &machine::counters(&self.disks),
            Duration::from_micros(passed_us).as_secs_f64(),
        );
        for load in loads.iter().filter(|l| machine::is_busy(l)) {
            record.notes.push(format!(
                "{} was busy before it began: others read {:.1} and wrote {:.1} MB/s, {:.0} requests/s",
                load.disk,
                load.read_bytes_per_s / 1e6,
                load.write_bytes_per_s / 1e6,
                load.requests_per_s
            ));
        }
        record.machine.others_before = loads;
    }

    async fn streams(&self, scenario: Scenario, viewers: Vec<Viewer>, films: &[Film]) -> Ran {
        let clock = self.frame.clock.clone();
        let mut watched: Vec<String> = self.disks.clone();
        watched.extend(self.system_disks.iter().filter(|d| !self.disks.contains(d)).cloned());
        let began_us = clock.monotonic_us();
        let began_unix_us = clock.unix_us();
        let mut sampler = Sampler::begin(
            SAMPLE_MS,
            began_us,
            machine::counters(&watched),
            cpu_us(),
            self.system_disks.clone(),
        );
        let room = Room {
            server: self.rig.server.clone(),
            clock: clock.clone(),
            began_us,
            stop: self.frame.stop.token(),
            is_paced: !self.arguments.full_speed,
        };
        let mut playing = JoinSet::new();
        for (n, viewer) in viewers.iter().enumerate() {
            let (room, viewer, film) = (room.clone(), viewer.clone(), films[viewer.film].clone());
            playing.spawn(async move { (n, watch(room, viewer, film).await) });
        }
        let mut came: Vec<Option<Watched>> = viewers.iter().map(|_| None).collect();
        let mut every = tokio::time::interval(Duration::from_millis(SAMPLE_MS));
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        every.tick().await;
        loop {
            tokio::select! {
                _ = every.tick() => {
                    sampler.look(clock.monotonic_us(), machine::counters(&watched), cpu_us());
                    let at_s = (clock.monotonic_us().saturating_sub(began_us)) / 1_000_000;
                    self.frame.progress.say(scenario.name(), &format!("{at_s} of {} s", self.arguments.seconds));
                }
                ended = playing.join_next() => match ended {
                    Some(Ok((n, watched))) => came[n] = Some(watched),
                    Some(Err(error)) => tracing::error!(%error, "a viewer failed"),
                    None => break,
                },
            }
        }
        let ended_us = clock.monotonic_us();
        sampler.look(ended_us, machine::counters(&watched), cpu_us());
        Ran {
            viewers: viewers.into_iter().zip(came.into_iter().map(Option::unwrap_or_default)).collect(),
            sampler,
            began_us,
            ended_us,
            began_unix_us,
            is_stopped: self.frame.stop.is_requested(),
        }
    }

    /// Makes the record of what came.
    fn tell(&self, scenario: Scenario, films: &[Film], ran: Ran, record: &mut Record) {
        let streams: Vec<Stream> = (1..)
            .zip(&ran.viewers)
            .map(|(n, (viewer, watched))| Stream::of(n, viewer, watched, &films[viewer.film]))
            .collect();
        for stream in &streams {
            stream.rows(scenario, record);
        }
        let sums = Sums::of(&self.disks, &streams, &ran);
        let columns = self.topology.columns;
        let on_disks: Vec<(String, u64)> =
            sums.disks.iter().map(|d| (d.disk.clone(), d.stream_bytes)).collect();
        let shared = sharing(&on_disks, columns);
        record.verdict = format!(
            "{}: {}",
            scenario.name(),
            verdict(&Facts {
                streams: streams.len(),
                disks: &on_disks,
                unattributed_bytes: sums.unattributed_bytes,
                served_bytes: streams.iter().map(|s| s.received_bytes).sum(),
                columns,
                copies: self.topology.copies,
                stalls: (streams.iter().map(|s| s.stalls).sum(), streams.iter().map(|s| s.stalled_ms).sum()),
                others_share: sums.others_share,
            })
        );
        sums.notes(&streams, record);
        record.interrupted = if ran.is_stopped {
            Some(format!(
                "it was stopped after {:.1} s",
                Duration::from_micros(ran.ended_us - ran.began_us).as_secs_f64()
            ))
        } else {
            let failed = streams.iter().find_map(|s| Some((s, s.failed.as_ref()?)));
            failed.map(|(s, why)| {
                let film = films.get(s.film - 1).map(|f| f.file.display().to_string()).unwrap_or_default();
                format!("stream {} of `{film}` ended before its time: {why}", s.stream)
            })
        };
        record.detail("scenario", &scenario.name());
        record.detail("about", &scenario.about());
        record.detail("seconds", &self.arguments.seconds);
        record.detail("pace", &if self.arguments.full_speed { "full_speed" } else { "paced" });
        record.detail("began", &rfc3339(ran.began_unix_us));
        // For whoever joins it with a trace or another clock: CLOCK_MONOTONIC.
        record.detail("clock", &json!({"began_us": ran.began_us, "ended_us": ran.ended_us}));
        record.detail("films", &films);
        record.detail("streams", &streams);
        record.detail("disks", &sums.disks);
        record.detail("unattributed_bytes", &sums.unattributed_bytes);
        record.detail(
            "striping",
            &json!({
                "columns": columns, "copies": self.topology.copies, "columns_used": shared.columns_used,
                "disks_used": shared.disks_used, "evenness": shared.evenness,
            }),
        );
        record.detail("system", &sums.system);
        record.detail("counters", &ran.sampler.end());
    }
}

/// What came of a scenario.
struct Ran {
    viewers: Vec<(Viewer, Watched)>,
    sampler: Sampler,
    began_us: u64,
    ended_us: u64,
    began_unix_us: i64,
    is_stopped: bool,
}

/// One stream in the record.
#[derive(Debug, Serialize)]
struct Stream {
    stream: usize,
    /// Which film, from 1.
    film: usize,
    way: spindle_bench::stream::plan::Way,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    steps: Vec<spindle_bench::stream::plan::Step>,
    received_bytes: u64,
    asked: Vec<watch::Asked>,
    waits: Vec<spindle_bench::stream::player::Wait>,
    stalls: usize,
    stalled_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_record: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<IoView>,
}

impl Stream {
    fn of(stream: usize, viewer: &Viewer, watched: &Watched, film: &Film) -> Self {
        let stalls = || watched.waits.iter().filter(|w| w.why == Why::Stall);
        let mut no_record = watched.no_record.clone();
        let parse = |value: &Value| {
            serde_json::from_value::<IoView>(value.clone()).map_err(|e| no_record = Some(e.to_string()))
        };
        let record = watched.record.as_ref().map(parse).and_then(Result::ok).map(|mut view| {
            // As the owner knows it, not by the link that was played.
            view.file = film.file.to_string_lossy().into_owned();
            view
        });
        Self {
            stream,
            film: viewer.film + 1,
            way: viewer.way,
            method: watched.method.clone(),
            session: watched.session.clone(),
            steps: viewer.steps.clone(),
            received_bytes: watched.received_bytes,
            asked: watched.asked.clone(),
            stalls: stalls().count(),
            stalled_ms: stalls().map(|w| w.duration_ms).sum(),
            waits: watched.waits.clone(),
            failed: watched.failed.as_deref().map(|why| film.by_its_name(why)),
            no_record,
            record,
        }
    }

    /// A row for each disk.
    fn rows(&self, scenario: Scenario, record: &mut Record) {
        for d in self.record.iter().flat_map(|view| &view.record.disks) {
            record.row(&json!({
                "scenario": scenario.name(), "stream": self.stream, "film": self.film, "method": self.method,
                "disk": d.disk, "read_bytes": d.read_bytes, "metadata_bytes": d.metadata_bytes, "share": d.share,
                "reads": d.reads, "mean_request_bytes": d.mean_request_bytes, "sequential_share": d.sequential_share,
                "p50_us": d.latency_us.p50, "p95_us": d.latency_us.p95, "p99_us": d.latency_us.p99, "busy_share": d.busy_share,
            }));
        }
    }
}

/// One disk of the volume.
#[derive(Debug, Serialize)]
struct DiskSum {
    disk: String,
    /// By its own counter, whoever asked.
    total_read_bytes: u64,
    total_write_bytes: u64,
    /// Of films, for the streams.
    stream_bytes: u64,
    /// Of the filesystem's own blocks, for the streams.
    metadata_bytes: u64,
    /// What is left.
    others_bytes: u64,
    /// Share of the time in which it had something to do.
    busy_share: f64,
}

/// What the disks under the data folder did, and the processors.
#[derive(Debug, Serialize)]
struct SystemSum {
    disks: Vec<String>,
    read_bytes: u64,
    write_bytes: u64,
}

struct Sums {
    disks: Vec<DiskSum>,
    system: SystemSum,
    unattributed_bytes: u64,
    others_share: f64,
}

impl Sums {
    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    fn of(disks: &[String], streams: &[Stream], ran: &Ran) -> Self {
        let totals = ran.sampler.totals();
        let elapsed_ms = (ran.ended_us.saturating_sub(ran.began_us) / 1000).max(1);
        let rows = |disk: &str| {
            let its = streams.iter().filter_map(|s| s.record.as_ref()).flat_map(|v| &v.record.disks);
            its.filter(|d| d.disk == disk)
                .fold((0, 0), |sum, d| (sum.0 + d.read_bytes, sum.1 + d.metadata_bytes))
        };
        let sum = |disk: &String| {
            let c = totals.get(disk).copied().unwrap_or_default();
            let (stream_bytes, metadata_bytes) = rows(disk);
            DiskSum {
                disk: disk.clone(),
                total_read_bytes: c.read_bytes,
                total_write_bytes: c.write_bytes,
                stream_bytes,
                metadata_bytes,
                others_bytes: c.read_bytes.saturating_sub(stream_bytes + metadata_bytes),
                busy_share: (c.busy_ms as f64 / elapsed_ms as f64).min(1.0),
            }
        };
        let disks: Vec<DiskSum> = disks.iter().map(sum).collect();
        let unattributed_bytes =
            streams.iter().filter_map(|s| s.record.as_ref()).map(|v| v.record.unattributed_bytes).sum();
        let total: u64 = disks.iter().map(|d| d.total_read_bytes).sum();
        let others: u64 =
            disks.iter().map(|d| d.others_bytes).sum::<u64>().saturating_sub(unattributed_bytes);
        let system_disks = ran.sampler.system_disks();
        let of_system = || system_disks.iter().filter_map(|d| totals.get(d));
        Self {
            system: SystemSum {
                read_bytes: of_system().map(|c| c.read_bytes).sum(),
                write_bytes: of_system().map(|c| c.write_bytes).sum(),
                disks: system_disks.to_vec(),
            },
            disks,
            unattributed_bytes,
            others_share: if total == 0 { 0.0 } else { others as f64 / total as f64 },
        }
    }

    /// What a reader of the figures has to know.
    fn notes(&self, streams: &[Stream], record: &mut Record) {
        if self.others_share >= NOTED_SHARE {
            let others: u64 = self.disks.iter().map(|d| d.others_bytes).sum();
            record.notes.push(format!(
                "others read {} from these disks meanwhile, {:.0} % of all",
                human_bytes(others.saturating_sub(self.unattributed_bytes)),
                self.others_share * 100.0
            ));
        }
        let written: u64 = self.disks.iter().map(|d| d.total_write_bytes).sum();
        if written > 1 << 20 {
            record.notes.push(format!(
                "{} were written to these disks meanwhile, none of it for the streams",
                human_bytes(written)
            ));
        }
        for stream in streams {
            if let Some(why) = &stream.no_record {
                record.notes.push(format!("stream {} has no record: {why}", stream.stream));
            }
            let Some(view) = &stream.record else { continue };
            let io = &view.record;
            if io.attribution != AttributionMode::BlockTrace || io.unattributed_bytes > 0 {
                let mode = match io.attribution {
                    AttributionMode::BlockTrace => "traced",
                    AttributionMode::SampledMap => "placed by the map of the file",
                    AttributionMode::None => "not ascribed to disks",
                };
                let error = io
                    .error_share
                    .map(|e| format!(", within {:.0} % of a disk's bytes", e * 100.0))
                    .unwrap_or_default();
                let why = io.why.as_ref().map(|w| format!(": {w}")).unwrap_or_default();
                record.notes.push(format!("stream {} is {mode}{error}{why}", stream.stream));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_every_scenario_and_a_wrong_name_is_told_the_right_ones() {
        assert!(matches!(scenarios("all"), Ok(all) if all.len() == 4));
        assert!(matches!(scenarios("skip-around").as_deref(), Ok([Scenario::SkipAround])));
        let Err(Failure::Usage(why)) = scenarios("skip\u{1b}[2J") else { panic!("it is none") };
        assert!(why.contains("three-files-one-transcode") && !why.contains('\u{1b}'), "{why}");
    }

    fn disk(name: &str, asleep: Option<bool>) -> Node {
        let mut node = Node { kind: "disk".to_owned(), name: name.to_owned(), ..Node::default() };
        node.disk.asleep = asleep;
        node
    }

    #[test]
    fn a_disk_that_sleeps_is_not_woken_without_being_asked_for() {
        let topology = |asleep| {
            let json = json!({
                "path": "/x", "filesystem": {"kind": "btrfs", "uuid": null, "mount": "/x"},
                "node": {"kind": "btrfs", "name": "pool", "size_bytes": 1, "children": []},
                "columns": 1, "copies": 1, "disks": [], "layout": "simple", "advice": [],
            });
            let mut t: Topology = serde_json::from_value(json).unwrap();
            t.node.children = vec![disk("sda", Some(false)), disk("sdb", asleep)];
            t
        };
        assert!(wake(&[topology(None), topology(Some(false))], false).is_ok(), "not known is no reason");
        assert!(wake(&[topology(Some(true))], true).is_ok());
        // Tests have no terminal.
        if !std::io::stdin().is_terminal() {
            let Err(Failure::Usage(why)) = wake(&[topology(Some(true))], false) else {
                panic!("it was woken")
            };
            assert!(why.starts_with("sdb sleeps; --wake"), "{why}");
        }
    }
}
