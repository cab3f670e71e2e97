//! `GET /api/v1/events`: server-sent events (WHATWG HTML section 9.2).

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, StreamExt as _};
use serde_json::json;
use spindle_library as library;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::guard::Viewer;
use crate::sessions;

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Scans, sessions, disk rates (1 Hz), changes of the library, notices.
#[utoipa::path(get, path = "/events", responses((status = 200, description = "text/event-stream")))]
async fn events(
    viewer: Viewer,
    State(state): State<ServerState>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let asker = Asker::of(&viewer);
    let owns = viewer.user.role == library::Role::Admin;
    let library = BroadcastStream::new(state.library.subscribe()).map(move |event| match event {
        Ok(event) => of_library(&event, owns),
        Err(BroadcastStreamRecvError::Lagged(lost)) => missed(lost),
    });
    let live = BroadcastStream::new(state.sessions.subscribe()).filter_map(move |event| {
        let told = match event {
            Ok(event) => event.for_user(&viewer.user).map(|event| match event {
                sessions::Event::Session(view) => named("session", &view),
                sessions::Event::Io(rates) => named("io", &rates),
                sessions::Event::Notice(notice) => named("notice", &notice),
            }),
            Err(BroadcastStreamRecvError::Lagged(lost)) => Some(missed(lost)),
        };
        std::future::ready(told)
    });
    let until = state.shutdown.token();
    let stream = futures_util::stream::select(library, live)
        .take_until(async move { until.cancelled().await })
        .take_until(async move { asker.gone(&state).await })
        .map(Ok);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(20)))
}

/// How often a stream looks whether its token still holds where nobody said so: the command line ends tokens, too.
const LOOK: Duration = Duration::from_secs(10);

/// Whom a stream was opened for.
struct Asker {
    token_hash: [u8; 32],
    user: String,
    role: library::Role,
}

impl Asker {
    fn of(viewer: &Viewer) -> Self {
        Self { token_hash: viewer.token_hash, user: viewer.user.id.clone(), role: viewer.user.role }
    }

    /// Resolves when the token has been revoked or has expired, or the account has become another one. What the
    /// stream may tell was decided for the one that it was opened for: a client that still may signs on again.
    async fn gone(self, state: &ServerState) {
        loop {
            // Listens before it looks: what is said in between is heard.
            let told = state.signed_out.notified();
            match state.library.user_of_token(&self.token_hash).await {
                Ok(Some(user)) if user.id == self.user && user.role == self.role => {}
                Ok(_) => return,
                // A database that does not answer just now says nothing about the token.
                Err(error) => tracing::debug!(%error, "unable to look whether an event stream's token holds"),
            }
            let _whichever_comes_first = tokio::time::timeout(LOOK, told).await;
        }
    }
}

/// A listener that fell behind asks for the state anew.
fn missed(lost: u64) -> Event {
    named("notice", &json!({ "code": "events_lost", "lost": lost }))
}

fn named(name: &str, data: &impl serde::Serialize) -> Event {
    Event::default()
        .event(name)
        .json_data(data)
        .unwrap_or_else(|_| Event::default().event("notice").data("{}"))
}

/// Reports and reasons name folders of this machine: they are for the owner.
fn of_library(event: &library::Event, owns: bool) -> Event {
    use library::Event as E;
    match event {
        E::Library { revision } => named("library", &json!({ "revision": revision })),
        E::ScanStarted { library } => named("scan", &json!({ "library": library, "phase": "started" })),
        E::ScanProgress { library, phase, done, total } => {
            named("scan", &json!({ "library": library, "phase": phase, "done": done, "total": total }))
        }
        E::ScanFinished { library, report } => {
            let report = owns.then_some(report);
            named("scan", &json!({ "library": library, "phase": "finished", "report": report }))
        }
        E::Watching { library, watching } => {
            let watching = owns.then_some(watching);
            named("notice", &json!({ "code": "watching", "library": library, "watching": watching }))
        }
        E::ScanFailed { library, reason } => {
            let reason = owns.then_some(reason);
            named("scan", &json!({ "library": library, "phase": "failed", "reason": reason }))
        }
    }
}
