//! Spindle's side of the FFmpeg worker. Nothing here links FFmpeg.
//!
//! - [`protocol`], [`wire`]: what server and worker say to each other, and how it is framed.
//! - `process`, `pool`: starting, watching and killing worker processes.
//! - `prober`, `job`: one file in, one description (or subtitle, or picture) out.
//! - [`rendition`]: segments of one title cut one way, made by workers on demand. What to start,
//!   grant, seek and stop is decided by the pure [`window`]; finished segments live in [`cache`].
//! - [`restart`]: clocks of transport streams that begin anew, found and mended.
//! - [`original`]: subtitles as the file has them, as files of their own.
//! - [`fmp4`], [`ts`], [`bitstream`]: the pure parts of segment writing, used by the worker and tested here.

pub mod bitstream;
pub mod cache;
mod error;
pub mod fmp4;
mod job;
pub mod original;
mod plan;
mod pool;
mod prober;
mod process;
pub mod protocol;
pub mod rendition;
pub mod restart;
mod transcoder;
pub mod ts;
pub mod window;
pub mod wire;

pub use cache::Segment;
pub use error::TranscodeError;
pub use plan::{AudioPlan, Boundaries, Container, FileKey, Picture, Plan, RenditionKey, VideoPlan};
pub use protocol::{Sandbox, WorkerRead};
pub use rendition::{BoxFuture, Input, InputFile, Rendition, RenditionStatus, WorkerStatus};
pub use transcoder::{Config, Transcoder, WorkerInfo};
