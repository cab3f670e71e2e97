//! Disks for tests.
//!
//! - [`params`]: what a drive is: presets and files of `key = value`.
//! - [`drive`]: the mechanism as pure code: where the head is, what a request costs. Times go in as numbers;
//!   nothing here reads a clock.
//! - [`queue`]: which waiting command a drive takes next, and the other ways in which a host may order them.
//! - [`layout`]: how a volume's bytes fall on its disks, for simulated volumes.
//! - [`simulate`]: readers on a volume in virtual time: deterministic, without sleeping.
//! - [`fault`]: what a device may be told to do wrong.
//! - [`device`]: a file that answers like the drive, in real time, with a log of every request.
//! - [`fuse`], [`nbd`]: the two ways in which a kernel or a virtual machine reaches a device.
//! - [`control`]: the socket by which a test turns delays and faults on and off.
//!
//! The log of a device is the ground truth of a test: it is written by the side that served the request.

pub mod control;
pub mod device;
pub mod drive;
pub mod fault;
pub mod fuse;
pub mod layout;
pub mod log;
pub mod nbd;
pub mod params;
pub mod queue;
pub mod simulate;
