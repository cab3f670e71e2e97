//! `POST /items/{id}/play`: how this item will reach this client, and where its bytes are; and
//! `POST /items/{id}/decide`, the same without playing; the clients that are known by name.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde::Serialize;
use spindle_playback::{ClientProfile, Known, Preferences, Profiles, Rejected, SubtitleChoice};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Body, Path};
use crate::http::guard::Viewer;
use crate::sessions::{DryRun, Open, Opened};

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(play))
        .routes(routes!(decide))
        .routes(routes!(clients))
        .routes(routes!(preferences, set_preferences))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlayBody {
    client: Client,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    part: usize,
    #[serde(default)]
    audio: Option<u32>,
    #[serde(default)]
    subtitle: Option<Subtitle>,
    #[serde(default)]
    start_s: Option<f64>,
    #[serde(default)]
    max_bitrate: Option<u64>,
}

/// Who asks: a known name, or what it can.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Client {
    Name(String),
    // Parsed a second time, so that a mistake is named instead of "did not match any variant".
    Profile(serde_json::Value),
}

/// A stream's index, or a word.
#[derive(Deserialize)]
#[serde(untagged)]
enum Subtitle {
    Stream(u32),
    Word(String),
}

impl Client {
    /// A name, `auto` for whatever the `User-Agent` tells, or a whole profile.
    pub(super) fn profile(
        self,
        known: &Profiles,
        headers: &http::HeaderMap,
    ) -> Result<ClientProfile, Problem> {
        let user_agent = headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
        match self {
            Self::Name(name) => {
                let told =
                    if name == "auto" { user_agent.and_then(|u| known.for_user_agent(u)) } else { None };
                known.get(told.unwrap_or(&name)).cloned().ok_or_else(|| {
                    Problem::bad_input(format!(
                        "unknown client `{}`; known are {}",
                        name.chars().take(64).collect::<String>(),
                        known.names()
                    ))
                })
            }
            Self::Profile(value) => {
                let invalid = |e: &dyn std::fmt::Display| {
                    Problem::bad_input(format!("the client profile is not valid: {e}"))
                };
                let profile: ClientProfile = serde_json::from_value(bare(value)).map_err(|e| invalid(&e))?;
                profile.check().map_err(|e| invalid(&e))?;
                Ok(profile)
            }
        }
    }
}

impl PlayBody {
    fn open(
        self,
        viewer: Viewer,
        item: String,
        known: &Profiles,
        headers: &http::HeaderMap,
    ) -> Result<Open, Problem> {
        let start_s = self.start_s.unwrap_or(0.0);
        if !start_s.is_finite() || start_s < 0.0 {
            return Err(Problem::bad_input("`start_s` must be a number of seconds, 0 or more"));
        }
        Ok(Open {
            user: viewer.user,
            token_hash: viewer.token_hash,
            item,
            version: self.version,
            part: self.part,
            profile: self.client.profile(known, headers)?,
            audio: self.audio,
            subtitle: subtitle_choice(self.subtitle)?,
            max_bitrate_bps: self.max_bitrate,
            start_s,
            failed: None,
        })
    }
}

/// The profile itself: the page wraps it as `{"profile": {…}}`, programs give it as it is, and a
/// profile has no field of that name.
fn bare(mut value: serde_json::Value) -> serde_json::Value {
    match value.as_object_mut() {
        Some(fields) if fields.len() == 1 => fields.remove("profile").unwrap_or(value),
        _ => value,
    }
}

fn subtitle_choice(subtitle: Option<Subtitle>) -> Result<SubtitleChoice, Problem> {
    match subtitle {
        None => Ok(SubtitleChoice::Default),
        Some(Subtitle::Stream(index)) => Ok(SubtitleChoice::Stream(index)),
        Some(Subtitle::Word(word)) => match word.as_str() {
            "off" | "none" => Ok(SubtitleChoice::Off),
            "default" => Ok(SubtitleChoice::Default),
            _ => Err(Problem::bad_input("`subtitle` is the index of a stream, \"off\" or \"default\"")),
        },
    }
}

/// Opens a session.
#[utoipa::path(post, path = "/items/{id}/play", params(("id" = String, Path)),
    responses((status = 200), (status = 400), (status = 404), (status = 422), (status = 503)))]
async fn play(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(item): Path<String>,
    headers: http::HeaderMap,
    Body(body): Body<PlayBody>,
) -> Result<Json<Opened>, Problem> {
    let open = body.open(viewer, item, state.sessions.profiles(), &headers)?;
    Ok(Json(state.sessions.open(open).await?))
}

/// How an item would play on a client: the decision for each version with every rule, what it wanted
/// and what it found. Nothing is opened.
#[utoipa::path(post, path = "/items/{id}/decide", params(("id" = String, Path)),
    responses((status = 200), (status = 400), (status = 404)))]
async fn decide(
    viewer: Viewer,
    State(state): State<ServerState>,
    Path(item): Path<String>,
    headers: http::HeaderMap,
    Body(body): Body<PlayBody>,
) -> Result<Json<DryRun>, Problem> {
    let open = body.open(viewer, item, state.sessions.profiles(), &headers)?;
    Ok(Json(state.sessions.dry_run(&open).await?))
}

/// Clients by name.
#[derive(Serialize)]
struct Clients {
    items: Vec<ClientView>,
    total: usize,
    /// Files of the owner's that are no profiles, and why.
    rejected: Vec<Rejected>,
}

/// One client that is known by name.
#[derive(Serialize)]
struct ClientView {
    /// What `client` of a request may say.
    name: String,
    /// For people.
    title: String,
    #[serde(flatten)]
    origin: spindle_playback::Origin,
    profile: ClientProfile,
}

impl From<&Known> for ClientView {
    fn from(known: &Known) -> Self {
        Self {
            name: known.name.clone(),
            title: known.profile.name.clone(),
            origin: known.origin.clone(),
            profile: known.profile.clone(),
        }
    }
}

/// The clients that are known by name, built in or from the owner's files.
#[utoipa::path(get, path = "/clients", responses((status = 200), (status = 401)))]
async fn clients(_viewer: Viewer, State(state): State<ServerState>) -> Json<Clients> {
    let known = state.sessions.profiles();
    let items: Vec<ClientView> = known.all().map(ClientView::from).collect();
    Json(Clients { total: items.len(), items, rejected: known.rejected().to_vec() })
}

/// Which tracks a viewer likes.
#[utoipa::path(get, path = "/preferences", responses((status = 200), (status = 401)))]
async fn preferences(viewer: Viewer, State(state): State<ServerState>) -> Result<Json<Preferences>, Problem> {
    Ok(Json(state.sessions.preferences(&viewer.user).await?))
}

/// Keeps which tracks a viewer likes.
#[utoipa::path(put, path = "/preferences", responses((status = 200), (status = 400), (status = 401)))]
async fn set_preferences(
    viewer: Viewer,
    State(state): State<ServerState>,
    Body(wishes): Body<Preferences>,
) -> Result<Json<Preferences>, Problem> {
    Ok(Json(state.sessions.set_preferences(&viewer.user, wishes).await?))
}
