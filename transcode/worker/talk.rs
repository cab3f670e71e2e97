//! The worker's end of the socket. One thread receives; its end is the end of the process, so
//! that no worker outlives its server.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use spindle_transcode::protocol::{Reply, Request};
use spindle_transcode::wire;

use crate::ff::Fail;

/// A request with its descriptors.
pub(crate) type Incoming = (Request, Vec<OwnedFd>);

/// Sends replies, receives requests.
pub(crate) struct Talk {
    say: Say,
    pub(crate) inbox: mpsc::Receiver<Incoming>,
}

impl Talk {
    pub(crate) fn start(socket: OwnedFd) -> std::io::Result<Self> {
        let socket = Arc::new(socket);
        let (tell, inbox) = mpsc::channel();
        let reading = Arc::clone(&socket);
        std::thread::Builder::new().name("requests".to_owned()).spawn(move || {
            let mut receiver = wire::Receiver::default();
            loop {
                match receiver.recv::<Request>(reading.as_fd()) {
                    Ok(Some((request, fds))) if request.descriptors() == fds.len() => {
                        if tell.send((request, fds)).is_err() {
                            std::process::exit(0);
                        }
                    }
                    Ok(Some(_)) | Err(_) => std::process::exit(3),
                    // The server is gone or has no use for us.
                    Ok(None) => std::process::exit(0),
                }
            }
        })?;
        Ok(Self { say: Say(Arc::new(Mutex::new(socket))), inbox })
    }

    /// The next request. Ends the process when the server is gone.
    pub(crate) fn next(&self) -> Incoming {
        match self.inbox.recv() {
            Ok(incoming) => incoming,
            Err(_) => std::process::exit(0),
        }
    }

    pub(crate) fn send(&self, reply: &Reply) {
        self.say.send(reply);
    }

    pub(crate) fn fail(&self, fail: Fail) {
        self.say.fail(fail);
    }

    /// The sending half, for another thread.
    pub(crate) fn say(&self) -> Say {
        self.say.clone()
    }
}

/// Sends replies. One at a time: a message may go out in pieces.
#[derive(Clone)]
pub(crate) struct Say(Arc<Mutex<Arc<OwnedFd>>>);

impl Say {
    pub(crate) fn send(&self, reply: &Reply) {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wire::send(socket.as_fd(), reply).is_err() {
            std::process::exit(0);
        }
    }

    pub(crate) fn fail(&self, fail: Fail) {
        self.send(&Reply::Failed { kind: fail.kind, reason: fail.reason });
    }
}
