//! Disks for tests.
//!
//! - [`params`], [`drive`], [`queue`]: the drive as pure code, of the crate `spindle-drive` (src/drive), which `spindle simulate`
//!   uses as well: what is predicted and what it is checked against have one source.
//! - [`layout`]: how a volume's bytes fall on its disks, for simulated volumes.
//! - [`simulate`]: readers on a volume in virtual time: deterministic, without sleeping.
//! - [`replay`]: recorded sessions on a layout of devices, in real time: what `spindle simulate` is held against.
//! - [`fault`]: what a device may be told to do wrong.
//! - [`device`]: a file that answers like the drive, in real time, with a log of every request.
//! - [`figures`]: what docs/striping.md tells of layouts.
//! - [`fuse`], [`nbd`]: the two ways in which a kernel or a virtual machine reaches a device.
//! - [`control`]: the socket by which a test turns delays and faults on and off.
//!
//! The log of a device is the ground truth of a test: it is written by the side that served the request.

pub mod control;
pub mod device;
pub mod fault;
pub mod figures;
pub mod fuse;
pub mod layout;
pub mod log;
pub mod nbd;
pub mod replay;
pub mod simulate;

pub use spindle_drive::{drive, params, queue};
