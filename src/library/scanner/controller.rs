//! Takes requests for scans, makes one of many, runs one at a time a library.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use spindle_base::shutdown::Shutdown;
use spindle_base::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::follow::{Asks, Follower, WatchedBy, Watching};
use super::scan::{self, Context};
use super::{Backend, Config, Prober, artwork};
use crate::error::{LibraryError, Result};
use crate::{Event, Library, ScanReport};

type Waiter = oneshot::Sender<std::result::Result<ScanReport, Arc<LibraryError>>>;

/// Scans on request. Cheap to clone. Needs a tokio runtime.
#[derive(Clone)]
pub struct Controller {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    shutdown: Shutdown,
    running: Mutex<HashMap<String, Running>, 30>,
    /// What goes on behind finished scans, by library.
    behind: Mutex<HashMap<String, Behind>, 31>,
}

/// Pictures that are being taken out of a library's files.
struct Behind {
    cancel: CancellationToken,
    /// Turns true at the end.
    done: watch::Receiver<bool>,
}

/// A library that is being scanned.
struct Running {
    /// Ends the probing of the scan that runs, so that new names do not wait for it.
    hurry: CancellationToken,
    /// Someone asked again since it began: it will run once more.
    again: bool,
    /// Who waits for the scan that runs, and for the one after it.
    now: Vec<Waiter>,
    next: Vec<Waiter>,
}

/// What the follower asks for, from its own thread.
struct AskController {
    /// Weak: the controller holds the follower.
    controller: Weak<Inner>,
    runtime: Handle,
}

impl Asks for AskController {
    fn scan(&self, library: &str) {
        if let Some(inner) = self.controller.upgrade() {
            let _runtime = self.runtime.enter();
            Controller { inner }.request(library);
        }
    }

    fn rests(&self, folder: &Path) -> bool {
        self.controller.upgrade().is_some_and(|inner| inner.context.backend.rests(folder))
    }

    fn tell(&self, library: &str, watching: &Watching) {
        let Some(inner) = self.controller.upgrade() else { return };
        let why = watching.why.as_deref().unwrap_or_default();
        match watching.by {
            WatchedBy::Kernel => {
                tracing::debug!(library.id = library, "the folders of a library are watched")
            }
            WatchedBy::Timer => {
                tracing::warn!(library.id = library, why, "a library's folders are looked at now and then");
            }
            WatchedBy::Nobody => {
                tracing::warn!(library.id = library, why, "changes of a library show after a scan only");
            }
        }
        let (library, watching) = (library.to_owned(), watching.clone());
        inner.context.library.emit(Event::Watching { library, watching });
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller for `library`. Scans end early when `shutdown` is requested.
    #[must_use]
    pub fn start(
        library: Library,
        prober: Arc<dyn Prober>,
        backend: Arc<dyn Backend>,
        config: Config,
        shutdown: Shutdown,
    ) -> Self {
        let inner = Arc::new_cyclic(|controller| {
            let follower = config.follow.and_then(|follow| {
                let asks = AskController { controller: Weak::clone(controller), runtime: Handle::current() };
                let started = Follower::start(follow, asks);
                started
                    .inspect_err(
                        |error| tracing::warn!(%error, "changes of folders are not noticed: ask for scans"),
                    )
                    .ok()
            });
            let context = Context { library, prober, backend, config, follower: follower.map(Arc::new) };
            Inner { context, shutdown, running: Mutex::default(), behind: Mutex::default() }
        });
        if let Some(follower) = inner.context.follower.clone() {
            let shutdown = inner.shutdown.clone();
            inner.shutdown.spawn("library-watch", async move {
                shutdown.requested().await;
                follower.stop();
            });
        }
        Self { inner }
    }

    /// How changes of a library's folders are noticed.
    #[must_use]
    pub fn watching(&self, library: &str) -> Watching {
        let nobody = |why: &str| Watching { by: WatchedBy::Nobody, why: Some(why.to_owned()) };
        match &self.inner.context.follower {
            None => nobody("watching is switched off by the setting `scan.watch`"),
            Some(follower) => {
                follower.watching(library).unwrap_or_else(|| nobody("watching begins with the first scan"))
            }
        }
    }

    /// A library has left the index: nothing of it is looked at any more.
    pub fn forget(&self, library: &str) {
        if let Some(follower) = &self.inner.context.follower {
            follower.forget(library);
        }
    }

    /// Asks for a scan and returns. Requests that come while one runs become one more after it.
    pub fn request(&self, library: &str) {
        self.enqueue(library, None);
    }

    /// Asks for a scan and waits for its report.
    ///
    /// # Errors
    /// `NotFound` for an unknown library, `Unavailable` when the server stops meanwhile.
    pub async fn scan(&self, library: &str) -> Result<ScanReport> {
        self.inner.context.library.library(library).await?;
        let (tx, rx) = oneshot::channel();
        self.enqueue(library, Some(tx));
        match rx.await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(shared)) => {
                Err(Arc::try_unwrap(shared).unwrap_or_else(|e| LibraryError::Unavailable(e.to_string())))
            }
            Err(_) => Err(LibraryError::Unavailable("the scan was stopped".to_owned())),
        }
    }

    /// Ids of the libraries that are being scanned.
    #[must_use]
    pub fn scanning(&self) -> Vec<String> {
        self.inner.running.lock().keys().cloned().collect()
    }

    /// Ids of the libraries from whose files pictures are being taken, behind their scan.
    #[must_use]
    pub fn taking_pictures(&self) -> Vec<String> {
        let behind = self.inner.behind.lock();
        // A sender that is gone has ended, too.
        let goes_on = |b: &Behind| !*b.done.borrow() && b.done.has_changed().is_ok();
        behind.iter().filter(|(_, b)| goes_on(b)).map(|(id, _)| id.clone()).collect()
    }

    fn enqueue(&self, library: &str, waiter: Option<Waiter>) {
        let mut running = self.inner.running.lock();
        if let Some(at) = running.get_mut(library) {
            at.again = true;
            at.hurry.cancel();
            at.next.extend(waiter);
            return;
        }
        let state = Running {
            hurry: self.inner.shutdown.token().child_token(),
            again: false,
            now: waiter.into_iter().collect(),
            next: Vec::new(),
        };
        let hurry = state.hurry.clone();
        running.insert(library.to_owned(), state);
        drop(running);
        let (controller, library) = (self.clone(), library.to_owned());
        self.inner.shutdown.spawn("library-scan", async move { controller.run(library, hurry).await });
    }

    /// Waits until the pictures of a library's files have been taken out, or that was stopped.
    pub async fn pictures(&self, library: &str) {
        let done = self.inner.behind.lock().get(library).map(|b| b.done.clone());
        if let Some(mut done) = done {
            // A sender that is gone has ended too.
            drop(done.wait_for(|done| *done).await);
        }
    }

    fn take_pictures(&self, library: String) {
        let cancel = self.inner.shutdown.token().child_token();
        let (tell, done) = watch::channel(false);
        self.inner.behind.lock().insert(library.clone(), Behind { cancel: cancel.clone(), done });
        let controller = self.clone();
        self.inner.shutdown.spawn("library-pictures", async move {
            if let Err(e) = artwork::inside(&controller.inner.context, &library, &cancel).await {
                tracing::warn!(library.id = library, error = %e, "pictures could not be taken out of files");
            }
            tell.send_replace(true);
        });
    }

    /// Scans until nobody has asked again.
    async fn run(&self, library: String, mut hurry: CancellationToken) {
        if let Some(behind) = self.inner.behind.lock().remove(&library) {
            behind.cancel.cancel();
        }
        loop {
            let events = &self.inner.context.library;
            events.emit(Event::ScanStarted { library: library.clone() });
            let stop = self.inner.shutdown.token();
            let outcome = scan::run(&self.inner.context, &library, &stop, &hurry).await;
            let incoming = outcome.as_ref().is_ok_and(|r| r.incoming > 0);
            match &outcome {
                Ok(report) => {
                    events.emit(Event::ScanFinished { library: library.clone(), report: report.clone() })
                }
                Err(e) => {
                    tracing::warn!(library.id = library, error = %e, "a scan failed");
                    events.emit(Event::ScanFailed { library: library.clone(), reason: e.to_string() });
                }
            }
            let scanned = outcome.is_ok();
            // Before anybody hears that the scan is over, so that who waits for the pictures finds them begun.
            if scanned && !self.is_asked_again(&library) {
                self.take_pictures(library.clone());
            }
            let Some(next) = self.finish(&library, outcome.map_err(Arc::new)) else {
                if incoming {
                    self.retry_later(library);
                }
                return;
            };
            // Somebody asked between the two: the pictures wait for the end of that scan.
            if let Some(behind) = self.inner.behind.lock().remove(&library) {
                behind.cancel.cancel();
            }
            hurry = next;
        }
    }

    fn is_asked_again(&self, library: &str) -> bool {
        self.inner.running.lock().get(library).is_some_and(|state| state.again)
    }

    /// Answers those who waited. The signal of the next scan, or `None` when the library is idle.
    fn finish(
        &self,
        library: &str,
        outcome: std::result::Result<ScanReport, Arc<LibraryError>>,
    ) -> Option<CancellationToken> {
        let mut running = self.inner.running.lock();
        let stopping = self.inner.shutdown.is_requested();
        let (waiters, next) = match running.get_mut(library) {
            Some(state) if state.again && !stopping => {
                state.again = false;
                state.hurry = self.inner.shutdown.token().child_token();
                let next = std::mem::take(&mut state.next);
                (std::mem::replace(&mut state.now, next), Some(state.hurry.clone()))
            }
            // Dropping the waiters of a scan that will not come tells them so.
            _ => (running.remove(library).map(|s| s.now).unwrap_or_default(), None),
        };
        drop(running);
        for waiter in waiters {
            drop(waiter.send(outcome.clone()));
        }
        next
    }

    fn retry_later(&self, library: String) {
        let controller = self.clone();
        self.inner.shutdown.spawn("library-scan-incoming", async move {
            let wait = controller.inner.context.config.incoming_retry;
            tokio::select! {
                () = tokio::time::sleep(wait) => controller.request(&library),
                () = controller.inner.shutdown.requested() => {}
            }
        });
    }
}
