//! Playlists, segments and subtitles of a session, as replies. What they hold was decided at
//! `/play`; nothing is decided here.

mod playlist;
mod segment;
pub mod subtitle;

use http::{HeaderMap, Method, StatusCode};
use spindle_transcode::Container;

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
fn wanted(name: &str, container: Container) -> Option<Wanted> {
    match name {
        "master.m3u8" => Some(Wanted::Master),
        "media.m3u8" => Some(Wanted::Media),
        "init.mp4" if container == Container::Fmp4 => Some(Wanted::Init),
        _ => {
            let number = |text: &str| {
                let plain = !text.is_empty() && text.len() <= 7 && text.bytes().all(|b| b.is_ascii_digit());
                plain.then(|| text.parse::<u32>().ok()).flatten()
            };
            if let Some(stream) = name.strip_prefix("subtitles-").and_then(|n| n.strip_suffix(".m3u8")) {
                return number(stream).map(Wanted::Subtitles);
            }
            let segment = name.strip_suffix(extension(container)).and_then(number)?;
            usize::try_from(segment).ok().map(Wanted::Segment)
        }
    }
}

/// How the names of segments end.
fn extension(container: Container) -> &'static str {
    match container {
        Container::Fmp4 => ".m4s",
        Container::Mpegts => ".ts",
    }
}

/// Answers a request below `/media/{signed}/hls/`.
pub async fn get(
    session: &Session,
    name: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let Delivery::Hls(cut) = &session.delivery else {
        return Err(Problem::not_found("this session plays a file, not segments"));
    };
    let (rendition, boundaries) = (&cut.rendition, &cut.boundaries);
    let Some(wanted) = wanted(name, cut.container) else {
        return Err(Problem::bad_input(format!(
            "`{}` is none of master.m3u8, media.m3u8, {}N{}",
            name.chars().take(64).collect::<String>(),
            if cut.container == Container::Fmp4 { "init.mp4, " } else { "" },
            extension(cut.container)
        )));
    };
    match wanted {
        Wanted::Master => Ok(playlist::master(session)),
        Wanted::Media => Ok(playlist::media(boundaries, cut.container)),
        Wanted::Subtitles(stream) => playlist::subtitles(session, stream),
        Wanted::Init => segment::init(session, rendition, method, headers).await,
        Wanted::Segment(n) if n + 1 < boundaries.len() => {
            segment::get(session, cut, n, method, headers).await
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
        let in_ts = |name| wanted(name, Container::Mpegts);
        let wanted = |name| wanted(name, Container::Fmp4);
        assert_eq!(wanted("master.m3u8"), Some(Wanted::Master));
        assert_eq!(in_ts("7.ts"), Some(Wanted::Segment(7)));
        for name in ["7.m4s", "init.mp4", "7.tss", ".ts"] {
            assert_eq!(in_ts(name), None, "{name}");
        }
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
