//! Finished sessions with their I/O summary.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use spindle_library::{HistoryEntry, Page, Role};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::Query;
use crate::http::guard::Viewer;

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Deserialize)]
struct Paging {
    limit: Option<u64>,
    #[serde(default)]
    offset: u64,
}

/// Sessions, newest first: one's own, or everybody's for the owner.
#[utoipa::path(get, path = "/history",
    params(("limit" = Option<u64>, Query), ("offset" = Option<u64>, Query)),
    responses((status = 200), (status = 401)))]
async fn list(
    viewer: Viewer,
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Result<Json<Page<HistoryEntry>>, Problem> {
    let own = (viewer.user.role != Role::Admin).then_some(viewer.user.id.as_str());
    let limit = paging.limit.unwrap_or(50).min(500);
    Ok(Json(state.library.history(own, limit, paging.offset).await?))
}
