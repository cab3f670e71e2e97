//! Questions about volumes, asked off the executor and remembered: what a page shows must not
//! wake a disk each time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use spindle_base::sync::Mutex;
use spindle_storage::{Layout, Topology};

use super::{SessionError, Sessions};

/// Seconds for which a topology is taken as still true: disks are not swapped by the second.
const TOPOLOGY_AGE_S: i64 = 30;

/// Topologies by root, with when they were taken.
#[derive(Default)]
pub(super) struct Cache(Mutex<HashMap<PathBuf, (i64, Topology)>, 60>);

/// The volume of one library folder.
#[derive(Debug, Clone, Serialize)]
pub struct Volume {
    /// Id of the library.
    pub library: String,
    /// Its name.
    pub name: String,
    /// The volume down to its disks.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Why it could not be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Sessions {
    /// The volumes of all libraries.
    ///
    /// # Errors
    /// The library's own; a volume that cannot be told is listed with its reason.
    pub async fn volumes(&self) -> Result<Vec<Volume>, SessionError> {
        let mut out = Vec::new();
        for library in self.0.parts.library.libraries().await? {
            for root in &library.roots {
                let (topology, why) = match self.topology(root).await {
                    Ok(topology) => (Some(topology), None),
                    Err(error) => (None, Some(error.to_string())),
                };
                out.push(Volume { library: library.id.clone(), name: library.name.clone(), topology, why });
            }
        }
        Ok(out)
    }

    /// Where the first file of an item lies.
    ///
    /// # Errors
    /// No such item; its file cannot be reached.
    pub async fn layout(&self, item: &str, version: Option<&str>) -> Result<Layout, SessionError> {
        let playable = self.0.parts.library.playable(item, version).await?;
        let part = playable.parts.into_iter().next();
        let part = part.ok_or_else(|| SessionError::Unavailable(playable.title.clone()))?;
        let asked = self.layout_of(&part.path).await;
        let mut layout = asked.map_err(|error| match error {
            SessionError::Storage(error) => {
                tracing::warn!(file = %part.name, %error, "unable to tell where a file lies");
                SessionError::Unavailable(part.name.clone())
            }
            other => other,
        })?;
        // Where the library lies on this machine is nobody's business.
        layout.file = PathBuf::from(part.name);
        Ok(layout)
    }

    pub(super) async fn layout_of(&self, path: &Path) -> Result<Layout, SessionError> {
        let (storage, path) = (self.0.parts.storage.clone(), path.to_owned());
        let asked = tokio::task::spawn_blocking(move || storage.layout(&path));
        Ok(asked.await.map_err(|_| SessionError::Stopping)??)
    }

    async fn topology(&self, root: &Path) -> Result<Topology, SessionError> {
        let now_s = self.0.parts.clock.unix_us() / 1_000_000;
        if let Some((at_s, known)) = self.0.volumes.0.lock().get(root)
            && now_s - at_s < TOPOLOGY_AGE_S
        {
            return Ok(known.clone());
        }
        let (storage, path) = (self.0.parts.storage.clone(), root.to_owned());
        let asked = tokio::task::spawn_blocking(move || storage.topology(&path));
        let topology = asked.await.map_err(|_| SessionError::Stopping)??;
        self.0.volumes.0.lock().insert(root.to_owned(), (now_s, topology.clone()));
        Ok(topology)
    }
}
