//! One viewer: opens a film, fetches it as a player does, jumps, reports where it is, leaves; and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spindle_base::clock::SharedClock;
use spindle_bench::stream::plan::{Action, Viewer, Way};
use spindle_bench::stream::player::{Player, Wait, Why, film_us};
use tokio_util::sync::CancellationToken;

use super::client::{Link, Server};
use super::films::Film;

/// Film that a television keeps ahead, by ranges and by segments (hls.js keeps 30 s).
const FILE_AHEAD_US: u64 = 10_000_000;
const SEGMENTS_AHEAD_US: u64 = 30_000_000;
/// A player says where it is this often, as the page does.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Requests of a viewer that are kept.
const MAX_ASKED: usize = 2000;
/// Tries for a segment while the server has no worker free.
const MAX_TRIES: u32 = 20;

/// What every viewer of a run shares.
#[derive(Clone)]
pub(super) struct Room {
    pub(super) server: Server,
    pub(super) clock: SharedClock,
    /// When the scenario began, on the clock that nobody sets.
    pub(super) began_us: u64,
    pub(super) stop: CancellationToken,
    /// At the film's bitrate, not as fast as it goes.
    pub(super) is_paced: bool,
}

/// A request for a part of the film.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// Milliseconds since the scenario began.
    pub(super) at_ms: u64,
    /// First byte of the file; the number of the segment where it is converted.
    pub(super) from: u64,
    /// Until the first byte was there; absent where none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_byte_ms: Option<u64>,
    /// What was taken of the answer.
    pub(super) received_bytes: u64,
}

/// What came of a viewer.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) session: Option<String>,
    pub(super) method: String,
    pub(super) received_bytes: u64,
    pub(super) asked: Vec<Asked>,
    pub(super) waits: Vec<Wait>,
    /// Why it left before its time.
    pub(super) failed: Option<String>,
    /// The record, as the server keeps it.
    pub(super) record: Option<Value>,
    /// Why there is none.
    pub(super) no_record: Option<String>,
}

/// Where the film is, for the reports.
#[derive(Default)]
struct Place {
    film_us: AtomicU64,
    buffered_us: AtomicU64,
}

impl Room {
    fn now_us(&self) -> u64 {
        self.clock.monotonic_us().saturating_sub(self.began_us)
    }

    /// Waits until then; `false` if everything is to stop.
    async fn until(&self, at_us: u64) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = self.sleep_until(at_us) => true,
        }
    }

    async fn sleep_until(&self, at_us: u64) {
        tokio::time::sleep(Duration::from_micros(at_us.saturating_sub(self.now_us()))).await;
    }
}

/// Watches a film as planned.
pub(super) async fn watch(room: Room, viewer: Viewer, film: Film) -> Watched {
    let mut out = Watched::default();
    let ahead = if viewer.way == Way::Converted { SEGMENTS_AHEAD_US } else { FILE_AHEAD_US };
    let mut player = Player::new(room.is_paced.then_some(ahead));
    if let Err(error) = plays(&room, &viewer, &film, &mut player, &mut out).await {
        out.failed = Some(format!("{error:#}"));
    }
    out.waits = player.end(room.now_us());
    if let Some(session) = &out.session {
        match record(&room.server, session).await {
            Ok(record) => out.record = Some(record),
            Err(error) => out.no_record = Some(format!("{error:#}")),
        }
    }
    out
}

/// Ends the session and asks for what is kept of it.
async fn record(server: &Server, session: &str) -> anyhow::Result<Value> {
    server.api("DELETE", &format!("/sessions/{session}"), None).await.context("unable to end the session")?;
    server.api("GET", &format!("/sessions/{session}/io"), None).await
}

async fn plays(
    room: &Room,
    viewer: &Viewer,
    film: &Film,
    player: &mut Player,
    out: &mut Watched,
) -> anyhow::Result<()> {
    let first = viewer.steps.first().context("a viewer that does nothing")?;
    if !room.until(first.at_ms * 1000).await {
        return Ok(());
    }
    player.begin(room.now_us(), Why::Start);
    let start = if let Action::Play(place) = first.action { place } else { 0.0 };
    let asks = json!({
        "client": film.profile(viewer.way), "subtitle": "off", "start_s": start * film.duration_s,
    });
    let opened = room.server.api("POST", &format!("/items/{}/play", film.item), Some(&asks)).await?;
    let word = |name: &str| opened.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    out.session = Some(word("session"));
    out.method = word("method");
    let wanted = if viewer.way == Way::Converted { "transcode" } else { "direct_play" };
    if out.method != wanted {
        bail!("the server chose {} where {wanted} was meant: {}", out.method, opened["reasons"]);
    }
    let place = Arc::new(Place::default());
    let reports = tokio::spawn(report(room.clone(), word("session"), Arc::clone(&place)));
    let played = steps(room, viewer, film, &word("url"), player, &place, out).await;
    reports.abort();
    played
}

/// The steps of a film that is open.
async fn steps(
    room: &Room,
    viewer: &Viewer,
    film: &Film,
    url: &str,
    player: &mut Player,
    place: &Place,
    out: &mut Watched,
) -> anyhow::Result<()> {
    let segments = match viewer.way {
        Way::Converted => Some(Segments::fetch(room, url).await?),
        Way::AsItIs => None,
    };
    for pair in viewer.steps.windows(2) {
        let until_us = pair[1].at_ms * 1000;
        let to = match pair[0].action {
            Action::Play(to) => to,
            Action::Jump(to) => {
                player.begin(room.now_us(), Why::Jump);
                to
            }
            Action::Stop => break,
        };
        let fetch = Fetch { room, film, until_us, to };
        match &segments {
            Some(segments) => fetch.segments(segments, player, place, out).await?,
            None => fetch.file(url, player, place, out).await?,
        }
        // The film may have ended before.
        if !room.until(until_us).await {
            break;
        }
    }
    Ok(())
}

/// Says where the film is, as players do. What goes wrong with that is nobody's wait.
async fn report(room: Room, session: String, place: Arc<Place>) {
    let mut every = tokio::time::interval(REPORT_EVERY);
    every.tick().await;
    loop {
        every.tick().await;
        let seconds = |us: &AtomicU64| Duration::from_micros(us.load(Ordering::Relaxed)).as_secs_f64();
        let body = json!({
            "position_s": seconds(&place.film_us), "paused": false, "buffered_s": seconds(&place.buffered_us),
        });
        if let Err(error) =
            room.server.api("POST", &format!("/sessions/{session}/progress"), Some(&body)).await
        {
            tracing::debug!(%error, "a report was not taken");
        }
    }
}

/// Fetching from one place until the next step.
struct Fetch<'a> {
    room: &'a Room,
    film: &'a Film,
    until_us: u64,
    to: f64,
}

/// What came of waiting for more.
enum Next<T> {
    Got(T),
    /// The time of the next step, or the end of everything.
    Over,
}

impl Fetch<'_> {
    /// Waits for `work`, which begins when the player wants more, no longer than until the next step.
    async fn more<T>(
        &self,
        wants_us: u64,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<Next<T>> {
        tokio::select! {
            biased;
            () = self.room.stop.cancelled() => Ok(Next::Over),
            () = self.room.sleep_until(self.until_us) => Ok(Next::Over),
            got = async {
                if wants_us > self.room.now_us() {
                    self.room.sleep_until(wants_us).await;
                }
                work.await
            } => got.map(Next::Got),
        }
    }

    /// From a place of the file to its end, as players ask: one request, read as the buffer has room.
    async fn file(
        &self,
        url: &str,
        player: &mut Player,
        place: &Place,
        out: &mut Watched,
    ) -> anyhow::Result<()> {
        let from = byte_at(self.film.size_bytes, self.to);
        let range = format!("bytes={from}-");
        let began_us = self.room.now_us();
        let mut asked = Asked { at_ms: began_us / 1000, from, first_byte_ms: None, received_bytes: 0 };
        let begun = self
            .more(0, async {
                let mut link = Link::connect(self.room.server.address, self.room.is_paced).await?;
                let head = link.ask("GET", url, &[("Range", &range)], b"").await?;
                if head.status != 206 {
                    bail!("the server answered {} to a range", head.status);
                }
                Ok(link)
            })
            .await;
        let Next::Got(mut link) = begun? else {
            keep(out, asked);
            return Ok(());
        };
        let start_us = film_us(from, self.film.bitrate_bps);
        let read = loop {
            let got = self.more(player.wants_at(self.room.now_us()), link.some()).await;
            let now_us = self.room.now_us();
            match got {
                Ok(Next::Got(0)) => {
                    player.whole(now_us);
                    break Ok(());
                }
                Ok(Next::Got(n)) => {
                    asked.first_byte_ms.get_or_insert((now_us - began_us) / 1000);
                    asked.received_bytes += n;
                    out.received_bytes += n;
                    player.received(now_us, film_us(n, self.film.bitrate_bps));
                    let buffered_us = player.buffered_us(now_us);
                    let at_us = start_us + film_us(asked.received_bytes, self.film.bitrate_bps);
                    place.film_us.store(at_us.saturating_sub(buffered_us), Ordering::Relaxed);
                    place.buffered_us.store(buffered_us, Ordering::Relaxed);
                }
                Ok(Next::Over) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        keep(out, asked);
        read
    }

    /// Segment by segment from a place.
    async fn segments(
        &self,
        segments: &Segments,
        player: &mut Player,
        place: &Place,
        out: &mut Watched,
    ) -> anyhow::Result<()> {
        let mut link: Option<Link> = None;
        let mut at_us = 0_u64;
        for (n, (name, length_us)) in (0_u64..).zip(&segments.list) {
            let begins_us = at_us;
            at_us += length_us;
            if place_us(segments.total_us(), self.to) >= at_us {
                continue;
            }
            let began = self.more(player.wants_at(self.room.now_us()), async { Ok(()) }).await?;
            if matches!(began, Next::Over) {
                return Ok(());
            }
            let began_us = self.room.now_us();
            let mut asked = Asked { at_ms: began_us / 1000, from: n, first_byte_ms: None, received_bytes: 0 };
            let got = self.more(0, self.segment(&mut link, name, began_us, &mut asked)).await;
            out.received_bytes += asked.received_bytes;
            keep(out, asked);
            if matches!(got?, Next::Over) {
                return Ok(());
            }
            let now_us = self.room.now_us();
            player.received(now_us, *length_us);
            let buffered_us = player.buffered_us(now_us);
            place.film_us.store((begins_us + length_us).saturating_sub(buffered_us), Ordering::Relaxed);
            place.buffered_us.store(buffered_us, Ordering::Relaxed);
        }
        player.whole(self.room.now_us());
        Ok(())
    }

    /// One segment. A server that has no worker free says when to ask again.
    async fn segment(
        &self,
        link: &mut Option<Link>,
        name: &str,
        began_us: u64,
        asked: &mut Asked,
    ) -> anyhow::Result<()> {
        for _ in 0..MAX_TRIES {
            let mut open = match link.take() {
                Some(open) => open,
                None => Link::connect(self.room.server.address, self.room.is_paced).await?,
            };
            let head = open.ask("GET", name, &[], b"").await?;
            if head.status == 503 {
                open.whole().await?;
                *link = Some(open);
                tokio::time::sleep(Duration::from_secs(head.retry_after_s.unwrap_or(1).min(10))).await;
                continue;
            }
            if head.status != 200 {
                let answer = open.whole().await.unwrap_or_default();
                bail!("the server answered {} to a segment: {}", head.status, detail(&answer));
            }
            loop {
                let n = open.some().await?;
                if n == 0 {
                    *link = Some(open);
                    return Ok(());
                }
                asked.first_byte_ms.get_or_insert((self.room.now_us() - began_us) / 1000);
                asked.received_bytes += n;
            }
        }
        bail!("the server has no worker free for a conversion")
    }
}

fn keep(out: &mut Watched, asked: Asked) {
    if out.asked.len() < MAX_ASKED {
        out.asked.push(asked);
    }
}

/// What a problem document (RFC 9457) says.
fn detail(answer: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(answer).ok();
    let text = value.as_ref().and_then(|v| v.get("detail")?.as_str()).unwrap_or("no reason is given");
    text.chars().take(300).collect()
}

/// A film cut into segments: their addresses and lengths in microseconds.
struct Segments {
    list: Vec<(String, u64)>,
}

impl Segments {
    async fn fetch(room: &Room, master: &str) -> anyhow::Result<Self> {
        let server = &room.server;
        let get = async |url: &str| {
            let mut link = Link::connect(server.address, false).await?;
            let head = link.ask("GET", url, &[("Connection", "close")], b"").await?;
            let body = link.whole().await?;
            if head.status != 200 {
                bail!("the server answered {} to a playlist: {}", head.status, detail(&body));
            }
            Ok(String::from_utf8_lossy(&body).into_owned())
        };
        let playlist = get(master).await?;
        let media = media_of(&playlist).context("the playlist names no variant")?;
        let media_url = beside(master, media);
        let (list, init) = segments_of(&get(&media_url).await?);
        if list.is_empty() {
            bail!("the playlist has no segments");
        }
        if let Some(init) = init {
            let mut link = Link::connect(server.address, false).await?;
            let head = link.ask("GET", &beside(&media_url, &init), &[("Connection", "close")], b"").await?;
            let body = link.whole().await?;
            if head.status != 200 {
                bail!("the server answered {} to the first segment: {}", head.status, detail(&body));
            }
        }
        Ok(Self { list: list.into_iter().map(|(name, us)| (beside(&media_url, &name), us)).collect() })
    }

    fn total_us(&self) -> u64 {
        self.list.iter().map(|(_, us)| us).sum()
    }
}

/// The first variant of a multivariant playlist (RFC 8216 section 4.3.4.2).
fn media_of(playlist: &str) -> Option<&str> {
    playlist.lines().find(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Segments with their lengths, and the initialisation section (RFC 8216 sections 4.3.2.1 and 4.3.2.5).
fn segments_of(playlist: &str) -> (Vec<(String, u64)>, Option<String>) {
    let (mut list, mut init, mut length_us) = (Vec::new(), None, 0);
    for line in playlist.lines() {
        if let Some(rest) = line.strip_prefix("#EXTINF:") {
            let seconds: f64 = rest.split(',').next().and_then(|s| s.trim().parse().ok()).unwrap_or(0.0);
            length_us =
                Duration::try_from_secs_f64(seconds).map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(0));
        } else if let Some(rest) = line.strip_prefix("#EXT-X-MAP:") {
            init = rest.split("URI=\"").nth(1).and_then(|r| r.split('"').next()).map(str::to_owned);
        } else if !line.is_empty() && !line.starts_with('#') {
            list.push((line.to_owned(), std::mem::take(&mut length_us)));
        }
    }
    (list, init)
}

/// The address of `name` in the folder of `base`: the server's playlists name their files only.
fn beside(base: &str, name: &str) -> String {
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{name}")
}

/// The byte at a share of a file, where a page begins: players jump to where a picture does, and the server reads by pages.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a place, not a size; the cast saturates"
)]
fn byte_at(size_bytes: u64, share: f64) -> u64 {
    ((size_bytes as f64 * share.clamp(0.0, 1.0)) as u64 & !4095).min(size_bytes.saturating_sub(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a place in a film; the cast saturates"
)]
fn place_us(total_us: u64, share: f64) -> u64 {
    (total_us as f64 * share.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_playlist_gives_its_segments_with_their_lengths_and_the_init_section() {
        let text = "#EXTM3U\n#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:6.006000,\n0.m4s\n#EXTINF:1.5,\n1.m4s\n#EXT-X-ENDLIST\n";
        let (list, init) = segments_of(text);
        assert_eq!(list, [("0.m4s".to_owned(), 6_006_000), ("1.m4s".to_owned(), 1_500_000)]);
        assert_eq!(init.as_deref(), Some("init.mp4"));
        assert_eq!(media_of("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nmedia.m3u8\n"), Some("media.m3u8"));
        assert_eq!(beside("/media/x/hls/master.m3u8", "media.m3u8"), "/media/x/hls/media.m3u8");
    }

    #[test]
    fn a_place_of_a_file_is_the_beginning_of_a_page_within_it() {
        assert_eq!(byte_at(100 << 20, 0.5), 50 << 20);
        assert_eq!(byte_at(10_000, 0.5), 4096);
        assert_eq!((byte_at(5, 1.0), byte_at(0, 0.5), byte_at(4096, 1.0)), (0, 0, 4095));
    }
}
