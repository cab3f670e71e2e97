//! What stands before every handler: who is asking, and headers that keep the page safe.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use spindle_base::error::ErrorKind;
use spindle_library::{Role, User};

use super::ServerState;
use crate::auth::local::Shown;
use crate::auth::token;
use crate::delivery::problem::Problem;

/// Name of the session cookie.
pub(crate) const COOKIE: &str = "spindle_session";

/// The one who asks. A handler that takes it is closed to everybody else.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    /// The account.
    pub(crate) user: User,
    /// Hash of the token that was shown, to revoke it at logout.
    pub(crate) token_hash: [u8; 32],
}

/// A viewer who may change the server: the owner.
#[derive(Debug, Clone)]
pub(crate) struct Owner;

impl FromRequestParts<ServerState> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, Problem> {
        let nobody = || Problem::new(ErrorKind::Unauthenticated, "sign in first");
        let (shown, from_cookie) = shown_token(&parts.headers).ok_or_else(nobody)?;
        if from_cookie && !is_own_page(&parts.method, &parts.headers) {
            return Err(Problem::new(
                ErrorKind::Forbidden,
                "a request of another site may not use the session cookie",
            ));
        }
        let token_hash = token::hash(&shown);
        if let Some(local) = state.local.as_ref().filter(|_| !from_cookie) {
            match local.look(&token_hash, peer(parts), !parts.method.is_safe(), is_forwarded(&parts.headers))
            {
                Shown::Other => {}
                Shown::Granted => return Ok(Self { user: local_owner(), token_hash }),
                Shown::Refused(why) => return Err(Problem::new(ErrorKind::Forbidden, why)),
            }
        }
        let user = state.library.user_of_token(&token_hash).await?.ok_or_else(nobody)?;
        Ok(Self { user, token_hash })
    }
}

impl FromRequestParts<ServerState> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, Problem> {
        let viewer = Viewer::from_request_parts(parts, state).await?;
        if viewer.user.role == Role::Admin {
            Ok(Self)
        } else {
            Err(Problem::new(ErrorKind::Forbidden, "only the owner may do this"))
        }
    }
}

/// The one who owns the data directory, for as long as a question takes: no account, and no row of the database is theirs.
fn local_owner() -> User {
    User { id: "local".to_owned(), name: "local".to_owned(), role: Role::Admin, created: String::new() }
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
}

/// A proxy on this machine is loopback, too; one that forwards for somebody else says so.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key("x-forwarded-for") || headers.contains_key("forwarded")
}

/// The token of a request and whether it came as a cookie. A bearer token wins.
fn shown_token(headers: &HeaderMap) -> Option<(String, bool)> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| (token.trim().to_owned(), false));
    }
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, token)| (token.to_owned(), true))
}

/// A request that changes something and carries the cookie must come from our own page: the
/// browser says so (`Sec-Fetch-Site`), or our script does, by a header that a form of another
/// site cannot set without a preflight that we never answer.
fn is_own_page(method: &Method, headers: &HeaderMap) -> bool {
    if method.is_safe() {
        return true;
    }
    let same_origin = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    same_origin || headers.contains_key("x-spindle")
}

/// Adds the headers of a safe page to every answer that has none of its own.
pub(super) async fn security_headers(request: Request, next: Next) -> Response {
    const ALWAYS: [(&str, &str); 4] = [
        (
            "content-security-policy",
            "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
             img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self' blob:; \
             connect-src 'self'; font-src 'self'; object-src 'none'; frame-ancestors 'none'; \
             base-uri 'none'; form-action 'self'",
        ),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    if is_api {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().expect("a test's header is valid"));
        }
        map
    }

    #[test]
    fn a_bearer_token_wins_over_the_cookie() {
        let both = headers(&[("authorization", "bearer aa"), ("cookie", "spindle_session=bb")]);
        assert_eq!(shown_token(&both), Some(("aa".to_owned(), false)));
        let cookie = headers(&[("cookie", "x=1; spindle_session=bb"), ("cookie", "y=2")]);
        assert_eq!(shown_token(&cookie), Some(("bb".to_owned(), true)));
        assert_eq!(shown_token(&headers(&[("authorization", "Basic aa")])), None);
        assert_eq!(shown_token(&headers(&[])), None);
    }

    #[test]
    fn a_changing_request_with_the_cookie_must_come_from_our_page() {
        assert!(is_own_page(&Method::GET, &headers(&[("sec-fetch-site", "cross-site")])));
        assert!(!is_own_page(&Method::POST, &headers(&[])));
        assert!(!is_own_page(&Method::POST, &headers(&[("sec-fetch-site", "cross-site")])));
        assert!(!is_own_page(&Method::POST, &headers(&[("sec-fetch-site", "same-site")])));
        assert!(is_own_page(&Method::POST, &headers(&[("sec-fetch-site", "same-origin")])));
        assert!(is_own_page(&Method::DELETE, &headers(&[("x-spindle", "1")])));
    }
}
