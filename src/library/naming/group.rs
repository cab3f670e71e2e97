//! Files of one folder gathered into items: versions of the same thing, pieces of a split file,
//! extras apart.

use super::{Extra, Hint, Identity};

/// A film or episode, or an extra, made of one or more files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What the files say together (that of the first version's first part).
    pub identity: Identity,
    /// Set when this is an extra.
    pub extra: Option<Extra>,
    /// Same content, other quality or cut; the first is the one shown. Never empty.
    pub versions: Vec<Version>,
}

/// One way to watch an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// What tells it from its sisters (`1080p`, `Directors Cut`); empty for the plain file.
    pub name: String,
    /// Indices into the list given to [`group`], in playing order. Never empty.
    pub parts: Vec<usize>,
}

/// Gathers `paths` (the video files of one folder, or of a film's folder and its extras' folders).
pub fn group(paths: &[&str], hint: Hint) -> Vec<Item> {
    paths
        .iter()
        .enumerate()
        .map(|(index, path)| {
            let identity = super::identify(path, hint);
            Item { extra: identity.extra, identity, versions: vec![Version { name: String::new(), parts: vec![index] }] }
        })
        .collect()
}
