//! Segments and the init segment. A segment holds the same pictures and sound at the same times whichever run
//! made it; its number within the plan is its identity. An encoded picture may have other bytes when it is made
//! again, so that the tag tells one making from another.

use std::sync::Arc;

use http::{HeaderMap, Method, header};
use spindle_transcode::{Container, Rendition, Segment, TranscodeError};

use crate::delivery::entity::Entity;
use crate::delivery::problem::Problem;
use crate::delivery::reply::{Reply, Source, serve};
use crate::sessions::{Cut, Session};

/// The init segment.
pub(super) async fn init(
    session: &Session,
    rendition: &Rendition,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    respond(session, rendition.init().await, "init", "video/mp4", method, headers)
}

/// Segment `n`, made now if nobody has it.
pub(super) async fn get(
    session: &Session,
    cut: &Cut,
    n: usize,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let kind = match cut.container {
        Container::Fmp4 => "video/mp4",
        Container::Mpegts => "video/mp2t",
    };
    respond(session, cut.rendition.segment(n).await, &n.to_string(), kind, method, headers)
}

fn respond(
    session: &Session,
    made: Result<Segment, TranscodeError>,
    name: &str,
    kind: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let segment = made?;
    let entity = Entity {
        size_bytes: segment.len_bytes,
        // The URL names one session and so one plan.
        etag: format!("\"{name}-{:x}-{:x}-{:x}\"", segment.len_bytes, segment.made().0, segment.made().1),
        modified_us: 0,
    };
    let source = Source::Segment { segment: Arc::new(segment), made_from: session.file.clone() };
    let boundary = spindle_base::id::new_id();
    let mut reply = serve(method, headers, &entity, kind, &source, &boundary);
    reply.headers.remove(header::LAST_MODIFIED);
    Ok(reply.with(header::CACHE_CONTROL, "private, max-age=86400, immutable"))
}
