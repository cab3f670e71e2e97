//! Items: lists, details, pictures, watch state, the start page.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use spindle_library::{
    Home, ImageFormat, Item, ItemDetail, ItemQuery, ItemType, Page, State as WatchState, StatePatch,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::delivery::entity;
use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Body, Path, Query};
use crate::http::guard::Viewer;

/// Items in each row of the start page.
const HOME_ITEMS: u64 = 24;
/// Pieces of a layout that a page is given: 1.5 MiB of JSON.
const LAYOUT_PIECES: usize = 20_000;
/// And that anyone may ask for.
const MAX_LAYOUT_PIECES: usize = 200_000;

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(detail))
        .routes(routes!(image))
        .routes(routes!(home))
        .routes(routes!(set_state))
        .routes(routes!(layout))
}

#[derive(Deserialize)]
struct ListParams {
    r#type: Option<String>,
    library: Option<String>,
    parent: Option<String>,
    search: Option<String>,
    genre: Option<String>,
    person: Option<String>,
    year: Option<i64>,
    watched: Option<bool>,
    favorite: Option<bool>,
    available: Option<bool>,
    sort: Option<String>,
    limit: Option<u64>,
    #[serde(default)]
    offset: u64,
}

impl ListParams {
    fn into_query(self) -> Result<ItemQuery, Problem> {
        let types = self.r#type.as_deref().unwrap_or_default();
        let types: Result<Vec<ItemType>, _> =
            types.split(',').filter(|t| !t.is_empty()).map(str::parse).collect();
        let sort = self.sort.filter(|s| !s.is_empty());
        let text = |value: Option<String>| value.filter(|v| !v.trim().is_empty());
        Ok(ItemQuery {
            types: types?,
            library: text(self.library),
            parent: text(self.parent),
            search: text(self.search),
            genre: text(self.genre),
            person: text(self.person),
            year: self.year,
            watched: self.watched,
            favorite: self.favorite,
            available: self.available,
            sort: sort.map(|s| s.parse()).transpose()?,
            limit: self.limit,
            offset: self.offset,
        })
    }
}

/// A page of items.
#[utoipa::path(get, path = "/items", params(
    ("type" = Option<String>, Query, description = "movie, show, season, episode, artist, album, track, photo; several by commas"),
    ("library" = Option<String>, Query), ("parent" = Option<String>, Query),
    ("search" = Option<String>, Query), ("genre" = Option<String>, Query),
    ("person" = Option<String>, Query), ("year" = Option<i64>, Query),
    ("watched" = Option<bool>, Query), ("favorite" = Option<bool>, Query),
    ("available" = Option<bool>, Query),
    ("sort" = Option<String>, Query, description = "title, added, released, rating, last_played, duration, random; - reverses"),
    ("limit" = Option<u64>, Query), ("offset" = Option<u64>, Query)),
    responses((status = 200), (status = 400), (status = 401)))]
async fn list(
    viewer: Viewer,
    State(state): State<ServerState>,
    Query(params): Query<ListParams>,
) -> Result<Json<Page<Item>>, Problem> {
    let query = params.into_query()?;
    Ok(Json(state.library.items(&viewer.user.id, query).await?))
}

/// Everything about an item.
#[utoipa::path(get, path = "/items/{id}", params(("id" = String, Path)),
    responses((status = 200), (status = 404)))]
async fn detail(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Result<Json<ItemDetail>, Problem> {
    // Next comes the play button.
    state.transcoder.expect_work();
    Ok(Json(state.library.item(&viewer.user.id, &id).await?))
}

#[derive(Deserialize)]
struct ImageParams {
    width: Option<u32>,
    height: Option<u32>,
    format: Option<String>,
    tag: Option<String>,
}

/// A picture of an item.
#[utoipa::path(get, path = "/items/{id}/images/{kind}", params(
    ("id" = String, Path), ("kind" = String, Path, description = "poster, backdrop, logo, thumb, still"),
    ("width" = Option<u32>, Query), ("height" = Option<u32>, Query),
    ("format" = Option<String>, Query, description = "jpeg, png, webp")),
    responses((status = 200), (status = 304), (status = 404)))]
async fn image(
    _viewer: Viewer,
    State(state): State<ServerState>,
    Path((id, kind)): Path<(String, String)>,
    Query(params): Query<ImageParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kind = kind.parse()?;
    let format = match params.format.as_deref() {
        None | Some("") => ImageFormat::Jpeg,
        Some("jpg") => ImageFormat::Jpeg,
        Some(word) => word.parse()?,
    };
    let image = state.library.image(&id, kind, params.width, params.height, format).await?;
    let known = entity::is_known(&headers, &image.etag);
    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { image.bytes.into_response() };
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(image.mime));
    // With the tag in the address another picture has another address.
    let cache =
        if params.tag.is_some() { "private, max-age=31536000, immutable" } else { "private, no-cache" };
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(etag) = image.etag.parse() {
        out.insert(header::ETAG, etag);
    }
    Ok(response)
}

/// The start page.
#[utoipa::path(get, path = "/home", responses((status = 200), (status = 401)))]
async fn home(viewer: Viewer, State(state): State<ServerState>) -> Result<Json<Home>, Problem> {
    Ok(Json(state.library.home(&viewer.user.id, HOME_ITEMS).await?))
}

/// Marks an item. Acknowledged means that it is on disk.
#[utoipa::path(put, path = "/items/{id}/state", params(("id" = String, Path)),
    responses((status = 200), (status = 400), (status = 404)))]
async fn set_state(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Body(patch): Body<StatePatch>,
) -> Result<Json<WatchState>, Problem> {
    Ok(Json(state.library.set_state(&viewer.user.id, &id, patch).await?))
}

/// Which disks hold which bytes of the item's first file.
#[utoipa::path(get, path = "/items/{id}/layout",
    params(("id" = String, Path), ("version" = Option<String>, Query),
        ("max_pieces" = Option<usize>, Query, description = "pieces listed at most, 20000 by default; `truncated` says where the list ends, the sums are of the whole file")),
    responses((status = 200), (status = 404), (status = 503)))]
async fn layout(
    _viewer: Viewer,
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(params): Query<LayoutParams>,
) -> Result<Json<spindle_storage::Layout>, Problem> {
    let version = params.version.as_deref();
    let max_pieces = params.max_pieces.unwrap_or(LAYOUT_PIECES).min(MAX_LAYOUT_PIECES);
    Ok(Json(state.sessions.layout(&id, version, max_pieces).await?))
}

#[derive(Deserialize)]
struct LayoutParams {
    version: Option<String>,
    max_pieces: Option<usize>,
}
