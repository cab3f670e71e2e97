//! A disk drive as pure code: what a request costs, given where the head is, how the platter stands and what was read ahead.
//!
//! - [`params`]: what a drive is: presets and files of `key = value`.
//! - [`drive`]: the mechanism. Times go in as numbers; nothing here reads a clock.
//! - [`queue`]: which waiting command a drive takes next, and the other ways in which a host may order them.
//!
//! `spindle simulate` runs it in virtual time, and tests/lab/disks as block devices in real time: one source for both.

pub mod drive;
pub mod params;
pub mod queue;
