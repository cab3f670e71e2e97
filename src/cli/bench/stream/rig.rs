//! The server of an experiment: the same that serves televisions, in this process, on a loopback port of its own, with a data
//! folder of its own that goes when it ends. The films are links in it; nothing of the owner's is written.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use spindle_base::id::{new_id, random_bytes};
use tokio_util::sync::CancellationToken;

use super::client::Server;
use super::films::Film;
use crate::app::App;
use crate::auth::token::hex;
use crate::config::{Config, LibrarySetting};

/// Folder of the data directory for the folders of runs.
const RUNS: &str = "bench-runs";
/// Held locked by a run while it lasts.
const LOCK: &str = "run.lock";
/// A folder without a lock file is one that is being made, or what a run left that was killed then.
const MAKING: Duration = Duration::from_secs(3600);
/// How long films may be looked at.
const INDEX_PATIENCE: Duration = Duration::from_secs(600);

/// The folder of one run: removed when dropped, and by the next run when this one is killed.
pub(super) struct RunFolder {
    path: PathBuf,
    /// The kernel lets go of it whatever becomes of us.
    _lock: File,
}

impl RunFolder {
    /// Removes what killed runs have left, and makes one.
    pub(super) fn make(data_dir: &Path) -> anyhow::Result<Self> {
        let runs = data_dir.join(RUNS);
        let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(&runs).with_context(|| format!("unable to make `{}`", runs.display()))?;
        sweep(&runs);
        let path = runs.join(new_id());
        let made = make(&path).and_then(|()| {
            let lock = File::options().create_new(true).write(true).open(path.join(LOCK))?;
            match lock.try_lock() {
                // A filesystem without locks: then nothing sweeps within the hour.
                Ok(()) | Err(TryLockError::Error(_)) => Ok(lock),
                Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        match made {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _never_made = fs::remove_dir_all(&path);
                Err(error).with_context(|| format!("unable to make `{}`", path.display()))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // Links are removed, not what they lead to.
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "unable to remove the folder of a run");
        }
        // The last one takes the folder of all with it.
        let _others_are_there = self.path.parent().map(fs::remove_dir);
    }
}

/// Removes folders of runs that are no more.
fn sweep(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_dead = match File::options().write(true).open(path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = entry.metadata().and_then(|m| m.modified()).ok();
                made.and_then(|m| m.elapsed().ok()).is_some_and(|age| age > MAKING)
            }
            Err(_) => false,
        };
        if is_dead && let Err(error) = fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "unable to remove what a run has left");
        }
    }
}

/// The server, and how it is asked.
pub(super) struct Rig {
    pub(super) server: Server,
    stop: CancellationToken,
    serves: tokio::task::JoinHandle<crate::app::Stopped>,
    folder: RunFolder,
}

impl Rig {
    /// Starts it over links to `films`, and signs in. `config`: the owner's settings, so that it reads as their server does.
    pub(super) async fn start(config: &Config, folder: RunFolder, films: &[PathBuf]) -> anyhow::Result<Self> {
        let library = folder.path().join("films");
        for (n, film) in films.iter().enumerate() {
            let place = library.join(title(n));
            fs::create_dir_all(&place).context("unable to make a folder for the links to the films")?;
            let extension = film.extension().map(|e| e.to_string_lossy().to_lowercase());
            let name = format!("{}.{}", title(n), extension.as_deref().unwrap_or("mkv"));
            std::os::unix::fs::symlink(film, place.join(name)).context("unable to link to a film")?;
        }
        let mut config = config.clone();
        config.listen = ([127, 0, 0, 1], 0).into();
        config.data_dir = folder.path().join("data");
        (config.record, config.scan_on_start) = (true, false);
        config.libraries =
            vec![LibrarySetting { kind: "movies".to_owned(), path: library, name: "films".to_owned() }];
        let app = App::build(config).await?;
        let address = app.address();
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serves = tokio::spawn(app.run_until(stopped, std::future::pending()));
        let mut rig = Self { server: Server { address, token: String::new() }, stop, serves, folder };
        // It answers on loopback only, and is gone in minutes; nobody else may look all the same.
        let secret = hex(&random_bytes::<32>());
        let asks = json!({"username": "bench", "password": secret});
        match rig.server.api("POST", "/setup", Some(&asks)).await {
            Ok(answer) => {
                rig.server.token = answer["token"].as_str().unwrap_or_default().to_owned();
                Ok(rig)
            }
            Err(error) => {
                rig.close().await;
                Err(error)
            }
        }
    }

    /// Looks at the films as a scan does. Gives those that can be played, and why the others cannot.
    pub(super) async fn index(
        &self,
        films: &[PathBuf],
        stop: &CancellationToken,
    ) -> anyhow::Result<(Vec<Film>, Vec<String>)> {
        let libraries = self.server.api("GET", "/libraries", None).await?;
        let id = libraries["items"][0]["id"].as_str().context("the server has no library")?.to_owned();
        self.server.api("POST", &format!("/libraries/{id}/scan"), None).await?;
        let settled = async {
            loop {
                let row = self.server.api("GET", "/libraries", None).await?["items"][0].take();
                // Pictures are taken from films behind a scan, and read.
                if row["scanned"].is_string() && row["scanning"] == false && row["taking_pictures"] == false {
                    return Ok::<_, anyhow::Error>(());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => bail!("it was stopped while the films were looked at"),
            settled = tokio::time::timeout(INDEX_PATIENCE, settled) => match settled {
                Ok(done) => done?,
                Err(_) => bail!("the films could not be looked at within {} s", INDEX_PATIENCE.as_secs()),
            },
        }
        let unreadable = self.server.api("GET", &format!("/libraries/{id}/unreadable"), None).await?;
        let mut rows = Vec::new();
        for row in list(&self.server.api("GET", "/items?type=movie&limit=500", None).await?) {
            if let Some(id) = row["id"].as_str() {
                rows.push(self.server.api("GET", &format!("/items/{id}"), None).await?);
            }
        }
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (n, path) in films.iter().enumerate() {
            match film(&title(n), path, &rows, &list(&unreadable)) {
                Ok(film) => good.push(film),
                Err(why) => bad.push(format!("`{}`: {why}", path.display())),
            }
        }
        Ok((good, bad))
    }

    /// Ends it, and removes its folder.
    pub(super) async fn close(self) {
        self.stop.cancel();
        if let Err(error) = self.serves.await {
            tracing::error!(%error, "the server of the experiment did not end well");
        }
        // The folder last: what served has let go of it.
        drop(self.folder);
    }
}

/// Names that no scanner takes for one another: a title and a year.
fn title(n: usize) -> String {
    format!("Bench Film {} ({})", n + 1, 1950 + n)
}

fn list(answer: &Value) -> Vec<Value> {
    answer["items"].as_array().cloned().unwrap_or_default()
}

/// What became of the film in the folder `named`.
fn film(named: &str, path: &Path, items: &[Value], unreadable: &[Value]) -> Result<Film, String> {
    let is_its = |file: &Value| file.as_str().is_some_and(|f| f.starts_with(&format!("{named}/")));
    if let Some(row) = unreadable.iter().find(|r| is_its(&r["file"])) {
        return Err(row["reason"].as_str().unwrap_or("it cannot be read").to_owned());
    }
    let item = items.iter().find(|i| is_its(&i["versions"][0]["file"]));
    Film::of(path, item.ok_or("the server takes it for no film")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_run_goes_with_it_and_what_a_killed_one_left_goes_with_the_next() {
        let data = tempfile::tempdir().unwrap();
        let film = data.path().join("film.mkv");
        fs::write(&film, b"the owner's").unwrap();
        let first = RunFolder::make(data.path()).unwrap();
        std::os::unix::fs::symlink(&film, first.path().join("link.mkv")).unwrap();
        // A killed run: its folder is there and nobody holds its lock.
        let dead = data.path().join(RUNS).join("dead");
        fs::create_dir_all(dead.join("data")).unwrap();
        fs::write(dead.join(LOCK), b"").unwrap();
        // One that is being made at this moment.
        let young = data.path().join(RUNS).join("young");
        fs::create_dir(&young).unwrap();
        let second = RunFolder::make(data.path()).unwrap();
        assert!(!dead.exists() && young.exists() && first.path().exists(), "only the dead one's is removed");
        let (a, b) = (first.path().to_owned(), second.path().to_owned());
        drop(first);
        drop(second);
        assert!(!a.exists() && !b.exists());
        assert_eq!(fs::read(&film).unwrap(), b"the owner's");
        fs::remove_dir(&young).unwrap();
        drop(RunFolder::make(data.path()).unwrap());
        assert!(!data.path().join(RUNS).exists());
    }
}
