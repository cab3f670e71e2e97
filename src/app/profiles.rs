//! The owner's client profiles: `profiles/*.json` in the data directory, read once at start.

use std::io::Read as _;
use std::path::Path;

use spindle_playback::Profiles;

use crate::config::regular_file;

/// The folder in the data directory.
const FOLDER: &str = "profiles";
/// Files that are looked at; a folder of more is not one of profiles.
const MAX_FILES: usize = 500;
/// Bytes of one file; the reader refuses what is longer.
const MAX_BYTES: u64 = 65 << 10;

/// Every profile of this server. A file that is none is logged with the reason and left out; the
/// others are taken all the same.
#[must_use]
pub fn load(data_dir: &Path) -> Profiles {
    let folder = data_dir.join(FOLDER);
    let mut files = Vec::new();
    match std::fs::read_dir(&folder) {
        Ok(entries) => {
            let mut paths: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
            paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
            paths.sort();
            if paths.len() > MAX_FILES {
                tracing::warn!(folder = %folder.display(), files = paths.len(), "only the first {MAX_FILES} client profiles are read");
                paths.truncate(MAX_FILES);
            }
            for path in paths {
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                files.push((name, read(&path).map_err(|e| format!("unable to read it: {e}"))));
            }
        }
        // Nobody has to have profiles of their own.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "unable to list the client profiles");
        }
    }
    let profiles = Profiles::new(files);
    for one in profiles.rejected() {
        tracing::warn!(file = %folder.join(&one.file).display(), why = %one.why, "a client profile is left out");
    }
    profiles
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    regular_file::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owners_profiles_are_read_and_bad_ones_told() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(load(dir.path()).rejected().is_empty(), "no folder is no fault");
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).expect("a folder");
        let good =
            r#"{"name": "Den", "direct_play": [{"container": "mp4", "video": ["h264"], "audio": ["aac"]}]}"#;
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
        write("den.json", good);
        write("broken.json", "{");
        write("long.json", &format!("{good}{}", " ".repeat(70 << 10)));
        write("readme.txt", "not a profile");
        let profiles = load(dir.path());
        assert_eq!(profiles.get("den").map(|p| p.name.as_str()), Some("Den"));
        let rejected: Vec<&str> = profiles.rejected().iter().map(|r| r.file.as_str()).collect();
        assert_eq!(rejected, ["broken.json", "long.json"]);
    }
}
