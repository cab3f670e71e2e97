//! Whether a folder is a library's already, by another name or as a part of it.
//!
//! A folder belongs to one library: each film of a folder that is in two would be there twice, be looked at twice and be
//! marked as watched once. A path may be spelt in many ways, and links lead to the same place, so the filesystem is asked.

use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

/// How long the filesystem may take to say what a folder is. A share whose server is away never answers: then its name alone
/// is compared.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder, by all that it is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// As it was given, less what changes nothing: `//`, `/./` and a `/` at the end.
    pub(crate) path: PathBuf,
    /// Without links.
    real: PathBuf,
    /// Device and inode: the same for one folder that is mounted at two places.
    id: Option<(u64, u64)>,
}

/// How a new folder lies to one that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is the same.
    Same,
    /// It is below it.
    Inside,
    /// It is above it.
    Around,
    /// Neither holds anything of the other.
    Apart,
}

/// The path without what changes nothing. `..` is kept: behind a link it is not what it looks like.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|c| !matches!(c, Component::CurDir)).collect()
}

impl Folder {
    /// By its name alone.
    pub(crate) fn named(path: &Path) -> Self {
        let path = tidy(path);
        Self { real: path.clone(), path, id: None }
    }

    /// Asks the filesystem, which may never answer.
    fn look(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let named = Self::named(path);
        let Ok(real) = std::fs::canonicalize(path) else { return named };
        let id = std::fs::metadata(&real).ok().map(|m| (m.dev(), m.ino()));
        Self { real, id, ..named }
    }

    pub(crate) fn relation(&self, to: &Self) -> Relation {
        let named = between(&self.path, &to.path);
        let real = between(&self.real, &to.real);
        match (self.id.is_some() && self.id == to.id, real, named) {
            (true, _, _) => Relation::Same,
            (false, Relation::Apart, _) => named,
            (false, real, _) => real,
        }
    }
}

fn between(new: &Path, old: &Path) -> Relation {
    match (new.starts_with(old), old.starts_with(new)) {
        (true, true) => Relation::Same,
        (true, false) => Relation::Inside,
        (false, true) => Relation::Around,
        (false, false) => Relation::Apart,
    }
}

/// Looks at each of `paths`, in order. Each on a thread of its own, so that one that hangs holds up nobody for long.
pub(crate) async fn look(paths: Vec<PathBuf>) -> Vec<Folder> {
    let named: Vec<Folder> = paths.iter().map(|p| Folder::named(p)).collect();
    let (tell, told) = oneshot::channel();
    let asking = std::thread::Builder::new().name("library-folders".to_owned()).spawn(move || {
        // Whoever asked may have gone.
        drop(tell.send(paths.iter().map(|path| look_for_a_while(path)).collect()));
    });
    if let Err(error) = asking {
        tracing::warn!(%error, "unable to look at the folders of libraries: their names alone are compared");
        return named;
    }
    told.await.unwrap_or(named)
}

fn look_for_a_while(path: &Path) -> Folder {
    let (tell, told) = mpsc::channel();
    let asked = path.to_owned();
    let asking = std::thread::Builder::new().name("library-folder".to_owned()).spawn(move || {
        // Nobody listens any more where it took too long.
        drop(tell.send(Folder::look(&asked)));
    });
    match asking.map(|_| told.recv_timeout(PATIENCE)) {
        Ok(Ok(folder)) => folder,
        _ => Folder::named(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_is_known_by_every_name_that_leads_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let films = dir.path().join("films");
        std::fs::create_dir_all(films.join("old")).unwrap();
        std::fs::create_dir(dir.path().join("films 2")).unwrap();
        std::os::unix::fs::symlink(&films, dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(films.join("old"), dir.path().join("inner")).unwrap();
        let at = |name: &str| Folder::look(&dir.path().join(name));
        for (name, relation) in [
            ("films", Relation::Same),
            ("films/", Relation::Same),
            ("./films/.", Relation::Same),
            ("films/old/..", Relation::Same),
            ("link", Relation::Same),
            ("link/old", Relation::Inside),
            ("inner", Relation::Inside),
            ("", Relation::Around),
            ("films 2", Relation::Apart),
            ("gone", Relation::Apart),
        ] {
            assert_eq!(at(name).relation(&at("films")), relation, "{name}");
        }
        assert_eq!(at("films").relation(&at("link/old")), Relation::Around);
    }

    #[test]
    fn a_folder_that_is_not_there_is_known_by_its_name() {
        let at = |name: &str| Folder::look(Path::new(name));
        assert_eq!(at("/nowhere/a/").relation(&at("/nowhere/./a")), Relation::Same);
        assert_eq!(at("/nowhere/a/b").relation(&at("/nowhere/a")), Relation::Inside);
        assert_eq!(at("/nowhere/ab").relation(&at("/nowhere/a")), Relation::Apart);
    }
}
