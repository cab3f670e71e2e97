//! Why a film does not go out as it is. A closed list: each has one word for programs and one
//! sentence for people.

use serde::{Deserialize, Serialize};

/// One reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The client does not take this container, or not with these codecs in it.
    ContainerNotSupported,
    /// More streams than the client takes in one file.
    StreamCountNotSupported,
    /// The client does not play files, only playlists.
    ProtocolNotSupported,
    /// The client does not decode the video codec.
    VideoCodecNotSupported,
    /// It decodes the codec, not this profile.
    VideoProfileNotSupported,
    /// The level is above the client's.
    VideoLevelNotSupported,
    /// More bits a sample than the client decodes.
    VideoBitDepthNotSupported,
    /// The client does not show this dynamic range.
    VideoRangeNotSupported,
    /// Wider or higher than the client decodes.
    VideoResolutionNotSupported,
    /// More pictures a second than the client shows.
    VideoFramerateNotSupported,
    /// The video stream is above what the client takes of this codec.
    VideoBitrateNotSupported,
    /// The sample entry in the container is not one that the client opens.
    VideoCodecTagNotSupported,
    /// Several recordings in one file, which may differ in everything: one stream is made of them.
    RecordingRestarts,
    /// The film begins between two key frames, which only a player of the file itself can do.
    VideoStartsBetweenKeyframes,
    /// Fields instead of frames.
    InterlacedVideoNotSupported,
    /// Samples that are not square, on a client that takes them for square.
    AnamorphicVideoNotSupported,
    /// A rotation that the client ignores.
    VideoRotationNotSupported,
    /// More reference frames than the client holds.
    RefFramesNotSupported,
    /// The client does not decode the audio codec.
    AudioCodecNotSupported,
    /// It decodes the codec, not this profile.
    AudioProfileNotSupported,
    /// More channels than the client takes of this codec.
    AudioChannelsNotSupported,
    /// A higher sample rate than the client takes.
    AudioSampleRateNotSupported,
    /// Another sound track than the one that the client would start with.
    SecondaryAudioNotSupported,
    /// More bits a sample than the client takes.
    AudioBitDepthNotSupported,
    /// The sound stream is above what the client takes of this codec.
    AudioBitrateNotSupported,
    /// All together are above the limit of the client, the viewer or the network.
    BitrateOverLimit,
    /// The chosen subtitles are pictures that the client does not draw.
    SubtitleBurnIn,
    /// The client takes subtitles only inside an HLS playlist.
    SubtitleNeedsHls,
    /// The client shows the chosen subtitles in no form.
    SubtitleFormatNotSupported,
    /// It was tried this way on this client, and failed.
    FailedBefore,
    /// A stream was asked for that the file does not have.
    ChosenStreamMissing,
    /// Nothing in the file can be played.
    NothingToPlay,
    /// Dolby Vision without a base layer, or with an unknown one, has to be converted, and is not.
    DolbyVisionNotConvertible,
    /// The client takes nothing that this server can make of the track.
    NoCommonFormat,
    /// Every way was tried on this client, and failed.
    EveryWayFailed,
}

impl Reason {
    /// One sentence for a person.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::ContainerNotSupported => "The player cannot open this kind of file, so it is repacked.",
            Self::ProtocolNotSupported => "The player takes playlists only, so the file is repacked.",
            Self::StreamCountNotSupported => {
                "The file has more streams than the player takes, so it is repacked without the others."
            }
            Self::VideoCodecNotSupported => "The player cannot decode this video format.",
            Self::VideoProfileNotSupported => "The player cannot decode this profile of the video format.",
            Self::VideoLevelNotSupported => "The video's level is above what the player decodes.",
            Self::VideoBitDepthNotSupported => "The video has more bits a sample than the player decodes.",
            Self::VideoRangeNotSupported => "The player cannot show this kind of HDR.",
            Self::VideoResolutionNotSupported => "The picture is larger than the player decodes.",
            Self::VideoFramerateNotSupported => "The video has more pictures a second than the player shows.",
            Self::VideoBitrateNotSupported => "The video's bitrate is above what the player takes.",
            Self::VideoCodecTagNotSupported => {
                "The video is labelled in a way that the player does not open, so it is repacked."
            }
            Self::RecordingRestarts => {
                "The file holds several recordings in a row, which are made one by re-encoding."
            }
            Self::VideoStartsBetweenKeyframes => {
                "The film begins between two key frames, so that its picture cannot be repacked."
            }
            Self::InterlacedVideoNotSupported => {
                "The video is interlaced and the player does not deinterlace."
            }
            Self::AnamorphicVideoNotSupported => {
                "The picture is stored squeezed and the player would show it so."
            }
            Self::VideoRotationNotSupported => {
                "The picture is stored turned and the player would show it so."
            }
            Self::RefFramesNotSupported => "The video refers to more pictures than the player holds.",
            Self::AudioCodecNotSupported => "The player cannot decode this sound format.",
            Self::AudioProfileNotSupported => "The player cannot decode this profile of the sound format.",
            Self::AudioChannelsNotSupported => "The sound has more channels than the player takes.",
            Self::AudioSampleRateNotSupported => "The sound's sample rate is above what the player takes.",
            Self::SecondaryAudioNotSupported => {
                "The player cannot choose this sound track by itself, so the file is repacked with it."
            }
            Self::AudioBitDepthNotSupported => "The sound has more bits a sample than the player takes.",
            Self::AudioBitrateNotSupported => "The sound's bitrate is above what the player takes.",
            Self::BitrateOverLimit => "The bitrate is above the limit that was set.",
            Self::SubtitleBurnIn => {
                "The chosen subtitles are pictures that the player cannot draw, so they are drawn into the video."
            }
            Self::SubtitleNeedsHls => {
                "The player takes subtitles only inside a playlist, so the file is repacked."
            }
            Self::SubtitleFormatNotSupported => "The player cannot show the chosen subtitles.",
            Self::FailedBefore => "It was tried another way on this player and failed.",
            Self::ChosenStreamMissing => "A chosen track is not in the file; the default one is used.",
            Self::NothingToPlay => "The file has neither picture nor sound that can be played.",
            Self::DolbyVisionNotConvertible => {
                "The picture is Dolby Vision without a base that the player shows, and cannot be converted."
            }
            Self::NoCommonFormat => "The player takes no format that this server can convert to.",
            Self::EveryWayFailed => "Every way of playing it on this player was tried and failed.",
        }
    }

    /// Whether nothing can be sent at all for it.
    #[must_use]
    pub fn refuses(self) -> bool {
        matches!(
            self,
            Self::NothingToPlay
                | Self::DolbyVisionNotConvertible
                | Self::NoCommonFormat
                | Self::EveryWayFailed
        )
    }

    /// Every reason, in the order in which they are listed in a decision.
    pub const ALL: [Self; 35] = [
        Self::ContainerNotSupported,
        Self::StreamCountNotSupported,
        Self::ProtocolNotSupported,
        Self::VideoCodecNotSupported,
        Self::VideoProfileNotSupported,
        Self::VideoLevelNotSupported,
        Self::VideoBitDepthNotSupported,
        Self::VideoRangeNotSupported,
        Self::VideoResolutionNotSupported,
        Self::VideoFramerateNotSupported,
        Self::VideoBitrateNotSupported,
        Self::VideoCodecTagNotSupported,
        Self::RecordingRestarts,
        Self::VideoStartsBetweenKeyframes,
        Self::InterlacedVideoNotSupported,
        Self::AnamorphicVideoNotSupported,
        Self::VideoRotationNotSupported,
        Self::RefFramesNotSupported,
        Self::AudioCodecNotSupported,
        Self::AudioProfileNotSupported,
        Self::AudioChannelsNotSupported,
        Self::AudioSampleRateNotSupported,
        Self::SecondaryAudioNotSupported,
        Self::AudioBitDepthNotSupported,
        Self::AudioBitrateNotSupported,
        Self::BitrateOverLimit,
        Self::SubtitleBurnIn,
        Self::SubtitleNeedsHls,
        Self::SubtitleFormatNotSupported,
        Self::FailedBefore,
        Self::ChosenStreamMissing,
        Self::NothingToPlay,
        Self::DolbyVisionNotConvertible,
        Self::NoCommonFormat,
        Self::EveryWayFailed,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_has_a_word_and_a_sentence_of_its_own() {
        let words: BTreeSet<String> = Reason::ALL.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
        let sentences: BTreeSet<&str> = Reason::ALL.iter().map(|r| r.sentence()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        assert_eq!(sentences.len(), Reason::ALL.len());
        assert!(sentences.iter().all(|s| s.ends_with('.')));
        assert!(Reason::ALL.is_sorted());
    }
}
