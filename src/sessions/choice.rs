//! What a viewer likes, what was chosen for a series, and what failed on a client: kept between
//! sessions, handed to the decision. Nothing is decided here.

use serde::{Deserialize, Serialize};
use spindle_library::{Playable, User};
use spindle_media::info::MediaInfo;
use spindle_playback::versions::{self, Version};
use spindle_playback::{
    Choice, ClientProfile, Decider, Decision, Method, Preferences, Reason, Remembered, RuleVerdict, Text,
    signature,
};

use super::{Open, SessionError, Sessions};

/// Series whose tracks are kept for one viewer; the one that was not touched the longest goes first.
const MAX_SERIES: usize = 500;
/// Languages in one list.
const MAX_LANGUAGES: usize = 16;

/// What the database keeps: series and choice, the latest last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept(Vec<(String, Remembered)>);

/// How an item would play.
#[derive(Debug, Clone, Serialize)]
pub struct DryRun {
    /// Name of the client.
    pub client: String,
    /// Each version; the one that `/play` would take is `chosen`.
    pub versions: Vec<DryVersion>,
}

/// How one version would play.
#[derive(Debug, Clone, Serialize)]
pub struct DryVersion {
    /// The version's id.
    pub version: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The edition, where it is not the plain film.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edition: Option<String>,
    /// Its first file, below its library.
    pub file: String,
    /// Whether its files were there at the last scan.
    pub available: bool,
    /// Whether it is the one that would play.
    pub chosen: bool,
    /// The decision with every rule; absent with `why_not`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// How it plays, in one sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Why it does not go out as it is.
    pub reasons: Vec<ReasonView>,
    /// Why nothing can be told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// A reason with its sentence, and the rule that failed for it.
#[derive(Debug, Clone, Serialize)]
pub struct ReasonView {
    /// From the closed list.
    pub code: Reason,
    /// For people.
    pub text: &'static str,
    /// What the client takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Text>,
    /// What the file has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Text>,
    /// The stream that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
}

/// The reasons of a decision, for people.
#[must_use]
pub fn reasons(decision: &Decision) -> Vec<ReasonView> {
    let view = |code: &Reason| {
        let rule = decision.rule_of(*code).filter(|r| r.verdict == RuleVerdict::Fail);
        ReasonView {
            code: *code,
            text: code.sentence(),
            wanted: rule.map(|r| r.wanted.clone()),
            found: rule.map(|r| r.found.clone()),
            stream: rule.and_then(|r| r.stream),
        }
    };
    decision.reasons.iter().map(view).collect()
}

impl Sessions {
    /// What a viewer likes.
    ///
    /// # Errors
    /// The library's.
    pub async fn preferences(&self, user: &User) -> Result<Preferences, SessionError> {
        let stored = self.0.parts.library.setting(&preferences_key(user)).await?;
        Ok(stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Keeps what a viewer likes.
    ///
    /// # Errors
    /// A language that is none; the library's.
    pub async fn set_preferences(
        &self,
        user: &User,
        mut wishes: Preferences,
    ) -> Result<Preferences, SessionError> {
        for list in [&mut wishes.audio_languages, &mut wishes.subtitle_languages] {
            if list.len() > MAX_LANGUAGES {
                return Err(SessionError::BadLanguage(format!("more than {MAX_LANGUAGES} languages")));
            }
            for word in list.iter_mut() {
                let known = spindle_media::language::normalise(word);
                let known = known.ok_or_else(|| {
                    SessionError::BadLanguage(format!(
                        "`{}` is no language of ISO 639",
                        word.chars().take(16).collect::<String>()
                    ))
                })?;
                *word = known.to_owned();
            }
        }
        let text = serde_json::to_string(&wishes)
            .map_err(|source| SessionError::Stored { session: "preferences".to_owned(), source })?;
        self.0.parts.library.set_setting(&preferences_key(user), &text).await?;
        Ok(wishes)
    }

    /// What was chosen for each series; damaged text counts as none.
    async fn kept(&self, user: &User) -> Result<Kept, SessionError> {
        let stored = self.0.parts.library.setting(&tracks_key(user)).await?;
        Ok(stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// What the viewer likes, with what was chosen for this series (or this film) before.
    pub(super) async fn wishes(&self, user: &User, of: &Playable) -> Result<Preferences, SessionError> {
        let mut wishes = self.preferences(user).await?;
        let kept = self.kept(user).await?;
        let series = series_of(of);
        wishes.remembered = kept.0.into_iter().find(|(s, _)| s == series).map(|(_, r)| r).unwrap_or_default();
        Ok(wishes)
    }

    /// Keeps what was chosen for a series. Two choices of one viewer in one moment: the later holds.
    pub(super) async fn remember(
        &self,
        user: &User,
        of: &Playable,
        info: &MediaInfo,
        choice: &Choice,
    ) -> Result<(), SessionError> {
        let now = choice.preferences.remembered.clone().with(info, choice);
        if now.is_empty() || now == choice.preferences.remembered {
            return Ok(());
        }
        let series = series_of(of);
        let mut kept = self.kept(user).await?;
        kept.0.retain(|(s, _)| s != series);
        kept.0.push((series.to_owned(), now));
        let surplus = kept.0.len().saturating_sub(MAX_SERIES);
        kept.0.drain(..surplus);
        let text = serde_json::to_string(&kept)
            .map_err(|source| SessionError::Stored { session: "tracks".to_owned(), source })?;
        self.0.parts.library.set_setting(&tracks_key(user), &text).await?;
        Ok(())
    }

    /// The choice that a request makes, with what is known of viewer and client.
    pub(super) async fn choice(&self, open: &Open, of: &Playable) -> Result<Choice, SessionError> {
        Ok(Choice {
            audio: open.audio,
            subtitle: open.subtitle,
            max_bitrate_bps: open.max_bitrate_bps,
            preferences: self.wishes(&open.user, of).await?,
            failed: open.failed,
        })
    }

    /// Decides, leaving out what failed on this client with files of this kind.
    pub(super) fn decide(
        &self,
        decider: &Decider,
        client: &str,
        info: &MediaInfo,
        choice: &mut Choice,
    ) -> Decision {
        let decision = decider.decide(info, choice);
        let now_s = self.0.parts.clock.unix_us() / 1_000_000;
        let known = self.0.failures.lock().of(client, &signature(info, &decision), now_s);
        if known <= choice.failed {
            return decision;
        }
        choice.failed = known;
        decider.decide(info, choice)
    }

    /// The version that plays when none was named; the positions of `all`.
    pub(super) fn choose_version(&self, decider: &Decider, all: &[Playable], choice: &Choice) -> usize {
        let of: Vec<Version<'_>> = all
            .iter()
            .map(|p| Version {
                info: p.parts.first().and_then(|f| f.info.as_ref()),
                available: p.parts.iter().all(|f| f.available && f.unreadable.is_none()),
                edition: p.edition.is_some(),
            })
            .collect();
        versions::choose(decider, &of, choice).unwrap_or(0)
    }

    /// How an item would play, without playing it: nothing is read but the index.
    ///
    /// # Errors
    /// No such item or version.
    pub async fn dry_run(&self, open: &Open) -> Result<DryRun, SessionError> {
        let library = &self.0.parts.library;
        let all = match &open.version {
            Some(version) => vec![library.playable(&open.item, Some(version)).await?],
            None => library.playables(&open.item).await?,
        };
        let decider = Decider::new(&open.profile);
        let client = client_key(&open.user, &open.profile);
        let first = all.first().ok_or(SessionError::Stopping)?;
        let choice = self.choice(open, first).await?;
        let chosen = self.choose_version(&decider, &all, &choice);
        let mut versions = Vec::with_capacity(all.len());
        for (n, playable) in all.into_iter().enumerate() {
            versions.push(self.dry_version(&decider, &client, playable, &choice, n == chosen));
        }
        Ok(DryRun { client: open.profile.name.clone(), versions })
    }

    fn dry_version(
        &self,
        decider: &Decider,
        client: &str,
        playable: Playable,
        choice: &Choice,
        chosen: bool,
    ) -> DryVersion {
        let available = playable.parts.iter().all(|f| f.available);
        let file = playable.parts.into_iter().next();
        let info = file.as_ref().and_then(|f| f.info.as_ref());
        let decision = info.map(|info| self.decide(decider, client, info, &mut choice.clone()));
        let why_not = match (&file, &decision) {
            (_, Some(_)) => None,
            (Some(f), None) => {
                Some(f.unreadable.clone().unwrap_or_else(|| "it has not been examined yet".to_owned()))
            }
            (None, None) => Some("it has no file".to_owned()),
        };
        DryVersion {
            version: playable.version,
            label: playable.label,
            edition: playable.edition,
            file: file.map(|f| f.name).unwrap_or_default(),
            available,
            chosen,
            sentence: decision.as_ref().map(|d| d.sentence(decider.name())),
            reasons: decision.as_ref().map(reasons).unwrap_or_default(),
            decision,
            why_not,
        }
    }
}

/// A client as failures are kept for it: whose it is, its name, and what it says that it can, so that a
/// browser that learnt a codec begins anew.
pub(super) fn client_key(user: &User, profile: &ClientProfile) -> String {
    let says = serde_json::to_vec(profile).unwrap_or_default();
    format!("{}/{}/{}", user.id, profile.name, &blake3::hash(&says).to_hex()[..16])
}

/// What a report of a failure says of the next way.
pub(super) fn next_failed(before: Option<Method>, now: Method) -> Method {
    before.map_or(now, |b| b.max(now))
}

fn series_of(playable: &Playable) -> &str {
    playable.series.as_deref().unwrap_or(&playable.item)
}

fn preferences_key(user: &User) -> String {
    format!("preferences.{}", user.id)
}

fn tracks_key(user: &User) -> String {
    format!("tracks.{}", user.id)
}
