//! What plays now; reports of a playing client; the I/O record of a session.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::List;
use super::play::Client;
use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Body, Path, Query};
use crate::http::guard::Viewer;
use crate::sessions::{Failure, FailureKind, Opened, Report, SessionView, Table};

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(progress))
        .routes(routes!(failed))
        .routes(routes!(end))
        .routes(routes!(io))
}

/// What plays now.
#[utoipa::path(get, path = "/sessions", responses((status = 200), (status = 401)))]
async fn list(viewer: Viewer, State(state): State<ServerState>) -> Json<List<SessionView>> {
    Json(List::whole(state.sessions.list(&viewer.user)))
}

/// Where a client is. Acknowledged means that the resume point is on disk.
#[utoipa::path(post, path = "/sessions/{id}/progress", params(("id" = String, Path)),
    responses((status = 204), (status = 400), (status = 404)))]
async fn progress(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Body(report): Body<Report>,
) -> Result<StatusCode, Problem> {
    state.sessions.progress(&viewer.user, &id, report).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailedBody {
    #[serde(default)]
    position_s: Option<f64>,
    #[serde(default)]
    error: FailureKind,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    client: Option<Client>,
}

/// A client could not play what it was given: the answer is a session that goes the next best way, as
/// `/items/{id}/play` gives it; this one ends. 422 when no way is left. With `client` it says anew what it
/// can, and the next way follows from that.
#[utoipa::path(post, path = "/sessions/{id}/failed", params(("id" = String, Path)),
    responses((status = 200), (status = 400), (status = 404), (status = 422)))]
async fn failed(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    headers: http::HeaderMap,
    Body(body): Body<FailedBody>,
) -> Result<axum::Json<Opened>, Problem> {
    let FailedBody { position_s, error, detail, client } = body;
    let profile = client.map(|c| c.profile(state.sessions.profiles(), &headers)).transpose()?;
    let failure = Failure { position_s, error, detail, profile };
    Ok(axum::Json(state.sessions.failed(&viewer.user, &id, failure).await?))
}

/// Ends a session; its record stays.
#[utoipa::path(delete, path = "/sessions/{id}", params(("id" = String, Path)),
    responses((status = 204), (status = 404)))]
async fn end(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    state.sessions.end(&viewer.user, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct IoParams {
    format: Option<String>,
    table: Option<String>,
}

/// The I/O record, while it plays and afterwards: docs/record.md describes every field and table.
#[utoipa::path(get, path = "/sessions/{id}/io",
    params(("id" = String, Path), ("format" = Option<String>, Query, description = "json or csv"),
        ("table" = Option<String>, Query, description = "with csv: series, disks, events or trail")),
    responses((status = 200), (status = 400), (status = 404)))]
async fn io(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(params): Query<IoParams>,
) -> Result<Response, Problem> {
    let table = params.table.as_deref().map_or(Some(Table::default()), Table::named);
    let table = table.ok_or_else(|| Problem::bad_input(format!("`table` is {}", Table::NAMES)))?;
    let view = state.sessions.io(&viewer.user, &id).await?;
    match params.format.as_deref() {
        None | Some("json") => Ok(Json(view).into_response()),
        Some("csv") => {
            let of = params.table.as_deref().map(|t| format!("-{t}")).unwrap_or_default();
            let name = format!("attachment; filename=\"spindle-{id}{of}.csv\"");
            let headers = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
                (header::CONTENT_DISPOSITION, name),
            ];
            Ok((headers, view.to_csv(table)).into_response())
        }
        Some(_) => Err(Problem::bad_input("`format` is json or csv")),
    }
}
