//! One scan, phase after phase.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::diff::{self, Diff, Known};
use super::follow::{self, Follower};
use super::identify::{self, Plan};
use super::missing::{self, Look, Why};
use super::persist::{self, Extra, Group, Place, Version};
use super::walk::{self, Class, Seen, Walked};
use super::{Backend, Config, Prober, artwork, moved, probe, side};
use crate::db::uint;
use crate::error::{LibraryError, Result};
use crate::naming;
use crate::repo::libraries::{Root, bytes_of, path_of};
use crate::repo::{items, libraries};
use crate::{Event, Library, LibraryKind, ScanReport};

/// Rows of one transaction: a fraction of a second, so that a watch mark never waits longer.
const BATCH: usize = 500;

/// What a scan works with.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) library: Library,
    pub(super) prober: Arc<dyn Prober>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) config: Config,
    /// Told which folders there are, to watch them.
    pub(super) follower: Option<Arc<Follower>>,
}

/// Scans the library `id`. `stop` ends everything, `hurry` the looking into files.
pub(super) async fn run(
    context: &Context,
    id: &str,
    stop: &CancellationToken,
    hurry: &CancellationToken,
) -> Result<ScanReport> {
    let clock = Arc::clone(&context.library.inner.clock);
    let started_us = clock.monotonic_us();
    let mut report = blocking({
        let (context, id, stop) = (context.clone(), id.to_owned(), stop.clone());
        move || Names::load(context, id, stop)?.run()
    })
    .await?;
    probe::run(context, id, hurry).await?;
    artwork::beside(context, id, hurry).await?;
    let library = id.to_owned();
    let micros = clock.monotonic_us().saturating_sub(started_us);
    report.seconds = Duration::from_micros(micros).as_secs_f64();
    let now_us = clock.unix_us();
    context
        .library
        .write(move |db| {
            let info = libraries::one(db, &library)?;
            report.failed = info.unreadable;
            let warning = (!report.warnings.is_empty()).then(|| report.warnings.join("; "));
            libraries::set_report(db, &library, &report, warning.as_deref(), now_us)?;
            Ok(report)
        })
        .await
}

/// Runs `job` where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(job).await.map_err(|e| LibraryError::Panicked(e.to_string()))?
}

/// The first half of a scan: after it, everything that is there can be browsed by its name.
struct Names {
    context: Context,
    id: String,
    kind: LibraryKind,
    stop: CancellationToken,
    roots: Vec<Root>,
    known: Vec<Known>,
    report: ScanReport,
    /// Roots that were read, with where they are.
    healthy: HashMap<i64, PathBuf>,
    blocked: Vec<(i64, PathBuf)>,
    seen: Vec<Seen>,
    /// Folders that were read, and why not all changes of them are told by the kernel.
    folders: Vec<PathBuf>,
    unseen: Option<String>,
}

impl Names {
    fn load(context: Context, id: String, stop: CancellationToken) -> Result<Self> {
        let (kind, roots, known) = context.library.read_blocking({
            let id = id.clone();
            move |db| Ok((libraries::kind(db, &id)?, libraries::roots(db, &id)?, load_known(db, &id)?))
        })?;
        Ok(Self {
            context,
            id,
            kind,
            stop,
            roots,
            known,
            report: ScanReport::default(),
            healthy: HashMap::new(),
            blocked: Vec::new(),
            seen: Vec::new(),
            folders: Vec::new(),
            unseen: None,
        })
    }

    fn run(mut self) -> Result<ScanReport> {
        let begun_us = self.context.library.now_us();
        let roots = std::mem::take(&mut self.roots);
        for root in &roots {
            self.walk(root)?;
        }
        self.follow(&roots, begun_us);
        self.settle();
        if self.stop.is_cancelled() {
            return Err(LibraryError::Unavailable("the scan was stopped".to_owned()));
        }
        self.progress("walk", self.seen.len(), self.seen.len());

        // Of roots that were not read nothing is known to have changed.
        let known: Vec<Known> =
            self.known.iter().filter(|k| self.healthy.contains_key(&k.root)).cloned().collect();
        let mut diff = diff::diff(&known, &self.seen);
        let gone: Vec<&Known> = diff
            .gone
            .iter()
            .map(|i| &known[*i])
            .chain(self.known.iter().filter(|k| !self.healthy.contains_key(&k.root) && k.missing.is_some()))
            .collect();
        let moves = moved::find(&self.context, &self.healthy, &gone, &self.seen, &diff.new)?;
        let moved_to: HashSet<usize> = moves.iter().map(|(_, at)| *at).collect();
        let moved: HashSet<i64> = moves.iter().map(|(pk, _)| *pk).collect();
        diff.new.retain(|at| !moved_to.contains(at));
        self.count(&diff, &moves);

        let marks = self.marks(&known, &diff, &moved);
        self.write_files(&diff, &moves, &marks)?;
        let fresh: BTreeSet<usize> = diff.new.iter().copied().chain(moved_to.iter().copied()).collect();
        let at =
            Place { library: self.id.clone(), now_us: self.context.library.now_us(), moved: Arc::new(moved) };
        self.write_items(&fresh, &at)?;
        if !fresh.is_empty() || !marks.is_empty() || !diff.back.is_empty() {
            self.write_subtitles()?;
        }
        let touched = !fresh.is_empty()
            || !marks.is_empty()
            || !diff.back.is_empty()
            || !diff.changed.is_empty()
            || !diff.suspect.is_empty();
        self.close(touched)?;
        Ok(self.report)
    }

    /// From here on changes of what was walked are noticed.
    fn follow(&mut self, roots: &[Root], begun_us: i64) {
        let Some(follower) = &self.context.follower else { return };
        if self.stop.is_cancelled() {
            return;
        }
        follower.follow(follow::Seen {
            library: self.id.clone(),
            kind: self.kind,
            roots: roots.iter().map(|r| r.path.clone()).collect(),
            folders: std::mem::take(&mut self.folders),
            unseen: self.unseen.take(),
            begun_us,
        });
    }

    fn progress(&self, phase: &'static str, done: usize, total: usize) {
        self.context.library.emit(Event::ScanProgress {
            library: self.id.clone(),
            phase,
            done: done as u64,
            total: total as u64,
        });
    }

    /// Reads one root, or takes it as absent with all that is known of it.
    fn walk(&mut self, root: &Root) -> Result<()> {
        let walked =
            walk::walk(root.pk, &root.path, self.kind, &self.stop).and_then(|w| self.present(root, w));
        match walked {
            Ok(walked) => {
                self.report.warnings.extend(walked.warnings);
                self.blocked.extend(walked.blocked.into_iter().map(|below| (root.pk, below)));
                self.seen.extend(walked.files);
                self.folders.extend(walked.folders);
                if self.unseen.is_none() {
                    self.unseen = follow::unseen(&root.path);
                }
                self.healthy.insert(root.pk, root.path.clone());
                let (pk, dev) = (root.pk, walked.dev);
                let health = move |db: &Connection| libraries::set_root_health(db, pk, Some(dev), None);
                if root.is_lost {
                    // Who shows that it is away must hear that it is back, also where no file changed.
                    self.context.library.change_blocking(health)?;
                } else if root.dev != Some(dev) {
                    self.context.library.inner.db.write_blocking(health)?;
                }
            }
            Err(_) if self.stop.is_cancelled() => {}
            Err(reason) => {
                let shown = root.path.display();
                self.unseen.get_or_insert_with(|| {
                    format!("`{shown}` is not there, and nobody tells when it comes back")
                });
                self.lost(root, reason)?;
            }
        }
        Ok(())
    }

    fn present(&self, root: &Root, walked: Walked) -> std::result::Result<Walked, String> {
        let had: HashSet<&Path> = self
            .known
            .iter()
            .filter(|k| k.root == root.pk && k.class.is_media() && k.missing != Some(Why::File))
            .map(|k| k.path.as_path())
            .collect();
        let found = walked.files.iter().filter(|s| had.contains(s.path.as_path())).count();
        let look = Look {
            known: had.len(),
            found,
            entries: walked.entries,
            same_dev: root.dev.is_none_or(|dev| dev == walked.dev),
        };
        if missing::vanished(look) {
            return Err(format!(
                "folder `{}` is there but its files are not: is a disk or share not mounted?",
                root.path.display()
            ));
        }
        Ok(walked)
    }

    fn lost(&mut self, root: &Root, reason: String) -> Result<()> {
        let marks: Vec<i64> = self
            .known
            .iter()
            .filter(|k| k.root == root.pk && k.missing.is_none_or(|why| why == Why::Folder))
            .map(|k| k.pk)
            .collect();
        tracing::warn!(
            library.id = self.id,
            reason,
            files = marks.len(),
            "a library folder is not available"
        );
        self.report.warnings.push(reason.clone());
        let (pk, id, now_us) = (root.pk, self.id.clone(), self.context.library.now_us());
        self.context.library.change_blocking(move |db| {
            libraries::set_root_health(db, pk, None, Some(&reason))?;
            for file in &marks {
                missing::mark(db, *file, Why::Root, now_us)?;
            }
            items::refresh(db, &id)
        })
    }

    /// Takes files out that someone still writes. Waits at most the settling time, and only
    /// where a file changed within it.
    fn settle(&mut self) {
        let settle_us = i64::try_from(self.context.config.settle.as_micros()).unwrap_or(i64::MAX);
        let now_us = self.context.library.now_us();
        let age_us = |s: &Seen| now_us.saturating_sub(s.mtime_ns / 1_000);
        let Some(youngest) = self.seen.iter().map(age_us).filter(|age| (0..settle_us).contains(age)).min()
        else {
            return;
        };
        let fresh: Vec<usize> =
            (0..self.seen.len()).filter(|i| (0..settle_us).contains(&age_us(&self.seen[*i]))).collect();
        std::thread::sleep(Duration::from_micros(uint(settle_us - youngest)));
        let growing: HashSet<usize> =
            fresh.into_iter().filter(|i| self.changed_since(&self.seen[*i])).collect();
        self.report.incoming = growing.len() as u64;
        let mut at = 0;
        self.seen.retain(|_| {
            at += 1;
            !growing.contains(&(at - 1))
        });
    }

    fn changed_since(&self, file: &Seen) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Some(root) = self.healthy.get(&file.root) else { return false };
        std::fs::metadata(root.join(&file.path)).is_ok_and(|m| {
            let mtime_ns = m.mtime().saturating_mul(1_000_000_000).saturating_add(m.mtime_nsec());
            m.len() != file.size_bytes || mtime_ns != file.mtime_ns
        })
    }

    fn count(&mut self, diff: &Diff, moves: &[(i64, usize)]) {
        let media = |at: &usize| self.seen[*at].class.is_media();
        let files = self.seen.iter().filter(|s| s.class.is_media()).count() as u64;
        let added = diff.new.iter().filter(|at| media(at)).count() as u64;
        let changed = diff.changed.iter().map(|(_, at)| at).chain(moves.iter().map(|(_, at)| at));
        let updated = changed.filter(|at| media(at)).count() as u64;
        self.report.files = files;
        self.report.added = added;
        self.report.updated = updated;
        self.report.unchanged = files - added - updated;
    }

    /// Which files were not found, and why; only where that is news.
    fn marks(&self, known: &[Known], diff: &Diff, moved: &HashSet<i64>) -> Vec<(i64, Why)> {
        diff.gone
            .iter()
            .map(|i| &known[*i])
            .filter(|k| !moved.contains(&k.pk))
            .map(|k| {
                let blocked =
                    self.blocked.iter().any(|(root, below)| *root == k.root && k.path.starts_with(below));
                // A file that grows right now was taken out of what was seen; it is not gone.
                (k, if blocked { Why::Folder } else { Why::File })
            })
            .filter(|(k, why)| k.missing != Some(*why))
            .filter(|(k, _)| self.report.incoming == 0 || !self.is_there(k))
            .map(|(k, why)| (k.pk, why))
            .collect()
    }

    fn is_there(&self, known: &Known) -> bool {
        self.healthy.get(&known.root).is_some_and(|root| root.join(&known.path).exists())
    }

    fn write_files(&mut self, diff: &Diff, moves: &[(i64, usize)], marks: &[(i64, Why)]) -> Result<()> {
        let now_us = self.context.library.now_us();
        let mut work: Vec<Change> = Vec::new();
        // Room first: a path that another file moves to must be free.
        work.extend(moves.iter().map(|(pk, at)| Change::Update(*pk, self.seen[*at].clone(), None)));
        work.extend(marks.iter().map(|(pk, why)| Change::Missing(*pk, *why)));
        work.extend(diff.back.iter().map(|pk| Change::Back(*pk)));
        work.extend(
            diff.suspect.iter().map(|(pk, at)| Change::Update(*pk, self.seen[*at].clone(), Some("verify"))),
        );
        work.extend(
            diff.changed.iter().map(|(pk, at)| Change::Update(*pk, self.seen[*at].clone(), Some("pending"))),
        );
        work.extend(diff.new.iter().map(|at| Change::New(self.seen[*at].clone())));
        let total = work.len();
        let mut done = 0;
        while !work.is_empty() {
            if self.stop.is_cancelled() {
                return Err(LibraryError::Unavailable("the scan was stopped".to_owned()));
            }
            let batch: Vec<Change> = work.drain(..work.len().min(BATCH)).collect();
            done += batch.len();
            self.context.library.inner.db.write_blocking(move |db| {
                for change in &batch {
                    change.write(db, now_us)?;
                }
                Ok(())
            })?;
            self.progress("identify", done, total * 2);
        }
        Ok(())
    }

    /// Groups the files of every folder in which something is new and writes what they make.
    fn write_items(&self, fresh: &BTreeSet<usize>, at: &Place) -> Result<()> {
        let mut folders: BTreeMap<(i64, PathBuf), Vec<usize>> = BTreeMap::new();
        for i in fresh.iter().filter(|i| self.seen[**i].class.is_media()) {
            let file = &self.seen[*i];
            folders.entry((file.root, folder(&file.path).to_owned())).or_default();
        }
        for (i, file) in self.seen.iter().enumerate().filter(|(_, s)| s.class.is_media()) {
            if let Some(list) = folders.get_mut(&(file.root, folder(&file.path).to_owned())) {
                list.push(i);
            }
        }
        let (mut groups, mut extras) = (Vec::new(), Vec::new());
        let total = folders.len();
        for (done, files) in folders.values().enumerate() {
            self.group(files, fresh, &mut groups, &mut extras);
            if groups.len() >= BATCH {
                self.write_groups(std::mem::take(&mut groups), at)?;
                self.progress("identify", done, total);
            }
        }
        self.write_groups(groups, at)?;
        self.write_extras(&extras, at)
    }

    fn group(
        &self,
        files: &[usize],
        fresh: &BTreeSet<usize>,
        groups: &mut Vec<Group>,
        extras: &mut Vec<(usize, naming::Extra)>,
    ) {
        let hint = identify::hint(self.kind);
        let (videos, others): (Vec<usize>, Vec<usize>) =
            files.iter().partition(|i| self.seen[**i].class == Class::Video);
        for i in others.iter().filter(|i| fresh.contains(i)) {
            let file = &self.seen[*i];
            let identity = naming::identify(&file.path.to_string_lossy(), hint);
            let plan = identify::plan(&identity, &file.path, file.class, self.kind);
            let parts = vec![(file.root, file.path.clone())];
            groups.push(Group { plan, versions: vec![Version { label: None, edition: None, parts }] });
        }
        let names: Vec<String> =
            videos.iter().map(|i| self.seen[*i].path.to_string_lossy().into_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for item in naming::group::group(&names, hint) {
            let all = || item.versions.iter().flat_map(|v| &v.parts).filter_map(|p| videos.get(*p).copied());
            if !all().any(|i| fresh.contains(&i)) {
                continue;
            }
            if let Some(extra) = item.extra {
                extras.extend(all().map(|i| (i, extra)));
                continue;
            }
            let Some(first) = all().next() else { continue };
            let file = &self.seen[first];
            let plan: Plan = identify::plan(&item.identity, &file.path, file.class, self.kind);
            let versions = item
                .versions
                .iter()
                .map(|v| {
                    let parts: Vec<usize> = v.parts.iter().filter_map(|p| videos.get(*p).copied()).collect();
                    let edition = parts
                        .first()
                        .and_then(|i| naming::identify(&self.seen[*i].path.to_string_lossy(), hint).edition);
                    // What braces mark is called by what they say.
                    let marked = edition.clone().filter(|_| v.name.contains("{edition-"));
                    Version {
                        label: marked.or_else(|| Some(v.name.clone()).filter(|n| !n.trim().is_empty())),
                        edition,
                        parts: parts
                            .iter()
                            .map(|i| (self.seen[*i].root, self.seen[*i].path.clone()))
                            .collect(),
                    }
                })
                .collect();
            groups.push(Group { plan, versions });
        }
    }

    fn write_groups(&self, groups: Vec<Group>, at: &Place) -> Result<()> {
        let at = at.clone();
        self.in_batches(groups, move |db, group| persist::place(db, &at, group))
    }

    /// Writes rows some at a time: others write between, and a transaction's own journal, through which SQLite walks with each
    /// statement, stays short (50,000 in one took minutes).
    fn in_batches<T: Send + 'static>(
        &self,
        mut rows: Vec<T>,
        write: impl Fn(&Connection, &T) -> Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        while !rows.is_empty() {
            if self.stop.is_cancelled() {
                return Err(LibraryError::Unavailable("the scan was stopped".to_owned()));
            }
            let rest = rows.split_off(rows.len().min(BATCH));
            let (batch, write) = (std::mem::replace(&mut rows, rest), write.clone());
            self.context
                .library
                .change_blocking(move |db| batch.iter().try_for_each(|row| write(db, row)))?;
        }
        Ok(())
    }

    fn write_extras(&self, extras: &[(usize, naming::Extra)], at: &Place) -> Result<()> {
        if extras.is_empty() {
            return Ok(());
        }
        let are_extras: HashSet<usize> = extras.iter().map(|(i, _)| *i).collect();
        let mut list = Vec::new();
        let mut samples = Vec::new();
        for (i, extra) in extras {
            let file = &self.seen[*i];
            if *extra == naming::Extra::Sample {
                samples.push((file.root, file.path.clone()));
                continue;
            }
            let (near, of_series) = self.near(file, &are_extras);
            list.push(Extra {
                root: file.root,
                path: file.path.clone(),
                word: extra_word(*extra),
                title: identify::stem(&file.path),
                near,
                of_series,
            });
        }
        let at = at.clone();
        self.in_batches(list, move |db, extra| persist::place_extra(db, &at, extra))?;
        self.in_batches(samples, |db, (root, path)| {
            db.prepare_cached("UPDATE files SET probe = 'none', art = 'done' WHERE root = ?1 AND path = ?2")?
                .execute((root, bytes_of(path)))?;
            Ok(())
        })
    }

    /// Files of works that an extra may belong to: beside it, else in the folders above; of
    /// several the one whose name it begins with. The flag: it is of the series as a whole.
    fn near(&self, extra: &Seen, extras: &HashSet<usize>) -> (Vec<PathBuf>, bool) {
        let hint = identify::hint(self.kind);
        let is_work = |i: usize, s: &Seen| {
            s.root == extra.root
                && s.class == Class::Video
                && !extras.contains(&i)
                && naming::identify(&s.path.to_string_lossy(), hint).extra.is_none()
        };
        let name = identify::stem(&extra.path);
        for (level, above) in extra.path.ancestors().skip(1).take(3).enumerate() {
            let mut here: Vec<&Seen> = self
                .seen
                .iter()
                .enumerate()
                .filter(|(_, s)| folder(&s.path) == above)
                .filter(|(i, s)| is_work(*i, s))
                .map(|(_, s)| s)
                .collect();
            if here.is_empty() {
                continue;
            }
            here.sort_by_key(|s| std::cmp::Reverse(s.path.as_os_str().len()));
            if let Some(named) = here.iter().find(|s| name.starts_with(&identify::stem(&s.path))) {
                return (vec![named.path.clone()], false);
            }
            let series = self.kind == LibraryKind::Tv;
            // In a folder of many films an extra that is named for none belongs to none.
            let shared = folder(&extra.path) == above && level == 0 && here.len() > 1;
            if shared && !series {
                return (Vec::new(), false);
            }
            return (here.iter().map(|s| s.path.clone()).collect(), series);
        }
        // `Show/Extras/x.mkv` beside `Show/Season 1/…`.
        let above = extra.path.parent().and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
        let below = above.and_then(|above| {
            self.seen
                .iter()
                .enumerate()
                .find(|(i, s)| s.path.starts_with(above) && is_work(*i, s))
                .map(|(_, s)| s)
        });
        (below.map(|s| s.path.clone()).into_iter().collect(), true)
    }

    fn write_subtitles(&self) -> Result<()> {
        let attached = side::attach(&self.seen);
        if attached.is_empty() {
            return Ok(());
        }
        self.context.library.inner.db.write_blocking(move |db| {
            for a in &attached {
                let side = serde_json::to_string(&a.side)
                    .map_err(|e| LibraryError::Damaged { what: "subtitle file", reason: e.to_string() })?;
                let owner = match &a.film {
                    Some(film) => persist::file_key(db, a.root, film)?,
                    None => None,
                };
                db.prepare_cached(
                    "UPDATE files SET owner = ?3, side = ?4 WHERE root = ?1 AND path = ?2
                     AND (owner IS NOT ?3 OR side IS NOT ?4)",
                )?
                .execute((a.root, bytes_of(&a.path), owner, side))?;
            }
            Ok(())
        })
    }

    /// Takes out what was gone for too long, and brings the columns of parents up to date.
    fn close(&mut self, touched: bool) -> Result<()> {
        let grace_us = i64::try_from(self.context.config.grace.as_micros()).unwrap_or(i64::MAX);
        let before_us = self.context.library.now_us().saturating_sub(grace_us);
        let (id, roots): (String, Vec<i64>) = (self.id.clone(), self.healthy.keys().copied().collect());
        let expired = self.context.library.read_blocking({
            let id = id.clone();
            move |db| {
                Ok(db
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM roots r JOIN files f ON f.root = r.pk WHERE r.library = ?1
                         AND f.missing_why = 'file' AND (f.missing_since < ?2 OR f.class IN ('subtitle', 'picture', 'nfo')))",
                    )?
                    .query_row((id, before_us), |r| r.get::<_, bool>(0))?)
            }
        })?;
        if touched || expired {
            self.report.removed = self.context.library.change_blocking({
                let id = id.clone();
                move |db| {
                    let mut removed = 0;
                    for root in &roots {
                        removed += missing::purge(db, *root, before_us)?;
                    }
                    items::drop_childless(db, &id)?;
                    items::refresh(db, &id)?;
                    Ok(removed)
                }
            })?;
        }
        self.report.unavailable = self.context.library.read_blocking(move |db| {
            let n: i64 = db
                .prepare_cached(
                    "SELECT count(*) FROM roots r JOIN files f ON f.root = r.pk WHERE r.library = ?1
                     AND f.missing_since IS NOT NULL AND f.class IN ('video', 'audio', 'photo')",
                )?
                .query_row([id], |r| r.get(0))?;
            Ok(uint(n))
        })?;
        Ok(())
    }
}

/// One file's change of a scan.
enum Change {
    Update(i64, Seen, Option<&'static str>),
    Missing(i64, Why),
    Back(i64),
    New(Seen),
}

impl Change {
    fn write(&self, db: &rusqlite::Connection, now_us: i64) -> Result<()> {
        match self {
            Self::Update(pk, file, probe) => persist::update_file(db, *pk, file, *probe),
            Self::Missing(pk, why) => missing::mark(db, *pk, *why, now_us),
            Self::Back(pk) => persist::mark_back(db, *pk),
            Self::New(file) => persist::insert_file(db, file, now_us),
        }
    }
}

/// The word of the wire for an extra.
fn extra_word(extra: naming::Extra) -> &'static str {
    use naming::Extra as E;
    match extra {
        E::Trailer => "trailer",
        E::Sample => "sample",
        E::Scene => "scene",
        E::Clip => "clip",
        E::DeletedScene => "deletedscene",
        E::Interview => "interview",
        E::BehindTheScenes => "behindthescenes",
        E::Featurette => "featurette",
        E::Short => "short",
        E::ThemeSong => "theme_song",
        E::ThemeVideo => "theme_video",
        E::Extra => "extra",
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn load_known(db: &rusqlite::Connection, library: &str) -> Result<Vec<Known>> {
    let mut statement = db.prepare_cached(
        "SELECT f.pk, f.root, f.path, f.class, f.size_bytes, f.mtime_ns, f.ino, f.missing_why, f.fingerprint
         FROM roots r JOIN files f ON f.root = r.pk WHERE r.library = ?1",
    )?;
    let rows = statement
        .query_map([library], |r| {
            let class: String = r.get(3)?;
            Ok(Known {
                pk: r.get(0)?,
                root: r.get(1)?,
                path: path_of(r.get_ref(2)?.as_blob()?).to_owned(),
                class: Class::parse(&class).unwrap_or(Class::Video),
                size_bytes: uint(r.get(4)?),
                mtime_ns: r.get(5)?,
                ino: r.get::<_, i64>(6)?.cast_unsigned(),
                missing: r.get::<_, Option<String>>(7)?.map(|w| Why::parse(&w)),
                fingerprint: r.get(8)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}
