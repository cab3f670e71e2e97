//! Descriptions of files for tests, short to write.

use spindle_media::info::{Audio, Disposition, MediaInfo, Stream, StreamKind, Subtitle, Video};

/// A file of these streams; the index is set by position.
pub(crate) fn file(container: &str, streams: &[Stream]) -> MediaInfo {
    let mut streams = streams.to_vec();
    for (s, n) in streams.iter_mut().zip(0..) {
        s.index = n;
    }
    MediaInfo {
        container: container.to_owned(),
        size_bytes: 1_000_000_000,
        duration_s: Some(7_200.0),
        streams,
        ..MediaInfo::default()
    }
}

fn stream(index: u32, codec: &str, kind: StreamKind) -> Stream {
    Stream {
        index,
        codec: codec.to_owned(),
        codec_string: None,
        codec_tag: None,
        profile: None,
        language: None,
        title: None,
        bitrate_bps: None,
        duration_s: None,
        time_base: [1, 1_000],
        disposition: Disposition::default(),
        kind,
    }
}

/// 1080p24, 8 bit, with the change that a test is about.
pub(crate) fn video(codec: &str, profile: &str, change: impl FnOnce(&mut Video)) -> Stream {
    let mut v = Video {
        width: 1920,
        height: 1080,
        level: Some(if codec == "hevc" { 120 } else { 40 }),
        bit_depth: Some(8),
        fps: Some(24.0),
        frame_rate: Some([24, 1]),
        ..Video::default()
    };
    change(&mut v);
    let mut s = stream(0, codec, StreamKind::Video(v));
    s.profile = Some(profile.to_owned());
    s
}

/// 48 kHz sound.
pub(crate) fn audio(index: u32, codec: &str, channels: u32) -> Stream {
    let kind = StreamKind::Audio(Audio { channels, sample_rate: 48_000, ..Audio::default() });
    stream(index, codec, kind)
}

/// Subtitles inside the file.
pub(crate) fn subtitle(index: u32, codec: &str) -> Stream {
    let text = !["hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle"].contains(&codec);
    stream(index, codec, StreamKind::Subtitle(Subtitle { text, external: None }))
}
