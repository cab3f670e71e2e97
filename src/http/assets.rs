//! The page, embedded in the program.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use rust_embed::RustEmbed;

use crate::delivery::entity;
use crate::delivery::problem::Problem;

#[derive(RustEmbed)]
#[folder = "web/dist"]
struct Dist;

/// What draws ASS subtitles: a worker of its own, with a policy of its own.
const DRAWER: &str = "libass/";
/// A worker is held to the policy that its script comes with. This one alone compiles WebAssembly, and may ask
/// for nothing but files of this server: the page's own policy stays without either.
const DRAWER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// Serves a file of the page; any other path without an extension is the page itself, whose
/// script shows the view of that path.
pub(super) async fn get(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let (name, file) = match Dist::get(path) {
        Some(file) if !path.is_empty() => (path, Some(file)),
        _ if path.rsplit('/').next().is_some_and(|last| last.contains('.')) => (path, None),
        _ => ("index.html", Dist::get("index.html")),
    };
    let Some(file) = file else {
        return Problem::not_found(format!("no such page `/{path}`")).into_response();
    };
    let etag = format!("\"{}\"", crate::auth::token::hex(&file.metadata.sha256_hash()[..16]));
    let known = entity::is_known(&headers, &etag);
    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { bytes_of(file.data).into_response() };
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    // The names of assets carry a hash of their content; the page itself does not.
    let cache = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if name.starts_with(DRAWER) {
        out.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(DRAWER_POLICY));
    }
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        out.insert(header::ETAG, etag);
    }
    response
}

/// The program's own bytes: a copy for each answer would be held for each client that does not read.
fn bytes_of(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => data.into(),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or("") {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "json" | "map" | "webmanifest" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

// A debug build reads the page from its folder.
#[cfg(all(test, not(debug_assertions)))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_answers_share_the_programs_own_bytes() {
        let mut at = Vec::new();
        for _ in 0..2 {
            let answer = get(Uri::from_static("/"), HeaderMap::new()).await;
            at.push(axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("a page"));
        }
        assert!(!at[0].is_empty());
        assert_eq!(at[0].as_ptr(), at[1].as_ptr());
    }

    #[tokio::test]
    async fn what_draws_subtitles_alone_may_compile_and_asks_for_nothing_elsewhere() {
        for (path, own) in
            [("/libass/subtitles-octopus-worker.js", true), ("/", false), ("/index.html", false)]
        {
            let answer = get(path.parse().expect("a path"), HeaderMap::new()).await;
            if answer.status() == StatusCode::NOT_FOUND {
                // The page was not built: one line stands for it.
                assert!(own);
                continue;
            }
            let policy = answer.headers().get(header::CONTENT_SECURITY_POLICY);
            let policy = policy.map(|p| p.to_str().expect("text").to_owned()).unwrap_or_default();
            assert_eq!(policy.contains("'wasm-unsafe-eval'"), own, "{path}: {policy}");
            assert!(!policy.contains("'unsafe-eval'") && !policy.contains("http"), "{policy}");
        }
    }
}
