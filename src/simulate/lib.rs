//! What another layout would have made of recorded sessions.
//!
//! - [`layout`]: how a volume's bytes fall on its disks: Windows Storage Spaces, md, btrfs, ZFS; and the words in which one is named.
//! - [`choose`]: which copy a read goes to, as each implementation has it.
//! - [`session`]: the requests of a saved I/O record.
//! - [`replay`]: those requests on a layout of modelled disks, in virtual time.
//! - [`fit`]: how many such streams a layout carries.
//! - [`pace`]: how fast one reader or writer goes who is in a hurry, for comparisons with what others published.
//! - [`report`]: what is told, as JSON and for people.
//!
//! Pure: no file, no clock, no thread; the same input gives the same output to the last bit. The disks are those of `spindle-drive`,
//! which the devices of the tests (tests/lab/disks) share.

pub mod choose;
pub mod error;
pub mod fit;
pub mod layout;
pub mod pace;
pub mod replay;
pub mod report;
pub mod session;

pub use error::SimulateError;
pub use layout::Layout;
pub use session::Session;
