//! What files beside the media say about it.

pub(crate) mod nfo;
