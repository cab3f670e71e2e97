//! Questions about volumes. What a page shows is what the storage room remembers: a page view wakes no disk.

use std::path::{Path, PathBuf};

use serde::Serialize;
use spindle_storage::{KnownVolume, Layout, LayoutOptions, Topology};

use super::{SessionError, Sessions};

/// A volume, with the libraries that have a folder on it.
#[derive(Debug, Clone, Serialize)]
pub struct Volume {
    /// Id of the first library on it.
    pub library: String,
    /// Its name.
    pub name: String,
    /// All libraries on it.
    pub libraries: Vec<LibraryOnVolume>,
    /// The volume down to its disks, seconds since it was read, or why it could not be.
    #[serde(flatten)]
    pub known: KnownVolume,
}

/// A folder of a library on a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LibraryOnVolume {
    /// Id of the library.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
}

impl Sessions {
    /// The volumes of all libraries; libraries on the same one are listed with it.
    ///
    /// # Errors
    /// The library's own; a volume that cannot be told is listed with its reason.
    pub async fn volumes(&self) -> Result<Vec<Volume>, SessionError> {
        let mut roots = Vec::new();
        for library in self.0.parts.library.libraries().await? {
            for root in &library.roots {
                roots.push(LibraryOnVolume {
                    id: library.id.clone(),
                    name: library.name.clone(),
                    path: root.clone(),
                });
            }
        }
        let storage = self.0.parts.storage.clone();
        // It may wait some seconds for a filesystem that it sees for the first time.
        let asked = tokio::task::spawn_blocking(move || {
            roots.into_iter().map(|r| (storage.known_volume(&r.path), r)).collect::<Vec<_>>()
        });
        Ok(grouped(asked.await.map_err(|_| SessionError::Stopping)?))
    }

    /// Where the first file of an item lies.
    ///
    /// # Errors
    /// No such item; its file cannot be reached.
    pub async fn layout(
        &self,
        item: &str,
        version: Option<&str>,
        max_pieces: usize,
    ) -> Result<Layout, SessionError> {
        let playable = self.0.parts.library.playable(item, version).await?;
        let part = playable.parts.into_iter().next();
        let part = part.ok_or_else(|| SessionError::Unavailable(playable.title.clone()))?;
        let asked = self.layout_of(&part.path, max_pieces).await;
        let mut layout = asked.map_err(|error| match error {
            SessionError::Storage(error) => {
                tracing::warn!(file = %part.name, %error, "unable to tell where a file lies");
                SessionError::Unavailable(part.name.clone())
            }
            other => other,
        })?;
        // Where the library lies on this machine is nobody's business.
        layout.file = PathBuf::from(part.name);
        layout.via = None;
        Ok(layout)
    }

    /// With at most `max_pieces` listed; the sums are of the whole file.
    pub(super) async fn layout_of(&self, path: &Path, max_pieces: usize) -> Result<Layout, SessionError> {
        let options = LayoutOptions { max_pieces, ..LayoutOptions::default() };
        Ok(self.0.parts.storage.layout_of(path, options).await?)
    }
}

fn grouped(roots: Vec<(KnownVolume, LibraryOnVolume)>) -> Vec<Volume> {
    let mut out: Vec<Volume> = Vec::new();
    for (known, library) in roots {
        let same = out.iter_mut().find(|v| match (&v.known.topology, &known.topology) {
            (Some(a), Some(b)) => is_same(a, b),
            _ => false,
        });
        match same {
            Some(volume) => volume.libraries.push(library),
            None => out.push(Volume {
                library: library.id.clone(),
                name: library.name.clone(),
                libraries: vec![library],
                known,
            }),
        }
    }
    out
}

/// One filesystem, whatever folder of it: two mounts of a btrfs are one volume.
fn is_same(a: &Topology, b: &Topology) -> bool {
    let is_one_mount = a.filesystem.mount == b.filesystem.mount;
    let is_one_id = a.filesystem.uuid.is_some() && a.filesystem.uuid == b.filesystem.uuid;
    a.filesystem.kind == b.filesystem.kind && (is_one_mount || is_one_id) && a.node.name == b.node.name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(id: &str, topology: Option<(&str, Option<&str>)>) -> (KnownVolume, LibraryOnVolume) {
        let topology = topology.map(|(mount, uuid)| {
            let json = serde_json::json!({
                "path": "/x", "filesystem": {"kind": "btrfs", "uuid": uuid, "mount": mount},
                "node": {"kind": "btrfs", "name": "pool", "size_bytes": 1, "children": []},
                "columns": 1, "copies": 1, "disks": [], "layout": "simple", "advice": [],
            });
            serde_json::from_value(json).expect("a topology")
        });
        let why = topology.is_none().then(|| "gone".to_owned());
        let library = LibraryOnVolume { id: id.into(), name: id.into(), path: format!("/{id}").into() };
        (KnownVolume { topology, why, age_s: 0.0 }, library)
    }

    #[test]
    fn libraries_on_one_volume_are_one_entry_and_what_cannot_be_told_is_its_own() {
        let volumes = grouped(vec![
            root("a", Some(("/m", Some("u1")))),
            root("b", Some(("/m", Some("u1")))),
            root("c", Some(("/elsewhere", Some("u1")))),
            root("d", Some(("/n", None))),
            root("e", None),
            root("f", None),
        ]);
        let ids: Vec<Vec<&str>> =
            volumes.iter().map(|v| v.libraries.iter().map(|l| l.id.as_str()).collect()).collect();
        assert_eq!(ids, [vec!["a", "b", "c"], vec!["d"], vec!["e"], vec!["f"]]);
        let json = serde_json::to_value(&volumes[2]).expect("json");
        assert_eq!((json["why"].as_str(), json["libraries"][0]["id"].as_str()), (Some("gone"), Some("e")));
    }
}
