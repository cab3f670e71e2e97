//! Which way a film reaches a client: as it is, repacked, or re-encoded, and why.
//!
//! Values in, values out: a profile, a file's description and a choice give a [`Decision`]. The
//! rules are evaluated once; what delivers the film carries the decision out and never decides
//! again. No file access, no clock, no HTTP.

pub mod choose;
pub mod client;
mod compiled;
pub mod decide;
pub mod failed;
mod names;
pub mod profiles;
pub mod reason;
mod sentence;
pub mod versions;

pub use choose::{Choice, Preferences, Remembered, RememberedSubtitle, SubtitleChoice, SubtitleMode};
pub use client::{ClientProfile, ProfileError};
pub use decide::{
    Action, Decider, Decision, Delivery, Method, Protocol, Rule, RuleVerdict, SubtitleVerdict, Text,
    TrackVerdict, decide,
};
pub use failed::{Failures, signature};
pub use profiles::{Known, Origin, Profiles, Rejected, builtin, builtin_for_user_agent, builtin_names};
pub use reason::Reason;
