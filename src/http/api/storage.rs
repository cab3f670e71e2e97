//! `GET /storage`: every library volume down to its disks, with live figures.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use spindle_library::Role;
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
    disks: Vec<spindle_storage::DiskRate>,
}

/// Topology of every library volume with live per-disk figures.
#[utoipa::path(get, path = "/storage", responses((status = 200), (status = 401)))]
async fn storage(viewer: Viewer, State(state): State<ServerState>) -> Result<Json<Shown>, Problem> {
    let mut volumes = state.sessions.volumes().await?;
    if viewer.user.role != Role::Admin {
        // Where a library lies on this machine is the owner's business; the disks are shown.
        for volume in &mut volumes {
            if let Some(topology) = &mut volume.topology {
                topology.path = PathBuf::new();
                topology.filesystem.mount = PathBuf::new();
            }
            volume.why = volume.why.take().map(|_| "this volume cannot be told now".to_owned());
        }
    }
    Ok(Json(Shown {
        total: volumes.len() as u64,
        items: volumes,
        attribution: state.storage.attribution(),
        disks: state.storage.disk_rates(),
    }))
}
