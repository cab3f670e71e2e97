//! Records of experiments: list, show, save as a table, remove. They are made by `spindle bench`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::Deserialize;
use spindle_base::error::ErrorKind;
use spindle_bench::{BenchError, Record, Store, Summary};
use spindle_library::Role;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::List;
use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Path, Query};
use crate::http::guard::{Owner, Viewer};

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, remove))
}

/// What `spindle bench` measured here, the latest first. Paths are shown to the owner alone.
///
/// `items[]`: `id`, `kind` (`corners`, `blocks`, `copy`, `net`, `stream`), `started`, `ended?`, `interrupted?`, `path?`, `to?`,
/// `topology?`, `verdict`; or `id` and `unreadable` where a record is damaged or of a newer version.
#[utoipa::path(get, path = "/experiments", responses((status = 200), (status = 401)))]
async fn list(viewer: Viewer, State(state): State<ServerState>) -> Result<Json<List<Summary>>, Problem> {
    let mut all = stored(&state, Store::list).await?;
    if viewer.user.role != Role::Admin {
        all = all.into_iter().map(Summary::without_places).collect();
    }
    Ok(Json(List::whole(all)))
}

#[derive(Deserialize)]
struct Format {
    format: Option<String>,
}

/// One record: `version`, `id`, `kind`, `started`, `ended?`, `interrupted?`, `path?`, `topology?`, `to?`, `to_topology?`, `machine`,
/// `verdict`, `notes[]`, `rows[]`, and what the kind adds. `format=csv`: the rows as a table.
#[utoipa::path(get, path = "/experiments/{id}",
    params(("id" = String, Path), ("format" = Option<String>, Query, description = "json or csv")),
    responses((status = 200), (status = 400), (status = 404), (status = 422)))]
async fn show(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(Format { format }): Query<Format>,
) -> Result<Response, Problem> {
    let wanted = id.clone();
    let mut record: Record = stored(&state, move |store| store.get(&wanted)).await?;
    if viewer.user.role != Role::Admin {
        record = record.without_places();
    }
    match format.as_deref() {
        None | Some("json") => Ok(Json(record).into_response()),
        Some("csv") => {
            let name = format!("attachment; filename=\"spindle-{}-{}.csv\"", record.kind.name(), record.id);
            let headers = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
                (header::CONTENT_DISPOSITION, name),
            ];
            Ok((headers, record.to_csv()).into_response())
        }
        Some(_) => Err(Problem::bad_input("`format` is json or csv")),
    }
}

/// Removes a record.
#[utoipa::path(delete, path = "/experiments/{id}", params(("id" = String, Path)),
    responses((status = 204), (status = 403), (status = 404)))]
async fn remove(
    _owner: Owner,
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    stored(&state, move |store| store.remove(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks the store on a thread that may wait for the disk of the data directory.
async fn stored<T: Send + 'static>(
    state: &ServerState,
    ask: impl FnOnce(&Store) -> Result<T, BenchError> + Send + 'static,
) -> Result<T, Problem> {
    let store = state.experiments.clone();
    let answered = tokio::task::spawn_blocking(move || ask(&store)).await;
    Ok(answered.map_err(|_| Problem::new(ErrorKind::Fault, "unable to look at the experiments"))??)
}
