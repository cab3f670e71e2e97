//! Libraries: list, add, change, remove, scan, and what in them could not be read.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use spindle_base::error::ErrorKind;
use spindle_library::{
    LibraryInfo, LibraryKind, LibraryPatch, NewLibrary, Page, Role, UnreadableFile, Watching,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::List;
use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Body, Path, Query};
use crate::http::guard::{Owner, Viewer};

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(change, remove))
        .routes(routes!(scan))
        .routes(routes!(unreadable))
}

/// A library with what a page shows of it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    library: LibraryInfo,
    /// First folder, for people.
    path: String,
    /// Files that could not be read.
    failed: u64,
    /// Whether it is being scanned now.
    scanning: bool,
    /// Whether pictures are being taken from its files, behind the scan.
    taking_pictures: bool,
    /// How changes of its folders are noticed; for the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    watching: Option<Watching>,
}

fn show(state: &ServerState, library: LibraryInfo) -> Shown {
    Shown {
        path: library.paths.first().cloned().unwrap_or_default(),
        failed: library.unreadable,
        scanning: state.scanner.scanning().contains(&library.id),
        taking_pictures: state.scanner.taking_pictures().contains(&library.id),
        watching: Some(state.scanner.watching(&library.id)),
        library,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBody {
    #[serde(default)]
    name: Option<String>,
    kind: String,
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchBody {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    path: Option<String>,
}

/// Every library.
#[utoipa::path(get, path = "/libraries", responses((status = 200), (status = 401)))]
async fn list(viewer: Viewer, State(state): State<ServerState>) -> Result<Json<List<Shown>>, Problem> {
    let all = state.library.libraries().await?;
    let mut shown: Vec<Shown> = all.into_iter().map(|l| show(&state, l)).collect();
    if viewer.user.role != Role::Admin {
        // Where a library lies on this machine is the owner's business.
        for row in &mut shown {
            row.path.clear();
            row.library.paths.clear();
            row.library.report = None;
            row.library.warning = None;
            row.library.unreachable = None;
            row.watching = None;
        }
    }
    Ok(Json(List::whole(shown)))
}

/// Adds a library and begins to scan it.
#[utoipa::path(post, path = "/libraries", responses((status = 201), (status = 400), (status = 409)))]
async fn add(
    _owner: Owner,
    State(state): State<ServerState>,
    Body(body): Body<NewBody>,
) -> Result<(StatusCode, Json<Shown>), Problem> {
    let kind: LibraryKind = body.kind.parse()?;
    let path = folder(&body.path).await?;
    let name = body.name.unwrap_or_else(|| {
        path.file_name().map_or_else(|| body.kind.clone(), |n| n.to_string_lossy().into_owned())
    });
    let new = NewLibrary { name, kind, paths: vec![path] };
    let library = state.library.add_library(new).await?;
    state.scanner.request(&library.id);
    Ok((StatusCode::CREATED, Json(show(&state, library))))
}

/// Renames a library or moves its folder.
#[utoipa::path(patch, path = "/libraries/{id}", params(("id" = String, Path)),
    responses((status = 200), (status = 400), (status = 404)))]
async fn change(
    _owner: Owner,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Body(body): Body<PatchBody>,
) -> Result<Json<Shown>, Problem> {
    let paths = match &body.path {
        Some(path) => Some(vec![folder(path).await?]),
        None => None,
    };
    let moved = paths.is_some();
    let patch = LibraryPatch { name: body.name, paths };
    let library = state.library.update_library(&id, patch).await?;
    if moved {
        state.scanner.request(&library.id);
    }
    Ok(Json(show(&state, library)))
}

/// Forgets a library. Its files are not touched.
#[utoipa::path(delete, path = "/libraries/{id}", params(("id" = String, Path)),
    responses((status = 204), (status = 404)))]
async fn remove(
    _owner: Owner,
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    state.library.remove_library(&id).await?;
    state.scanner.forget(&id);
    Ok(StatusCode::NO_CONTENT)
}

/// Looks for changed files now; progress comes as events.
#[utoipa::path(post, path = "/libraries/{id}/scan", params(("id" = String, Path)),
    responses((status = 202), (status = 404)))]
async fn scan(
    _owner: Owner,
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let library = state.library.library(&id).await?;
    state.scanner.request(&library.id);
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
struct Paging {
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    offset: u64,
}

/// Files that could not be read, each with its reason.
#[utoipa::path(get, path = "/libraries/{id}/unreadable",
    params(("id" = String, Path), ("limit" = Option<u64>, Query), ("offset" = Option<u64>, Query)),
    responses((status = 200), (status = 404)))]
async fn unreadable(
    _owner: Owner,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(paging): Query<Paging>,
) -> Result<Json<Page<UnreadableFile>>, Problem> {
    let library = state.library.library(&id).await?;
    let limit = paging.limit.unwrap_or(100).min(1000);
    let page = state.library.unreadable(Some(&library.id), limit, paging.offset).await?;
    Ok(Json(page))
}

/// The owner names a folder of the server: it must be absolute and there.
async fn folder(text: &str) -> Result<PathBuf, Problem> {
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        return Err(Problem::bad_input("the folder must be an absolute path on the server"));
    }
    let checked = path.clone();
    let is_dir = tokio::task::spawn_blocking(move || checked.is_dir())
        .await
        .map_err(|_| Problem::new(ErrorKind::Fault, "unable to look at the folder"))?;
    if is_dir {
        Ok(path)
    } else {
        let detail = format!("`{text}` is not a folder that the server can read");
        Err(Problem::bad_input(detail))
    }
}
