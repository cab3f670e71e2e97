//! `POST /items/{id}/play`: how this item will reach this client, and where its bytes are.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use spindle_playback::{ClientProfile, SubtitleChoice, builtin, builtin_names};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::{Body, Path};
use crate::http::guard::Viewer;
use crate::sessions::{Open, Opened};

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new().routes(routes!(play))
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

#[derive(Deserialize)]
#[serde(untagged)]
enum Client {
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
    fn profile(self) -> Result<ClientProfile, Problem> {
        match self {
            Self::Name(name) => builtin(&name).ok_or_else(|| {
                let known = builtin_names().join(", ");
                Problem::bad_input(format!("unknown client `{name}`; known are {known}"))
            }),
            Self::Profile(value) => serde_json::from_value(bare(value))
                .map_err(|e| Problem::bad_input(format!("the client profile is not valid: {e}"))),
        }
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
    Body(body): Body<PlayBody>,
) -> Result<Json<Opened>, Problem> {
    let start_s = body.start_s.unwrap_or(0.0);
    if !start_s.is_finite() || start_s < 0.0 {
        return Err(Problem::bad_input("`start_s` must be a number of seconds, 0 or more"));
    }
    let open = Open {
        user: viewer.user,
        item,
        version: body.version,
        part: body.part,
        profile: body.client.profile()?,
        audio: body.audio,
        subtitle: subtitle_choice(body.subtitle)?,
        max_bitrate_bps: body.max_bitrate,
        start_s,
    };
    Ok(Json(state.sessions.open(open).await?))
}
