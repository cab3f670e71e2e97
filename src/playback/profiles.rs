//! Built-in profiles: what a client is taken for that does not say what it can. A client that can
//! ask its own decoders sends its own profile, which goes before these.

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
    let wanted: String = name
        .trim()
        .chars()
        .map(|c| if c == ' ' || c == '_' { '-' } else { c.to_ascii_lowercase() })
        .collect();
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
            let parts = profile.user_agents.iter().map(|p| p.to_ascii_lowercase());
            let longest = parts.filter(|p| agent.contains(p.as_str())).map(|p| p.len()).max()?;
            Some((longest, *name))
        })
        .max_by_key(|(longest, _)| *longest)
        .map(|(_, name)| name)
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
}
