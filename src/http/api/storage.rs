//! `GET /storage`: every library volume down to its disks, with live figures.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
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
async fn storage(_viewer: Viewer, State(state): State<ServerState>) -> Result<Json<Shown>, Problem> {
    let volumes = state.sessions.volumes().await?;
    Ok(Json(Shown {
        total: volumes.len() as u64,
        items: volumes,
        attribution: state.storage.attribution(),
        disks: state.storage.disk_rates(),
    }))
}
