//! The messages between server and worker. Framing and file descriptors: [`crate::wire`].
//!
//! The server talks first only after the worker's `Hello`. Every request names the descriptors
//! that come with it; the worker never opens a path. Replies to a segmenter's grants come in the
//! order of the grants.

use serde::{Deserialize, Serialize};
use spindle_media::info::MediaInfo;
use spindle_media::keyframes::KeyframeIndex;

use crate::plan::{Picture, Plan};

/// Version of everything in this file. A worker of another version is refused.
pub const VERSION: u32 = 3;

/// Server to worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Describe the file. Descriptor: input.
    Probe {
        /// Echoed in the answer.
        id: u64,
        /// Name of the file, for the format guess by extension alone.
        name: String,
    },
    /// Become the segmenter of this plan. Descriptor: input. Answer: `Opened` or `Failed`.
    Open {
        /// What to make.
        plan: Plan,
    },
    /// Write the init segment. Descriptor: output. Answer: `Done { n: None }`.
    Init,
    /// Write segment `n`, which is the next after the last grant or seek. Descriptor: output.
    Grant {
        /// Segment number.
        n: usize,
        /// Number of seeks before it, echoed in the answer.
        epoch: u32,
    },
    /// Forget all grants that are not answered; the next grant is for segment `n`.
    Seek {
        /// Segment number.
        n: usize,
        /// The new epoch.
        epoch: u32,
    },
    /// Read every packet of the main video once. Descriptor: input.
    Keyframes,
    /// A text subtitle stream as WebVTT. Descriptors: input, output.
    Vtt {
        /// Position of the stream in the file.
        stream: u32,
    },
    /// A subtitle stream as the file has it, for who draws it: an ASS script, PGS as a `.sup` file,
    /// VobSub as [`crate::original`] says. Descriptors: input, output.
    Original {
        /// Position of the stream in the file.
        stream: u32,
    },
    /// A font that is attached to the file. Descriptors: input, output.
    Font {
        /// Name of the attachment: a key to look it up by, never a path.
        name: String,
    },
    /// A picture as JPEG. Descriptors: input, output.
    Picture {
        /// Which.
        what: Picture,
        /// Widest result in pixels.
        max_width: u32,
    },
}

impl Request {
    /// How many descriptors come with it.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        match self {
            Self::Seek { .. } => 0,
            Self::Probe { .. } | Self::Open { .. } | Self::Init | Self::Grant { .. } | Self::Keyframes => 1,
            Self::Vtt { .. } | Self::Original { .. } | Self::Font { .. } | Self::Picture { .. } => 2,
        }
    }
}

/// Worker to server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// First message of every worker.
    Hello {
        /// Protocol version.
        version: u32,
        /// What confines it.
        sandbox: Sandbox,
        /// FFmpeg's version.
        ffmpeg: String,
    },
    /// Answer to `Probe`.
    Probed {
        /// Of the request.
        id: u64,
        /// The description.
        info: Box<MediaInfo>,
    },
    /// Answer to `Probe` that failed.
    ProbeFailed {
        /// Of the request.
        id: u64,
        /// Why, in one word.
        kind: FailKind,
        /// Why, for people.
        reason: String,
    },
    /// The segmenter stands ready.
    Opened {
        /// `software`, or the name of the hardware that encodes.
        encoder: String,
    },
    /// A segment is written and whole.
    Done {
        /// Its number; absent for the init segment.
        n: Option<usize>,
        /// Of the grant.
        epoch: u32,
        /// Length in bytes.
        len_bytes: u64,
        /// Wall time that it took, in microseconds.
        took_us: u64,
    },
    /// A one-shot job that writes into its output descriptor is done.
    Written {
        /// Length in bytes.
        len_bytes: u64,
    },
    /// Answer to `Keyframes`.
    Index {
        /// The index.
        index: KeyframeIndex,
    },
    /// Still at it: sent at least every second of work that moves on.
    Progress {
        /// Position in the presentation, in microseconds.
        at_us: i64,
    },
    /// What was read of the input since the last of these.
    Reads {
        /// In order.
        rows: Vec<WorkerRead>,
    },
    /// The job failed; the worker takes no further request but for the prober.
    Failed {
        /// Why, in one word.
        kind: FailKind,
        /// Why, for people.
        reason: String,
    },
}

/// Why a worker could not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailKind {
    /// The file is damaged or of a kind nobody knows.
    Unreadable,
    /// The request does not fit the file.
    BadRequest,
    /// The output could not be written for lack of room.
    NoSpace,
    /// Anything else.
    Fault,
}

/// One `pread` of the input by a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRead {
    /// Thread that read.
    pub tid: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes that came.
    pub len_bytes: u32,
    /// Bytes that the kernel charged as read from a device during this call
    /// (`ru_inblock` of `RUSAGE_THREAD`, 512-byte units, times 512).
    pub inblock_bytes: u64,
    /// `CLOCK_MONOTONIC` before, in microseconds.
    pub start_us: u64,
    /// `CLOCK_MONOTONIC` after, in microseconds.
    pub end_us: u64,
}

/// What confines a worker. Anything missing is logged as a warning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// `full`, `partial` or `none`, as the kernel enforces our Landlock rules.
    pub landlock: String,
    /// The Landlock interface version of the kernel, 0 if there is none.
    pub landlock_abi: u32,
    /// Whether the system call filter is on.
    pub seccomp: bool,
    /// Whether gaining privileges by exec is off.
    pub no_new_privs: bool,
    /// Whether resource limits are set.
    pub rlimits: bool,
    /// Whether every capability is dropped.
    pub capabilities_dropped: bool,
    /// User id it runs as.
    pub uid: u32,
    /// What could not be set up, for people.
    #[serde(default)]
    pub missing: Vec<String>,
}

impl Sandbox {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire_format() {
        let requests = [
            Request::Probe { id: 7, name: "a \"b\".mkv".to_owned() },
            Request::Grant { n: 3, epoch: 2 },
            Request::Picture { what: Picture::Frame { at_us: 5 }, max_width: 320 },
        ];
        for request in requests {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
        let reply = Reply::Done { n: None, epoch: 0, len_bytes: 9, took_us: 1 };
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), reply);
    }
}
