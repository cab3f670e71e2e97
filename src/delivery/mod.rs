//! Bytes to a client: conditional and range requests, the reply that both lanes send, the fast
//! lane (sendfile on the socket) and the ordinary one (a body of buffers, for HTTP/2 and TLS).
//!
//! Knows files and segments as sources of bytes; not sessions, items or plans.

pub mod answers;
pub mod connection;
pub mod connections;
pub mod entity;
pub mod lane;
pub mod problem;
pub mod range;
pub mod reply;
