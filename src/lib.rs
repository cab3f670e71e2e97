//! Spindle, a media server that knows which physical disk serves every byte of every stream.
//!
//! The rooms of this crate, from the outside in (`docs/ARCHITECTURE.md` has the rest):
//!
//! - [`cli`]: one file a command.
//! - [`app`]: puts the parts together, runs them, stops them in order.
//! - [`http`], [`hls`]: requests. No SQL, no decisions, no FFmpeg.
//! - [`delivery`]: bytes to a client: ranges, the sendfile lane, the ordinary lane.
//! - [`sessions`]: live playback: open, progress, close; what each session's disks did.
//! - [`auth`]: passwords, tokens, signatures.
//! - [`config`]: settings and where each came from.

pub mod app;
pub mod auth;
pub mod cli;
pub mod config;
pub mod delivery;
pub mod examine;
pub mod hls;
pub mod http;
pub mod sessions;
