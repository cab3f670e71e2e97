//! One signal that says "stop", and a tracker that waits until everything has.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Handed to every component that runs tasks: it tells them to stop and waits for them.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// A signal that has not been given yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task that `close` will wait for. `name` stands in the log when it ends.
    pub fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(async move {
            task.await;
            tracing::trace!(task = name, "task ended");
        });
    }

    /// Resolves when `close` or `begin` was called.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// The token itself, for code that takes one.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Whether it is time to stop.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Gives the signal without waiting.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Gives the signal and waits for every task, at most `patience`. `false` if some still run.
    pub async fn close(&self, patience: Duration) -> bool {
        self.token.cancel();
        self.tasks.close();
        tokio::time::timeout(patience, self.tasks.wait()).await.is_ok()
    }
}
