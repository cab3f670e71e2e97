//! Records of experiments: list, show, save as a table, remove. They are made by `spindle bench`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::Deserialize;
use spindle_base::error::ErrorKind;
use spindle_bench::net::{MOST_CONNECTIONS, NetRow};
use spindle_bench::{BenchError, Kind, Record, Store, Summary};
use spindle_library::Role;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::List;
use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Body, Path, Query};
use crate::http::guard::{Owner, Viewer};

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(list, add)).routes(routes!(show, remove))
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

/// Most rows of a measurement that a page may keep: both ways, for each number of connections there may be.
const MAX_ROWS: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    kind: Kind,
    rows: Vec<NetRow>,
}

/// Keeps what a page has measured between itself and the server: `{kind: "net", rows[]}`. Other experiments run on the server, by a
/// command.
#[utoipa::path(post, path = "/experiments",
    responses((status = 201), (status = 400), (status = 403), (status = 503)))]
async fn add(
    _owner: Owner,
    State(state): State<ServerState>,
    headers: http::HeaderMap,
    Body(Measured { kind, rows }): Body<Measured>,
) -> Result<(StatusCode, Json<Summary>), Problem> {
    let is_figure = |r: &NetRow| {
        [r.seconds, r.bytes_per_s, r.bits_per_s].iter().all(|v| v.is_finite() && *v >= 0.0)
            && (1..=MOST_CONNECTIONS).contains(&r.connections)
    };
    if kind != Kind::Net || rows.is_empty() || rows.len() > MAX_ROWS || !rows.iter().all(is_figure) {
        return Err(Problem::bad_input(
            "`kind` is net, and `rows` has 1 to 32 rows as `spindle bench net` makes them",
        ));
    }
    let mut record = Record::begin(Kind::Net, &state.clock);
    record.ended = Some(record.started.clone());
    record.to = headers.get(header::HOST).and_then(|h| h.to_str().ok()).map(|h| format!("http://{h}"));
    record.machine = spindle_bench::machine::look();
    record.machine.after = record.machine.before;
    record.notes.push("measured by a page: what it sends and takes goes through the browser".to_owned());
    rows.iter().for_each(|r| record.row(r));
    record.verdict = spindle_bench::net::verdict(&record.rows);
    let summary = record.summary();
    stored(&state, move |store| store.ready().and_then(|()| store.save(&record))).await?;
    Ok((StatusCode::CREATED, Json(summary)))
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
