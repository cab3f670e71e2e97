//! Who may do what: passwords, tokens, and the signatures of media URLs. No HTTP, no SQL.

pub mod password;
pub mod signature;
pub mod throttle;
pub mod token;
