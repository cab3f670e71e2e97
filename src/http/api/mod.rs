//! `/api/v1`: one file a resource.

mod account;
mod experiments;
mod history;
mod items;
mod libraries;
mod net;
mod play;
mod sessions;
mod storage;

use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;

use super::ServerState;

/// A list as every route returns it.
#[derive(Debug, Serialize)]
struct List<T> {
    items: Vec<T>,
    total: u64,
}

impl<T> List<T> {
    fn whole(items: Vec<T>) -> Self {
        let total = items.len() as u64;
        Self { items, total }
    }
}

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .merge(account::router())
        .merge(libraries::router())
        .merge(items::router())
        .merge(play::router())
        .merge(sessions::router())
        .merge(history::router())
        .merge(storage::router())
        .merge(experiments::router())
        .merge(net::router())
}
