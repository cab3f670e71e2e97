//! Experiments on a user's own volumes and network, as `spindle bench` runs them, and the records they leave.
//!
//! - `record`: what an experiment leaves: one versioned JSON document for every kind.
//! - `store`: where these are kept: `<data-dir>/experiments`, one file each.
//! - `stream`: what viewers do in a scenario, and what their players make of it.
//! - `machine`: what else the machine did meanwhile: load, kernel, other requests at the same disks.
//!
//! What is absent: HTTP, SQL, the terminal. Nothing here asks a person or prints; what is asked and said is the caller's.

mod error;
pub mod machine;
pub mod record;
pub mod store;
pub mod stream;

pub use error::BenchError;
pub use record::{Kind, Record, Summary, VolumeSummary};
pub use store::Store;
