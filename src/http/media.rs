//! `/media/{signed}/…`: verifies, attaches, and lets delivery or hls answer. Both lanes come here.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use spindle_base::error::ErrorKind;

use super::ServerState;
use crate::delivery::connection::{Media, MediaRequest, ReplyFuture};
use crate::delivery::entity::Entity;
use crate::delivery::problem::Problem;
use crate::delivery::reply::{self, Reply, Source};
use crate::hls;
use crate::sessions::{Attached, Delivery, Session, Sessions};

/// What answers media requests in either lane.
#[derive(Clone)]
pub struct MediaLane {
    sessions: Sessions,
    storage: spindle_storage::Storage,
    transcoder: spindle_transcode::Transcoder,
    subtitles: Arc<hls::subtitle::Cache>,
}

impl MediaLane {
    /// A lane over the rooms that it needs.
    #[must_use]
    pub fn new(
        sessions: Sessions,
        storage: spindle_storage::Storage,
        transcoder: spindle_transcode::Transcoder,
    ) -> Self {
        Self { sessions, storage, transcoder, subtitles: Arc::default() }
    }

    /// Answers; the second value keeps the session alive while the body is sent.
    async fn get(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> (Reply, Option<Attached>) {
        match self.try_get(method, uri, headers).await {
            Ok((reply, attached)) => (reply.with_cors(), Some(attached)),
            Err(problem) => (Reply::of_problem(&problem).with_cors(), None),
        }
    }

    async fn try_get(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(Reply, Attached), Problem> {
        let path = uri.path().strip_prefix("/media/").unwrap_or_default();
        let (signed, rest) = path.split_once('/').unwrap_or((path, ""));
        let attached = self.sessions.attach(signed).ok_or_else(|| {
            Problem::new(
                ErrorKind::Forbidden,
                "this media address is not valid, has expired, or its session has ended; ask for playback again",
            )
        })?;
        let session: &Session = &attached;
        let reply = match rest.split_once('/') {
            // Its address has one name; a film behind any other would look like a file that a client named.
            Some(("file", name)) if name.starts_with("stream.") => file(session, method, headers)?,
            Some(("hls", name)) => hls::get(session, name, method, headers).await?,
            Some((kind @ ("subtitles" | "fonts"), name)) => {
                let tools = hls::subtitle::Tools {
                    storage: &self.storage,
                    transcoder: &self.transcoder,
                    cache: &self.subtitles,
                };
                if kind == "fonts" {
                    hls::subtitle::font(session, name, &tools, method, headers).await?
                } else {
                    hls::subtitle::get(session, name, &tools, method, headers).await?
                }
            }
            _ => return Err(Problem::not_found("no such media")),
        };
        Ok((reply, attached))
    }
}

impl Media for MediaLane {
    fn answer(&self, request: MediaRequest) -> ReplyFuture {
        let lane = self.clone();
        Box::pin(async move {
            let (reply, attached) = lane.get(&request.method, &request.uri, &request.headers).await;
            reply.holding(attached)
        })
    }
}

/// The file as it is.
fn file(session: &Session, method: &Method, headers: &HeaderMap) -> Result<Reply, Problem> {
    if !matches!(session.delivery, Delivery::File) {
        return Err(Problem::not_found("this session plays segments, not a file"));
    }
    let id = session.file.identity();
    let entity = Entity {
        size_bytes: session.file.size_bytes(),
        // Every field that changes when the bytes do. The change time catches a rewrite that
        // kept size and modification time.
        etag: format!("\"{:x}-{:x}-{:x}-{:x}\"", id.ino, id.size_bytes, id.modified_us, id.changed_us),
        modified_us: id.modified_us,
    };
    let source = Source::File(session.file.clone());
    let boundary = spindle_base::id::new_id();
    let reply = reply::serve(method, headers, &entity, session.content_type, &source, &boundary);
    Ok(reply.with(header::CACHE_CONTROL, "private, max-age=86400"))
}

/// The ordinary lane: HTTP/2, requests with odd heads, other methods.
pub(super) async fn ordinary(State(state): State<ServerState>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    match method {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return preflight(),
        _ => {
            let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return response;
        }
    }
    let (mut reply, attached) = state.media.get(&method, &uri, request.headers()).await;
    if method != Method::HEAD
        && let Err(problem) = reply.first_bytes().await
    {
        reply = Reply::of_problem(&problem).with_cors();
    }
    let length = reply.body_bytes();
    let body = if method == Method::HEAD || reply.parts.is_empty() {
        Body::empty()
    } else {
        use futures_util::StreamExt as _;
        // The stream owns the attachment: the session lives until the last byte.
        let stream = reply::stream(reply.parts).map(move |piece| {
            let _held = &attached;
            piece
        });
        Body::from_stream(stream)
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    if reply.status != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// A cast device asks first whether it may send a `Range` (Fetch standard, CORS preflight).
fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "Range, If-Range, If-None-Match, If-Modified-Since, Content-Type, Accept-Encoding",
        ),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}
