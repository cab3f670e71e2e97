//! `GET /storage`: every library volume down to its disks, with live figures.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use spindle_library::Role;
use spindle_storage::{DiskFigures, DiskRate};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::guard::Viewer;
use crate::sessions::Volume;

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(storage))
}

#[derive(Serialize)]
struct Shown {
    items: Vec<Volume>,
    total: u64,
    /// How block requests are attributed now.
    attribution: spindle_storage::Attribution,
    /// What each disk does now.
    disks: Vec<Disk>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Disk {
    /// Of a library's volume: rates, asleep or not, temperature, health.
    Known(DiskFigures),
    /// Of another filesystem in use: rates.
    Used(DiskRate),
}

/// Topology of every library volume with live per-disk figures. Answered from memory, each part with its age: no disk
/// and no filesystem is asked for anything, so that looking at this page wakes nothing.
///
/// `items[]`: a volume with `libraries[]` (`id`, `name`, `path`), the fields of `spindle topology --json` and `age_s`; or
/// `why` where it could not be told. `disks[]`: `disk`, `reads_per_s`, `read_bytes_per_s`, `write_bytes_per_s`, `busy_share`, and of
/// volumes' disks `asleep`, `asleep_source`, `quiet_s`, `temperature_c`, `temperature_age_s`, `health`, `health_why`, `age_s`.
#[utoipa::path(get, path = "/storage", responses((status = 200), (status = 401)))]
async fn storage(viewer: Viewer, State(state): State<ServerState>) -> Result<Json<Shown>, Problem> {
    let mut volumes = state.sessions.volumes().await?;
    if viewer.user.role != Role::Admin {
        // Where a library lies on this machine is the owner's business; the disks are shown.
        for volume in &mut volumes {
            volume.known.topology =
                volume.known.topology.take().map(spindle_storage::Topology::without_places);
            volume.known.why = volume.known.why.take().map(|_| "this volume cannot be told now".to_owned());
            for library in &mut volume.libraries {
                library.path = PathBuf::new();
            }
        }
    }
    let known = state.storage.disk_figures();
    let others: Vec<DiskRate> = state
        .storage
        .disk_rates()
        .into_iter()
        .filter(|r| known.iter().all(|k| k.rate.disk != r.disk))
        .collect();
    Ok(Json(Shown {
        total: volumes.len() as u64,
        items: volumes,
        attribution: state.storage.attribution(),
        disks: known.into_iter().map(Disk::Known).chain(others.into_iter().map(Disk::Used)).collect(),
    }))
}
