//! Experiments on a user's own volumes and network, as `spindle bench` runs them, and the records they leave.
//!
//! - `record`: what an experiment leaves: one versioned JSON document for every kind.
//! - `store`: where these are kept: `<data-dir>/experiments`, one file each.
//! - `scratch`: the one file that an experiment writes, gone at its end whatever happens.
//! - `ground`: whether a volume may and can be written, and that file on it.
//! - `pattern`: one pattern of requests against it; `corners`, `blocks` and `copy` are made of these.
//! - `net`: between a client and a server, both ways.
//! - `knee`: where a rate falls for good.
//! - `stream`: what viewers do in a scenario, and what their players make of it.
//! - `machine`: what else the machine did meanwhile: load, kernel, other requests at the same disks.
//!
//! What is absent: HTTP, SQL, the terminal. Nothing here asks a person or prints; what is asked and said is the caller's.

pub mod blocks;
pub mod copy;
pub mod corners;
mod error;
pub mod ground;
pub mod knee;
pub mod machine;
pub mod net;
pub mod pattern;
pub mod record;
pub mod scratch;
pub mod store;
pub mod stream;

pub use error::BenchError;
pub use ground::Runner;
pub use record::{Kind, Record, Summary, VolumeSummary};
pub use store::Store;
