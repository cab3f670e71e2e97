//! The structure of containers, walked before any parser sees them.

pub(crate) mod ebml;
pub(crate) mod isobmff;
