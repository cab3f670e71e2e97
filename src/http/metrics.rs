//! `GET /metrics`: Prometheus text, for loopback or a signed-in viewer.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, FromRequestParts as _, State};
use axum::response::{IntoResponse as _, Response};
use http::header;
use http::request::Parts;
use spindle_base::error::ErrorKind;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::guard::{Viewer, is_forwarded};
use crate::delivery::problem::Problem;

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Streams and disks as Prometheus reads them.
#[utoipa::path(get, path = "/metrics", responses((status = 200), (status = 401)))]
async fn metrics(
    State(state): State<ServerState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut parts: Parts,
) -> Result<Response, Problem> {
    if !peer.ip().is_loopback() || is_forwarded(&parts.headers) {
        Viewer::from_request_parts(&mut parts, &state)
            .await
            .map_err(|_| Problem::new(ErrorKind::Unauthenticated, "metrics need a token, or loopback"))?;
    }
    let text = render(&state);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn render(state: &ServerState) -> String {
    let mut out = String::new();
    let streams = state.sessions.counts();
    out.push_str("# TYPE spindle_sessions gauge\n");
    for (method, count) in streams {
        let _infallible = writeln!(out, "spindle_sessions{{method=\"{method}\"}} {count}");
    }
    out.push_str("# TYPE spindle_disk_read_bytes_per_second gauge\n");
    for rate in state.storage.disk_rates() {
        let _infallible = writeln!(
            out,
            "spindle_disk_read_bytes_per_second{{disk=\"{}\"}} {}",
            rate.disk, rate.read_bytes_per_s
        );
    }
    out
}
