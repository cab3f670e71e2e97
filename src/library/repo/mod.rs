//! One file a table or a few that belong together: the statements, and what they give.

pub(crate) mod files;
mod folders;
mod history;
pub(crate) mod items;
pub(crate) mod libraries;
pub(crate) mod settings;
pub(crate) mod states;
mod users;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod tests_support;
