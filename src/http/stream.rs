//! `/stream/{signed}/film.mp4` and `film.ts`: a converted title as one answer, for clients without
//! playlists. Segments are made as they are sent; a seek is a new request, by `?start_s=` or by DLNA's
//! `TimeSeekRange.dlna.org` (DLNA guidelines 7.4.40).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use spindle_base::error::ErrorKind;
use spindle_transcode::Container;

use super::ServerState;
use crate::delivery::problem::Problem;
use crate::sessions::{Attached, Cut, Delivery};

const TIME_SEEK: HeaderName = HeaderName::from_static("timeseekrange.dlna.org");

/// Answers GET and HEAD.
pub(super) async fn get(State(state): State<ServerState>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    if !matches!(method, Method::GET | Method::HEAD) {
        let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match answer(&state, &method, &uri, request.headers()) {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

fn answer(state: &ServerState, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Response, Problem> {
    let path = uri.path().strip_prefix("/stream/").unwrap_or_default();
    let (signed, name) = path.split_once('/').unwrap_or((path, ""));
    let attached = state.sessions.attach(signed).ok_or_else(|| {
        Problem::new(
            ErrorKind::Forbidden,
            "this media address is not valid, has expired, or its session has ended; ask for playback again",
        )
    })?;
    let Some(cut) = stream_of(&attached) else {
        return Err(Problem::not_found("this session is not played as one stream"));
    };
    let (own, kind) = match cut.container {
        Container::Fmp4 => ("film.mp4", "video/mp4"),
        Container::Mpegts => ("film.ts", "video/mp2t"),
    };
    if name != own {
        return Err(Problem::bad_input(format!("this session is played as `{own}`")));
    }
    let by_dlna = headers.get(&TIME_SEEK).and_then(|v| v.to_str().ok()).map(npt_start).transpose()?;
    let start_s = match by_dlna {
        Some(start_s) => start_s,
        None => query_start(uri)?,
    };
    let first = nearest(&cut.boundaries, start_s);
    let end_us = cut.boundaries.last().copied().unwrap_or(0);
    let begin_us = cut.boundaries.get(first).copied().unwrap_or(0);
    let body = if method == Method::HEAD { Body::empty() } else { body(Arc::new(attached), first) };
    let mut response = Response::new(body);
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Its length is not known before it is made, and the same bytes are not kept.
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    out.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A proxy that collects an answer before it passes it on would collect a film.
    out.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    if by_dlna.is_some() {
        let s = |us: i64| format!("{}.{:03}", us / 1_000_000, us / 1_000 % 1_000);
        let value = format!("npt={}-{}/{}", s(begin_us), s(end_us), s(end_us));
        if let Ok(value) = HeaderValue::from_str(&value) {
            out.insert(TIME_SEEK, value);
        }
    }
    Ok(response)
}

fn stream_of(attached: &Attached) -> Option<&Cut> {
    match &attached.delivery {
        Delivery::Stream(cut) => Some(cut),
        Delivery::File | Delivery::Hls(_) => None,
    }
}

/// The init segment where there is one, then every segment from `first`. Each is asked for when the
/// client has taken the one before; a failure cuts the answer off, which a client sees.
fn body(attached: Arc<Attached>, first: usize) -> Body {
    let next = Some(Next::Init(first));
    let stream = futures_util::stream::unfold((attached, next), |(attached, next)| async move {
        let next = next?;
        let cut = stream_of(&attached)?;
        let (made, then) = match next {
            Next::Init(first) if cut.container == Container::Fmp4 => {
                (cut.rendition.init().await, Some(Next::Segment(first)))
            }
            Next::Init(n) | Next::Segment(n) => {
                if n + 1 >= cut.boundaries.len() {
                    return None;
                }
                (cut.rendition.segment(n).await, Some(Next::Segment(n + 1)))
            }
        };
        let read = match made {
            // Written a moment ago: it comes from memory.
            Ok(segment) => tokio::task::spawn_blocking(move || segment.read())
                .await
                .unwrap_or_else(|_| Err(std::io::Error::other("the server is stopping"))),
            Err(error) => {
                tracing::warn!(session = %attached.id, %error, "a stream is cut off");
                Err(std::io::Error::other(error.to_string()))
            }
        };
        let then = then.filter(|_| read.is_ok());
        let read: std::io::Result<bytes::Bytes> = read;
        if let Ok(bytes) = &read {
            attached.file.note_derived(bytes.len() as u64);
        }
        Some((read, (attached, then)))
    });
    Body::from_stream(stream)
}

/// What comes next of a stream.
enum Next {
    /// The init segment, then this one.
    Init(usize),
    Segment(usize),
}

/// The segment that begins nearest to a time, never beyond the last.
fn nearest(boundaries: &[i64], start_s: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let at = (start_s * 1e6) as i64;
    let last = boundaries.len().saturating_sub(2);
    (0..=last).min_by_key(|n| boundaries.get(*n).map_or(i64::MAX, |b| b.abs_diff(at) as i64)).unwrap_or(0)
}

fn query_start(uri: &Uri) -> Result<f64, Problem> {
    let Some(text) =
        uri.query().into_iter().flat_map(|q| q.split('&')).find_map(|p| p.strip_prefix("start_s="))
    else {
        return Ok(0.0);
    };
    let wrong = || Problem::bad_input("`start_s` must be a number of seconds, 0 or more");
    text.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0).ok_or_else(wrong)
}

/// `npt=30.0-`, `npt=0:01:30.5-0:02:00`: seconds or hours, minutes and seconds.
fn npt_start(value: &str) -> Result<f64, Problem> {
    let wrong = || Problem::bad_input("`TimeSeekRange.dlna.org` must be npt=SECONDS- or npt=H:MM:SS-");
    let from = value.trim().strip_prefix("npt=").and_then(|v| v.split('-').next()).ok_or_else(wrong)?;
    let mut seconds = 0.0;
    let parts: Vec<&str> = from.split(':').collect();
    if parts.len() > 3 {
        return Err(wrong());
    }
    for part in parts {
        let part: f64 = part.trim().parse().map_err(|_| wrong())?;
        if !part.is_finite() || part < 0.0 {
            return Err(wrong());
        }
        seconds = seconds * 60.0 + part;
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_at_the_nearest_segment() {
        let b = [0, 7_600_000, 14_040_000, 27_400_000, 45_000_000];
        for (start_s, n) in [(0.0, 0), (3.7, 0), (3.9, 1), (14.0, 2), (44.0, 3), (1e12, 3)] {
            assert_eq!(nearest(&b, start_s), n, "{start_s}");
        }
        assert_eq!(nearest(&[], 1.0), 0);
    }

    #[test]
    fn the_two_ways_to_seek_are_read() {
        for (value, seconds) in
            [("npt=30.0-", Some(30.0)), ("npt=0:01:30.5-0:02:00", Some(90.5)), ("npt=7-", Some(7.0))]
        {
            assert_eq!(npt_start(value).ok(), seconds, "{value}");
        }
        for value in ["", "npt=", "npt=x-", "bytes=0-", "npt=1:2:3:4-", "npt=-5", "npt=nan-"] {
            assert!(npt_start(value).is_err(), "{value}");
        }
        let start = |uri: &str| query_start(&uri.parse().expect("a URI")).ok();
        assert_eq!(start("/stream/x/film.ts"), Some(0.0));
        assert_eq!(start("/stream/x/film.ts?a=b&start_s=12.5"), Some(12.5));
        assert_eq!(start("/stream/x/film.ts?start_s=-1"), None);
    }
}
