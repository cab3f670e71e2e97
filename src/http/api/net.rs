//! The server's side of `spindle bench net`: bytes for whoever is signed in, for so long and to so many at once.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header;
use serde::Deserialize;
use spindle_base::error::ErrorKind;
use spindle_base::id::random_bytes;
use spindle_bench::net::{MOST_SECONDS, Taken};
use tokio::sync::OwnedSemaphorePermit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::Query;
use crate::http::guard::Viewer;

/// Bytes given at once: what one write to a socket takes.
const CHUNK: usize = 256 << 10;
/// How long a client may send nothing.
const SILENCE: Duration = Duration::from_secs(10);

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(down, up))
}

#[derive(Deserialize)]
struct Length {
    seconds: Option<u64>,
}

/// Noise for `seconds` (5; at most 60), as fast as the client takes it. As many at once as `spindle bench net` uses; more are 503.
#[utoipa::path(get, path = "/experiments/net", params(("seconds" = Option<u64>, Query)),
    responses((status = 200), (status = 400), (status = 401), (status = 503)))]
async fn down(
    _viewer: Viewer,
    State(state): State<ServerState>,
    Query(Length { seconds }): Query<Length>,
) -> Result<Response, Problem> {
    let seconds = seconds.unwrap_or(5);
    if seconds == 0 || seconds > MOST_SECONDS {
        return Err(Problem::bad_input(format!("`seconds` is a number from 1 to {MOST_SECONDS}")));
    }
    let permit = place(&state)?;
    // Some noise, over and over: making more of it would measure the processor.
    let noise = Bytes::from(random_bytes::<1024>().repeat(CHUNK / 1024));
    let until = state.clock.monotonic_us() + seconds * 1_000_000;
    let stop = state.shutdown.token();
    let body = futures_util::stream::unfold((noise, permit), move |(noise, permit)| {
        let over = state.clock.monotonic_us() >= until || stop.is_cancelled();
        std::future::ready((!over).then(|| (Ok::<_, Infallible>(noise.clone()), (noise, permit))))
    });
    // `identity`: the layer that compresses lets it be.
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_ENCODING, "identity")];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Takes a body of any length for at most 60 s, and says how much came in how long: `{bytes, seconds}`, from its first byte to
/// its last.
#[utoipa::path(post, path = "/experiments/net",
    responses((status = 200), (status = 401), (status = 503), (status = 504)))]
async fn up(
    _viewer: Viewer,
    State(state): State<ServerState>,
    request: Request,
) -> Result<Json<Taken>, Problem> {
    let _permit = place(&state)?;
    let mut body = request.into_body().into_data_stream();
    let (mut bytes, mut first, mut last) = (0_u64, None, 0);
    loop {
        let next = tokio::time::timeout(SILENCE, body.next()).await;
        let next = next.map_err(|_| Problem::new(ErrorKind::TimedOut, "nothing came for 10 s"))?;
        let Some(chunk) = next else { break };
        let chunk = chunk.map_err(|e| Problem::bad_input(format!("the body breaks off: {e}")))?;
        let now = state.clock.monotonic_us();
        bytes += chunk.len() as u64;
        last = now;
        let began = *first.get_or_insert(now);
        if now - began > MOST_SECONDS * 1_000_000 || state.shutdown.is_requested() {
            return Err(Problem::new(
                ErrorKind::TimedOut,
                format!("a body is taken for at most {MOST_SECONDS} s"),
            ));
        }
    }
    let seconds = (last - first.unwrap_or(last)) as f64 / 1e6;
    Ok(Json(Taken { bytes, seconds }))
}

/// A place among those that may be measured at once.
fn place(state: &ServerState) -> Result<OwnedSemaphorePermit, Problem> {
    let place = std::sync::Arc::clone(&state.net_places).try_acquire_owned();
    place.map_err(|_| {
        Problem::new(ErrorKind::OverLimit, "others measure the network now; try again when they have ended")
    })
}
