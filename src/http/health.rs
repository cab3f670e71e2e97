//! `GET /health`: for supervisors and for people who wonder.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;

#[derive(Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(health))
}

/// Whether the server can do its work.
#[utoipa::path(get, path = "/health", responses(
    (status = 200, description = "ready"), (status = 503, description = "starting or failing")
))]
async fn health(State(state): State<ServerState>) -> (StatusCode, Json<Health>) {
    let version = env!("CARGO_PKG_VERSION");
    if !state.ready.load(Ordering::Acquire) {
        let health = Health { status: "starting", version, reason: None };
        return (StatusCode::SERVICE_UNAVAILABLE, Json(health));
    }
    match state.library.check().await {
        Ok(()) => {
            let health = Health { status: "ok", version, reason: None };
            (StatusCode::OK, Json(health))
        }
        Err(error) => {
            let health = Health { status: "failing", version, reason: Some(error.to_string()) };
            (StatusCode::SERVICE_UNAVAILABLE, Json(health))
        }
    }
}
