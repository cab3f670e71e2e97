//! The integration tests: the real server in this process, spoken to over real sockets.

mod app;
mod media;
mod api;
