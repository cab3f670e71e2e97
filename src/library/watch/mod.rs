//! Where a user is in what they watch: the rules, without a database.

pub mod next_up;
pub mod resume;
