//! Containers, codecs, key frames and playlists as values. No file access, no clock, no tokio:
//! a parser here reads from what it is handed (`Read + Seek`) within the limits it is handed.

pub mod codec;
mod container;
pub mod guard;
pub mod info;
pub mod keyframes;
pub mod language;
pub mod m3u8;
pub mod probe;
pub mod segments;
pub mod subtitle;
