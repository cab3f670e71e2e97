//! Playlists, segments and subtitles of a session, as replies. What they hold was decided at
//! `/play`; nothing is decided here.

mod playlist;
mod segment;
pub mod subtitle;

use http::{HeaderMap, Method, StatusCode};

use crate::delivery::problem::Problem;
use crate::delivery::reply::Reply;
use crate::sessions::{Delivery, Session};

/// What may be asked for below `/hls/`.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Master,
    Media,
    Subtitles(u32),
    Init,
    Segment(usize),
}

/// Only these names exist: anything else is a mistake and is told so, never another container.
fn wanted(name: &str) -> Option<Wanted> {
    match name {
        "master.m3u8" => Some(Wanted::Master),
        "media.m3u8" => Some(Wanted::Media),
        "init.mp4" => Some(Wanted::Init),
        _ => {
            let number = |text: &str| {
                let plain = !text.is_empty() && text.len() <= 7 && text.bytes().all(|b| b.is_ascii_digit());
                plain.then(|| text.parse::<u32>().ok()).flatten()
            };
            if let Some(stream) = name.strip_prefix("subtitles-").and_then(|n| n.strip_suffix(".m3u8")) {
                return number(stream).map(Wanted::Subtitles);
            }
            let segment = name.strip_suffix(".m4s").and_then(number)?;
            usize::try_from(segment).ok().map(Wanted::Segment)
        }
    }
}

/// Answers a request below `/media/{signed}/hls/`.
pub async fn get(
    session: &Session,
    name: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let Delivery::Hls { rendition, boundaries } = &session.delivery else {
        return Err(Problem::not_found("this session plays a file, not segments"));
    };
    let Some(wanted) = wanted(name) else {
        return Err(Problem::bad_input(format!(
            "`{}` is none of master.m3u8, media.m3u8, init.mp4, N.m4s",
            name.chars().take(64).collect::<String>()
        )));
    };
    match wanted {
        Wanted::Master => Ok(playlist::master(session)),
        Wanted::Media => Ok(playlist::media(boundaries)),
        Wanted::Subtitles(stream) => playlist::subtitles(session, stream),
        Wanted::Init => segment::init(session, rendition, method, headers).await,
        Wanted::Segment(n) if n + 1 < boundaries.len() => {
            segment::get(session, rendition, n, method, headers).await
        }
        Wanted::Segment(n) => Err(Problem::not_found(format!(
            "there is no segment {n}; the last is {}",
            boundaries.len().saturating_sub(2)
        ))),
    }
}

fn playlist_reply(text: String) -> Reply {
    let mut reply = Reply::memory(StatusCode::OK, "application/vnd.apple.mpegurl", text);
    reply = reply.with(http::header::CACHE_CONTROL, "private, no-cache");
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_answered() {
        assert_eq!(wanted("master.m3u8"), Some(Wanted::Master));
        assert_eq!(wanted("0.m4s"), Some(Wanted::Segment(0)));
        assert_eq!(wanted("1199.m4s"), Some(Wanted::Segment(1199)));
        assert_eq!(wanted("subtitles-3.m3u8"), Some(Wanted::Subtitles(3)));
        for name in [
            "",
            "0.ts",
            "0.mp4",
            "-1.m4s",
            "+1.m4s",
            "x.m4s",
            "99999999.m4s",
            "../x",
            "init.webm",
            "1.m4s/",
            "subtitles-.m3u8",
        ] {
            assert_eq!(wanted(name), None, "{name}");
        }
    }
}
