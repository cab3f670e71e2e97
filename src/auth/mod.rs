//! Who may do what: passwords, tokens, the local credential, and the signatures of media URLs. No HTTP, no SQL.

pub mod local;
pub mod password;
pub mod signature;
pub mod throttle;
pub mod token;
