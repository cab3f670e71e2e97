//! Built-in profiles: what a client is taken for that does not say what it can. A client that can
//! ask its own decoders sends its own profile, which goes before these.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::client::ClientProfile;

macro_rules! profiles {
    ($($name:literal),+ $(,)?) => {
        /// Name and JSON of each, sorted by name.
        const BUILTIN: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("profiles/", $name, ".json")))),+
        ];
    };
}

profiles! {
    "android",
    "android-chrome",
    "android-tv",
    "apple-tv",
    "cast-audio",
    "chrome",
    "chromecast-1",
    "chromecast-2",
    "chromecast-3",
    "chromecast-google-tv",
    "chromecast-ultra",
    "dlna-generic",
    "edge",
    "fire-tv",
    "firefox",
    "firefox-149",
    "google-tv-streamer",
    "infuse",
    "ios",
    "kodi",
    "lg",
    "lg-2023",
    "mpv",
    "nest-hub",
    "panasonic",
    "philips",
    "ps4",
    "ps4-dlna",
    "roku",
    "roku-4k",
    "roku-media-player",
    "safari",
    "samsung",
    "sony",
    "tizen",
    "vlc",
    "webos",
    "xbox",
    "xbox-dlna",
}

/// The built-in profile of this name; case and blanks do not matter.
#[must_use]
pub fn builtin(name: &str) -> Option<ClientProfile> {
    let wanted = word(name);
    let (_, json) = BUILTIN.iter().find(|(name, _)| *name == wanted)?;
    // Every one is parsed in a test.
    ClientProfile::from_json(json).ok()
}

/// The names of all built-in profiles, sorted.
#[must_use]
pub fn builtin_names() -> Vec<&'static str> {
    BUILTIN.iter().map(|(name, _)| *name).collect()
}

/// The built-in profile that a `User-Agent` or a UPnP friendly name tells: the one with the longest
/// part in it, so that a television's own word goes before the engine that its browser shares.
#[must_use]
pub fn builtin_for_user_agent(user_agent: &str) -> Option<&'static str> {
    let agent = user_agent.to_ascii_lowercase();
    BUILTIN
        .iter()
        .filter_map(|(name, json)| {
            let profile = ClientProfile::from_json(json).ok()?;
            Some((longest_part(&profile, &agent)?, *name))
        })
        .max_by_key(|(longest, _)| *longest)
        .map(|(_, name)| name)
}

/// Length of the longest of the profile's words that is in `agent`, which is in lower case.
fn longest_part(profile: &ClientProfile, agent: &str) -> Option<usize> {
    let parts = profile.user_agents.iter().map(|p| p.to_ascii_lowercase());
    parts.filter(|p| agent.contains(p.as_str())).map(|p| p.len()).max()
}

/// Where a profile comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub enum Origin {
    /// Compiled in.
    Builtin,
    /// A file of the owner's; whether it stands in for a built-in one of its name.
    File {
        /// The file's name.
        file: String,
        /// Whether there is a built-in one of this name.
        replaces_builtin: bool,
    },
}

/// A profile with its name and origin.
#[derive(Debug, Clone)]
pub struct Known {
    /// The name that clients say.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// What it says.
    pub profile: ClientProfile,
}

/// A file of the owner's that is no profile, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// The file's name.
    pub file: String,
    /// What is wrong with it, naming field and place.
    pub why: String,
}

/// Every profile of this server: the built-in ones, and the owner's files, which go before them.
#[derive(Debug, Clone)]
pub struct Profiles {
    known: BTreeMap<String, Known>,
    rejected: Vec<Rejected>,
}

impl Default for Profiles {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

impl Profiles {
    /// From the owner's files: each by its name (`living-room.json`) with its text. A file that is no
    /// profile is left out and told in [`Self::rejected`]; the others are taken all the same.
    pub fn new(files: impl IntoIterator<Item = (String, Result<String, String>)>) -> Self {
        let mut known: BTreeMap<String, Known> = BTreeMap::new();
        for (name, json) in BUILTIN {
            // Every one is parsed in a test.
            if let Ok(profile) = ClientProfile::from_json(json) {
                let one = Known { name: (*name).to_owned(), origin: Origin::Builtin, profile };
                known.insert((*name).to_owned(), one);
            }
        }
        let mut rejected = Vec::new();
        for (file, text) in files {
            let read = text.and_then(|text| {
                let profile = ClientProfile::from_json(&text).map_err(|e| e.to_string())?;
                profile.check().map_err(|e| e.to_string())?;
                let name = file.strip_suffix(".json").map(word).filter(|n| is_name(n));
                let name = name.ok_or_else(|| {
                    "a profile's file is named by letters, digits and hyphens, and ends in .json".to_owned()
                })?;
                Ok((name, profile))
            });
            match read {
                Ok((name, profile)) => {
                    let replaces_builtin = BUILTIN.iter().any(|(builtin, _)| *builtin == name);
                    let origin = Origin::File { file, replaces_builtin };
                    known.insert(name.clone(), Known { name, origin, profile });
                }
                Err(why) => rejected.push(Rejected { file, why }),
            }
        }
        Self { known, rejected }
    }

    /// The profile of this name; case and blanks do not matter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ClientProfile> {
        self.known.get(&word(name)).map(|k| &k.profile)
    }

    /// Every profile, by name.
    pub fn all(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }

    /// The names, sorted, for people.
    #[must_use]
    pub fn names(&self) -> String {
        self.known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Files that are no profiles.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// The name of the profile that a `User-Agent` or a UPnP friendly name tells: the owner's own before
    /// the built-in ones, then the one with the longest part in it.
    #[must_use]
    pub fn for_user_agent(&self, user_agent: &str) -> Option<&str> {
        let agent = user_agent.to_ascii_lowercase();
        let told = |k: &Known| Some((k.origin != Origin::Builtin, longest_part(&k.profile, &agent)?));
        self.known
            .values()
            .filter_map(|k| Some((told(k)?, k.name.as_str())))
            .max_by_key(|(rank, _)| *rank)
            .map(|(_, name)| name)
    }
}

fn word(name: &str) -> String {
    name.trim().chars().map(|c| if c == ' ' || c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Protocol, SubtitleDelivery};

    #[test]
    fn every_built_in_profile_is_read_and_names_itself() {
        assert!(BUILTIN.len() >= 35);
        assert!(BUILTIN.is_sorted_by_key(|(name, _)| *name));
        for (name, json) in BUILTIN {
            let p = ClientProfile::from_json(json).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(builtin(name), Some(p.clone()), "{name}");
            assert!(!p.direct_play.is_empty() && !p.protocols.is_empty(), "{name}");
        }
        assert!(builtin("no such client").is_none());
        assert!(builtin("Apple TV").is_some());
    }

    #[test]
    fn every_client_can_be_given_something() {
        for name in builtin_names() {
            let p = builtin(name).unwrap();
            let picture = ["h264", "hevc", "mpeg2video"].iter().any(|c| p.plays_video(c));
            let sound = ["aac", "ac3", "mp3"].iter().any(|c| p.plays_audio(c));
            assert!(sound && (picture || name == "cast-audio"), "{name}");
            // A limit of a codec that nothing plays is a slip of the pen.
            for v in &p.video {
                assert!(p.plays_video(&v.codec), "{name} {}", v.codec);
            }
            for a in &p.audio {
                assert!(p.plays_audio(&a.codec), "{name} {}", a.codec);
            }
            let in_hls = p.subtitles.iter().any(|s| s.delivery == SubtitleDelivery::Hls);
            assert!(!in_hls || p.speaks(Protocol::Hls), "{name}");
        }
    }

    #[test]
    fn clients_are_told_by_their_user_agent() {
        fn of(ua: &str) -> Option<&'static str> {
            builtin_for_user_agent(ua)
        }
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
                      Chrome/156.0.0.0 Safari/537.36";
        assert_eq!(of(chrome), Some("chrome"));
        assert_eq!(of(&format!("{chrome} Edg/156.0.0.0")), Some("edge"));
        assert_eq!(
            of("Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0"),
            Some("firefox")
        );
        assert_eq!(
            of("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like \
                Gecko) Version/18.0 Safari/605.1.15"),
            Some("safari")
        );
        assert_eq!(
            of("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, \
                like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"),
            Some("ios")
        );
        assert_eq!(
            of("Mozilla/5.0 (SMART-TV; LINUX; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) \
                94.0.4606.31/7.0 TV Safari/537.36"),
            Some("tizen")
        );
        assert_eq!(of("VLC/3.0.20 LibVLC/3.0.20"), Some("vlc"));
        assert_eq!(of("Roku/DVP-14.0"), Some("roku"));
        assert_eq!(of("curl/8.0"), None);
    }

    fn files(list: &[(&str, &str)]) -> Profiles {
        Profiles::new(list.iter().map(|(file, text)| ((*file).to_owned(), Ok((*text).to_owned()))))
    }

    const TV: &str = r#"{"name": "Our TV", "direct_play": [{"container": "mp4", "video": ["h264"],
        "audio": ["aac"]}], "user_agents": ["OurTV/"]}"#;

    #[test]
    fn the_owners_files_go_before_the_built_in_ones() {
        let p = files(&[("Living Room.json", TV), ("chrome.json", TV)]);
        assert_eq!(p.get("living-room").unwrap().name, "Our TV");
        assert_eq!(p.get("Chrome").unwrap().name, "Our TV");
        assert_eq!(p.get("firefox"), builtin("firefox").as_ref());
        assert_eq!(p.all().count(), BUILTIN.len() + 1);
        assert!(p.rejected().is_empty());
        let origin = |name: &str| p.all().find(|k| k.name == name).unwrap().origin.clone();
        let file = "chrome.json".to_owned();
        assert_eq!(origin("chrome"), Origin::File { file, replaces_builtin: true });
        assert_eq!(origin("firefox"), Origin::Builtin);
        assert_eq!(p.for_user_agent("Mozilla/5.0 Chrome/150 OurTV/2"), Some("living-room"));
        assert_eq!(p.for_user_agent("VLC/3.0 LibVLC/3.0"), Some("vlc"));
    }

    #[test]
    fn a_file_that_is_no_profile_is_told_and_the_others_are_taken() {
        let unreadable = ("gone.json".to_owned(), Err("permission denied".to_owned()));
        let texts = [
            ("good.json", TV),
            ("bad.json", "{\"name\": \"x\", \"direct_play\": [], \"vidoe\": []}"),
            ("empty.json", r#"{"name": "x", "direct_play": []}"#),
            (
                "mute.json",
                r#"{"name": "x", "protocols": [], "direct_play": [{"container": "mp4", "audio": ["aac"]}]}"#,
            ),
            ("../etc.json", TV),
            ("notes.txt", TV),
        ];
        let texts = texts.map(|(file, text)| (file.to_owned(), Ok(text.to_owned())));
        let p = Profiles::new(texts.into_iter().chain([unreadable]));
        assert!(p.get("good").is_some());
        let why = |file: &str| p.rejected().iter().find(|r| r.file == file).map(|r| r.why.as_str()).unwrap();
        assert!(
            why("bad.json").contains("vidoe") && why("bad.json").contains("line 1"),
            "{}",
            why("bad.json")
        );
        assert!(why("empty.json").contains("names a codec"));
        assert!(why("mute.json").contains("`protocols` is empty"));
        assert!(why("../etc.json").contains("letters, digits"));
        assert!(why("notes.txt").contains(".json"));
        assert_eq!(why("gone.json"), "permission denied");
        assert_eq!(p.rejected().len(), 6);
    }
}
