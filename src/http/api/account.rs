//! First account, sign-in, sign-out, who am I.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use spindle_base::error::ErrorKind;
use spindle_library::User;
use tokio::sync::{Semaphore, SemaphorePermit};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{password, token};
use crate::delivery::connections::counted;
use crate::delivery::problem::Problem;
use crate::http::ServerState;
use crate::http::extract::Body;
use crate::http::guard::{COOKIE, Viewer};

/// How long a sign-in lasts without being used: a year, as a television is rarely signed in anew.
const TOKEN_LIFE_S: i64 = 365 * 24 * 3600;

/// Bytes of a request's body here.
const MAX_BODY_BYTES: usize = 4 << 10;

pub(super) fn router() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(setup_needed, setup))
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(me))
        // Before anybody is known: a name, a password, a device.
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    username: String,
    password: String,
    #[serde(default)]
    device: Option<String>,
}

#[derive(Serialize)]
struct SignedIn {
    token: String,
    user: User,
}

#[derive(Serialize)]
struct Setup {
    needed: bool,
}

/// Whether the first account is still to be made.
#[utoipa::path(get, path = "/setup", responses((status = 200)))]
async fn setup_needed(State(state): State<ServerState>) -> Result<Json<Setup>, Problem> {
    let needed = state.library.user_count().await? == 0;
    Ok(Json(Setup { needed }))
}

/// Makes the first account, only while there is none.
#[utoipa::path(post, path = "/setup", responses((status = 201), (status = 400), (status = 409)))]
async fn setup(
    State(state): State<ServerState>,
    headers: HeaderMap,
    Body(body): Body<Credentials>,
) -> Result<(StatusCode, HeaderMap, Json<SignedIn>), Problem> {
    let name = valid_name(&body.username)?;
    // Hashing is slow on purpose: do not do it for a request that cannot succeed.
    if state.library.user_count().await? > 0 {
        return Err(Problem::new(ErrorKind::Conflict, "the first account was made already; sign in instead"));
    }
    let hash = hash_password(body.password).await?;
    let user = state.library.create_first_user(&name, &hash).await?;
    let device = body.device.unwrap_or_else(|| device_of(&headers));
    let (cookie, signed_in) = sign_in(&state, user, device).await?;
    Ok((StatusCode::CREATED, cookie, Json(signed_in)))
}

/// Signs in.
#[utoipa::path(post, path = "/auth/login", responses((status = 200), (status = 401), (status = 429)))]
async fn login(
    State(state): State<ServerState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    Body(body): Body<Credentials>,
) -> Result<(HeaderMap, Json<SignedIn>), Problem> {
    // Also what keeps a made-up line out of the log, and a long name out of the throttle's memory.
    let name = valid_name(&body.username)?;
    let (counted_name, address) = (name.to_lowercase(), counted(peer.ip()));
    // Asked when its turn has come: guesses sent side by side are counted like those in a row.
    let turn = turn_to_hash().await?;
    // Not the wall's: a clock that is set back would lock everybody out for as long.
    let now_s = i64::try_from(state.clock.monotonic_us() / 1_000_000).unwrap_or(i64::MAX);
    if let Some(wait) = state.throttle.wait_s(&counted_name, address, now_s) {
        let detail = format!("too many failed attempts; try again in {wait} s");
        let problem = Problem::new(ErrorKind::TooMany, detail);
        return Err(problem.retry_after(u64::try_from(wait).unwrap_or(1)));
    }
    let known = state.library.user_for_login(&name).await?;
    let (user, stored) = known.map_or((None, None), |(user, hash)| (Some(user), Some(hash)));
    let given = body.password;
    let matches = blocking(&turn, move || password::verify(&given, stored.as_deref())).await?;
    let Some(user) = user.filter(|_| matches) else {
        state.throttle.failed(&counted_name, address, now_s);
        tracing::info!(user = ?name, %peer, "sign-in failed");
        let detail = "the name or the password is wrong";
        return Err(Problem::new(ErrorKind::Unauthenticated, detail));
    };
    state.throttle.succeeded(&counted_name, address, now_s);
    let device = body.device.unwrap_or_else(|| device_of(&headers));
    let (cookie, signed_in) = sign_in(&state, user, device).await?;
    Ok((cookie, Json(signed_in)))
}

/// Revokes the token that was shown.
#[utoipa::path(post, path = "/auth/logout", responses((status = 204), (status = 401)))]
async fn logout(
    State(state): State<ServerState>,
    viewer: Viewer,
) -> Result<(StatusCode, HeaderMap), Problem> {
    state.library.remove_token(&viewer.token_hash).await?;
    state.signed_out.notify_waiters();
    Ok((StatusCode::NO_CONTENT, set_cookie("", 0)))
}

/// The account that asks.
#[utoipa::path(get, path = "/auth/me", responses((status = 200), (status = 401)))]
async fn me(viewer: Viewer) -> Json<User> {
    Json(viewer.user)
}

async fn sign_in(state: &ServerState, user: User, device: String) -> Result<(HeaderMap, SignedIn), Problem> {
    let token = token::new();
    let expires_us = state.clock.unix_us() + TOKEN_LIFE_S * 1_000_000;
    let device: String = device.chars().take(120).collect();
    state.library.add_token(&user.id, &token::hash(&token), Some(&device), Some(expires_us)).await?;
    let cookie = set_cookie(&token, TOKEN_LIFE_S);
    Ok((cookie, SignedIn { token, user }))
}

/// `HttpOnly`: no script reads it. `SameSite=Lax`: another site's form cannot use it. Not `Secure`,
/// as a server on the LAN speaks plain HTTP.
fn set_cookie(value: &str, max_age_s: i64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let text = format!("{COOKIE}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax");
    if let Ok(value) = text.parse() {
        headers.insert(header::SET_COOKIE, value);
    }
    headers
}

fn device_of(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
    agent.unwrap_or("unknown device").to_owned()
}

fn valid_name(name: &str) -> Result<String, Problem> {
    let name = name.trim();
    let len = name.chars().count();
    if len == 0 || len > 64 || name.chars().any(char::is_control) {
        return Err(Problem::bad_input("a name needs 1 to 64 characters"));
    }
    Ok(name.to_owned())
}

async fn hash_password(given: String) -> Result<String, Problem> {
    let turn = turn_to_hash().await?;
    blocking(&turn, move || password::hash(&given))
        .await?
        .map_err(|error| Problem::bad_input(error.to_string()))
}

/// Anybody may ask for a sign-in, and one hash takes 19 MiB: only so many at once.
static HASHING: Semaphore = Semaphore::const_new(2);

async fn turn_to_hash() -> Result<SemaphorePermit<'static>, Problem> {
    HASHING.acquire().await.map_err(|_| Problem::new(ErrorKind::Fault, "unable to check the password"))
}

/// Argon2 takes tens of milliseconds: never on the executor, and in its turn.
async fn blocking<T: Send + 'static>(
    _turn: &SemaphorePermit<'static>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Problem::new(ErrorKind::Fault, "unable to check the password"))
}
