//! The integration tests: the real server in this process, spoken to over real sockets.

mod api;
mod app;
mod experiments;
mod media;
mod playback;
mod stop;
