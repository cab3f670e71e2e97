//! What every room may use: the clock, error kinds, shutdown, ordered locks, units and ids.
//!
//! A closed list: a seventh file needs a decision record in `docs/adr/`. Nothing here knows
//! media, disks, SQL or HTTP.

pub mod clock;
pub mod error;
pub mod id;
pub mod shutdown;
pub mod sync;
pub mod units;
