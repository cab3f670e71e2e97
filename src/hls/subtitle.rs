//! Subtitles of a session: text as WebVTT, and, for a client that draws them, as the file has them, with its
//! fonts. Converted or taken out once, kept in a bounded cache, served with validators.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header};
use spindle_base::error::ErrorKind;
use spindle_base::sync::Mutex;
use spindle_media::subtitle::{Format, to_utf8, to_webvtt};
use spindle_storage::{MediaFile, Storage, StreamId};
use spindle_transcode::ts::START_TICKS;
use spindle_transcode::{Container, Transcoder, original};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::delivery::entity;
use crate::delivery::problem::Problem;
use crate::delivery::reply::Reply;
use crate::sessions::{Delivery, Session, SubtitleSource, fonts};

/// Largest subtitle file that is read: the longest real ones, karaoke included, have a few MiB.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Bytes of what was converted or taken out that are kept: text of a hundred films, or pictures of one.
const MAX_CACHE_BYTES: usize = 64 << 20;

/// What is taken out of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    WebVtt(u32),
    Original(u32),
    Font(usize),
}

/// The file and what was taken out of it.
type Key = (u64, u64, i64, Form);

/// Conversions at the same time: each holds the whole text several times over.
const CONVERSIONS: usize = 2;
/// What an entry costs besides its text.
const ENTRY_BYTES: usize = 256;

/// Text, or why there is none: that is not tried again.
type Converted = Result<Bytes, String>;

/// Converted subtitles, the oldest dropped first.
pub struct Cache {
    entries: Mutex<VecDeque<(Key, Converted)>, 70>,
    turns: Arc<Semaphore>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: Mutex::default(), turns: Arc::new(Semaphore::new(CONVERSIONS)) }
    }
}

impl Cache {
    fn get(&self, key: &Key) -> Option<Converted> {
        self.entries.lock().iter().find(|(k, _)| k == key).map(|(_, text)| text.clone())
    }

    fn put(&self, key: Key, text: Converted) {
        let size = |text: &Converted| ENTRY_BYTES + text.as_ref().map_or_else(String::len, Bytes::len);
        let mut entries = self.entries.lock();
        entries.push_back((key, text));
        let mut total: usize = entries.iter().map(|(_, t)| size(t)).sum();
        while total > MAX_CACHE_BYTES && entries.len() > 1 {
            total -= entries.pop_front().map_or(0, |(_, t)| size(&t));
        }
    }

    /// What is known of `key`, or a turn to convert it: whoever waited for one finds what others did meanwhile.
    async fn turn(&self, key: &Key) -> Result<Turn, Problem> {
        if let Some(known) = self.get(key) {
            return Ok(Turn::Known(known));
        }
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::new(ErrorKind::Unavailable, "the server is stopping"))?;
        Ok(self.get(key).map_or(Turn::Yours(turn), Turn::Known))
    }
}

enum Turn {
    Known(Converted),
    /// Held until the conversion is over.
    Yours(OwnedSemaphorePermit),
}

fn told(converted: Converted) -> Result<Bytes, Problem> {
    converted.map_err(|why| Problem::new(ErrorKind::Unreadable, why))
}

/// What a conversion needs.
pub struct Tools<'a> {
    /// Reads the file beside the film.
    pub storage: &'a Storage,
    /// Extracts what is inside.
    pub transcoder: &'a Transcoder,
    /// What was converted before.
    pub cache: &'a Cache,
}

/// Answers `/media/{signed}/subtitles/{stream}.{vtt, ass, sup or vobsub}`.
pub async fn get(
    session: &Session,
    name: &str,
    tools: &Tools<'_>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let (stream, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let source = stream.parse::<u32>().ok().and_then(|n| session.subtitles.iter().find(|s| s.stream == n));
    let own = |s: &SubtitleSource| s.original.is_some_and(|o| o.extension() == extension);
    match source {
        Some(source) if source.text && extension == "vtt" => {
            let text = in_clock_of(session, text(session, source, tools, Form::WebVtt(source.stream)).await?);
            Ok(reply(text, "text/vtt; charset=utf-8", method, headers))
        }
        Some(source) if own(source) => {
            let bytes = text(session, source, tools, Form::Original(source.stream)).await?;
            // No type that a browser would show: a page takes it to pieces itself.
            Ok(reply(bytes, "application/octet-stream", method, headers))
        }
        _ => Err(Problem::not_found("this session has no such subtitles")),
    }
}

/// Answers `/media/{signed}/fonts/{n}`.
pub async fn font(
    session: &Session,
    name: &str,
    tools: &Tools<'_>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let wanted = name.parse::<usize>().ok();
    let Some((n, attachment)) = fonts(&session.info).find(|(n, _)| Some(*n) == wanted) else {
        return Err(Problem::not_found("this session has no such font"));
    };
    let key = key(&session.file, Form::Font(n));
    let bytes = match tools.cache.turn(&key).await? {
        Turn::Known(known) => told(known)?,
        Turn::Yours(_turn) => {
            let fd = session.file.open_again().await?;
            let bytes = tools.transcoder.font(Box::new(fd), attachment.name.clone()).await?;
            tools.cache.put(key, Ok(bytes.clone()));
            bytes
        }
    };
    Ok(reply(bytes, "application/octet-stream", method, headers))
}

fn reply(bytes: Bytes, content_type: &'static str, method: &Method, headers: &HeaderMap) -> Reply {
    let etag = format!("\"{}\"", &blake3::hash(&bytes).to_hex()[..32]);
    let reply = if entity::is_known(headers, &etag) && matches!(*method, Method::GET | Method::HEAD) {
        let mut reply = Reply::memory(StatusCode::NOT_MODIFIED, content_type, Bytes::new());
        reply.parts.clear();
        reply
    } else {
        Reply::memory(StatusCode::OK, content_type, bytes)
    };
    reply.with(header::ETAG, &etag).with(header::CACHE_CONTROL, "private, max-age=86400")
}

/// In transport stream segments the presentation's zero is not the clock's: the playlist's reader is
/// told (RFC 8216 section 3.5). Whoever draws the text beside the picture skips the line.
fn in_clock_of(session: &Session, text: Bytes) -> Bytes {
    match &session.delivery {
        Delivery::Hls(cut) if cut.container == Container::Mpegts => with_clock(&text),
        _ => text,
    }
}

fn with_clock(text: &[u8]) -> Bytes {
    let end = text.iter().position(|b| *b == b'\n').map_or(text.len(), |at| at + 1);
    let map = format!("X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:{START_TICKS}\n");
    [&text[..end], map.as_bytes(), &text[end..]].concat().into()
}

async fn text(
    session: &Session,
    source: &SubtitleSource,
    tools: &Tools<'_>,
    form: Form,
) -> Result<Bytes, Problem> {
    let Some((path, root)) = &source.path else {
        let key = key(&session.file, form);
        let _turn = match tools.cache.turn(&key).await? {
            Turn::Known(known) => return told(known),
            Turn::Yours(turn) => turn,
        };
        let fd = session.file.open_again().await?;
        // A worker that fails may have been short of time or memory: that is tried again.
        let text = if matches!(form, Form::Original(_)) {
            tools.transcoder.subtitle_original(Box::new(fd), source.stream).await?
        } else {
            tools.transcoder.subtitle_vtt(Box::new(fd), source.stream).await?
        };
        tools.cache.put(key, Ok(text.clone()));
        return Ok(text);
    };
    let (asked, within) = (path.clone(), root.clone());
    let inside = tokio::task::spawn_blocking(move || spindle_library::stays_inside(&within, &asked)).await;
    if !inside.unwrap_or(false) {
        let detail = "the subtitle file is gone, or a link that leads out of the library";
        return Err(Problem::new(ErrorKind::NotFound, detail));
    }
    let file = tools.storage.open(path, StreamId::BACKGROUND).await?;
    let key = key(&file, form);
    let turn = match tools.cache.turn(&key).await? {
        Turn::Known(known) => return told(known),
        Turn::Yours(turn) => turn,
    };
    let pictures = matches!(form, Form::Original(_)) && !source.text;
    let bytes = whole(&file, if pictures { original::MAX_BYTES as u64 } else { MAX_FILE_BYTES }).await?;
    if pictures {
        tools.cache.put(key, Ok(bytes.clone()));
        return Ok(bytes);
    }
    let language = source.language.clone();
    let format = Format::from_word(&source.codec).ok_or_else(|| {
        let detail = format!("subtitles of the format `{}` cannot be shown as text", source.codec);
        Problem::new(ErrorKind::Unreadable, detail)
    })?;
    // A large file in an old alphabet takes a while to guess: not on the executor.
    let converting = move || {
        let converted = match form {
            Form::Original(_) => to_utf8(&bytes, language.as_deref()),
            Form::WebVtt(_) | Form::Font(_) => to_webvtt(&bytes, format, language.as_deref()),
        };
        // Whoever asked may have gone: the turn is over when the work is.
        drop(turn);
        converted
    };
    let converted = tokio::task::spawn_blocking(converting)
        .await
        .map_err(|_| Problem::new(ErrorKind::Fault, "unable to convert the subtitles"))?;
    let converted = converted.map(Bytes::from).map_err(|e| e.to_string());
    tools.cache.put(key, converted.clone());
    told(converted)
}

fn key(file: &MediaFile, form: Form) -> Key {
    let id = file.identity();
    (id.dev, id.ino, id.changed_us, form)
}

async fn whole(file: &MediaFile, max_bytes: u64) -> Result<Bytes, Problem> {
    if file.size_bytes() > max_bytes {
        let detail = format!("the subtitle file is larger than {} MiB", max_bytes >> 20);
        return Err(Problem::new(ErrorKind::Unreadable, detail));
    }
    let mut out = BytesMut::new();
    loop {
        let piece = file.read_at(out.len() as u64, 1 << 20).await?;
        if piece.is_empty() || out.len() as u64 > max_bytes {
            return Ok(out.freeze());
        }
        out.extend_from_slice(&piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_beside_a_transport_stream_says_where_zero_is() {
        let text = with_clock(b"WEBVTT\n\n00:01.000 --> 00:02.000\nhi\n");
        let expected =
            "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:126000\n\n00:01.000 --> 00:02.000\nhi\n";
        assert_eq!(text, expected);
    }
}
