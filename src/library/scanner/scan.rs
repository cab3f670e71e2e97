//! One scan, phase after phase.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Backend, Config, Prober};
use crate::error::{LibraryError, Result};
use crate::{Library, ScanReport};

/// What a scan works with.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) library: Library,
    pub(super) prober: Arc<dyn Prober>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) config: Config,
}

pub(super) async fn run(
    _context: &Context,
    _library: &str,
    _stop: &CancellationToken,
    _hurry: &CancellationToken,
) -> Result<ScanReport> {
    Err(LibraryError::Unavailable("scanning is being built".to_owned()))
}
