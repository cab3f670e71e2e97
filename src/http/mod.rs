//! Requests other than media: the API, events, the page. Handlers parse, ask one room, map the
//! answer. No SQL, no file access, no decisions.

mod api;
mod assets;
mod events;
mod extract;
mod guard;
mod health;
mod media;
mod metrics;
mod stream;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::response::IntoResponse as _;
use spindle_base::clock::SharedClock;
use spindle_base::shutdown::Shutdown;
use spindle_bench::Store;
use spindle_library::{Controller, Library};
use spindle_storage::Storage;
use spindle_transcode::Transcoder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use tower_http::timeout::TimeoutLayer;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::auth::local::Local;
use crate::auth::throttle::Throttle;
use crate::sessions::Sessions;

use crate::delivery::problem::Problem;
pub use media::MediaLane;

/// Largest body of an API request. The largest real one, a client profile, has 10 KiB.
const MAX_BODY_BYTES: usize = 256 << 10;

/// What handlers may use.
#[derive(Clone)]
pub struct ServerState {
    /// Items, accounts, history.
    pub library: Library,
    /// Scans.
    pub scanner: Controller,
    /// Live playback.
    pub sessions: Sessions,
    /// Disks.
    pub storage: Storage,
    /// Workers.
    pub transcoder: Transcoder,
    /// Media, in the ordinary lane.
    pub media: MediaLane,
    /// Records of experiments.
    pub experiments: Store,
    /// Places for measurements of the network: each takes all that a connection gives.
    pub net_places: Arc<tokio::sync::Semaphore>,
    /// Time.
    pub clock: SharedClock,
    /// Slows down guessing.
    pub throttle: Arc<Throttle>,
    /// Set once everything is up.
    pub ready: Arc<AtomicBool>,
    /// Ends event streams.
    pub shutdown: Shutdown,
    /// Lets whoever owns the data directory look. `None` where its file could not be written.
    pub local: Option<Arc<Local>>,
    /// Told when a token has been revoked: event streams look whether it was theirs.
    pub signed_out: Arc<tokio::sync::Notify>,
}

/// The API's description, filled by the handlers' own annotations.
#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Spindle",
    description = "A media server that knows which physical disk serves every byte of every stream"
))]
struct Description;

fn described() -> OpenApiRouter<ServerState> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(health::router())
        .merge(metrics::router())
        .nest("/api/v1", api::router().merge(events::router()))
}

/// The API's description as JSON, as `/api/openapi.json` serves it.
#[must_use]
pub fn openapi_json() -> String {
    let (_, api) = described().split_for_parts();
    api.to_pretty_json().unwrap_or_default()
}

/// Every route of the server. `/media/` is here too, for HTTP/2 and what the lane leaves.
pub fn router(state: ServerState) -> Router {
    let (routes, _) = described().split_for_parts();
    let json = openapi_json();
    // A range of a compressed picture is nonsense; event streams must not wait for a block.
    let compress = SizeAbove::new(512).and(NotForContentType::IMAGES).and(NotForContentType::SSE);
    let api = routes
        .route(
            "/api/openapi.json",
            axum::routing::get(
                move || async move { ([(http::header::CONTENT_TYPE, "application/json")], json) },
            ),
        )
        .route("/api/{*rest}", axum::routing::any(no_such_route))
        .fallback(axum::routing::get(assets::get))
        .layer(CompressionLayer::new().compress_when(compress))
        .layer(TimeoutLayer::with_status_code(http::StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(120)));
    Router::new()
        .route("/media/{*rest}", axum::routing::any(media::ordinary))
        .route("/stream/{*rest}", axum::routing::any(stream::get))
        .merge(api)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn(guard::security_headers))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(state)
}

async fn no_such_route(uri: http::Uri) -> Problem {
    Problem::not_found(format!("no such route `{}`; see /api/openapi.json", uri.path()))
}

fn panicked(_payload: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    tracing::error!("a handler panicked");
    let kind = spindle_base::error::ErrorKind::Fault;
    Problem::new(kind, "the server met a fault while answering; its log says more").into_response()
}
