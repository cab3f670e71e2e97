//! One rule held against one track: what was wanted, what was found, how that went.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::reason::Reason;

/// One rule, held against one track or the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// Its name.
    pub rule: &'static str,
    /// The stream that it was held against; absent for the file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// What the client takes.
    pub wanted: Text,
    /// What the file has.
    pub found: Text,
    /// How that went.
    pub verdict: RuleVerdict,
    /// The reason that follows when it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// How a rule went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleVerdict {
    /// It fits.
    Pass,
    /// It fits with a loss that is told: a Dolby Vision picture shown by its base.
    Note,
    /// It does not.
    Fail,
    /// Nobody knows what the file has; that alone refuses nothing.
    Unknown,
}

/// Words of a rule. Most are the same for every file and are not copied; numbers are written when
/// they are read, since most rules pass and nobody reads them.
#[derive(Debug, Clone)]
pub enum Text {
    /// Fixed.
    Fixed(&'static str),
    /// The profile's own.
    Shared(Arc<str>),
    /// The file's own.
    Owned(String),
    /// A number.
    Number(u64),
    /// A limit.
    AtMost(u64),
    /// A number with a fraction.
    Decimal(f64),
    /// A limit with a fraction.
    AtMostDecimal(f64),
    /// Width and height.
    Size(u32, u32),
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => f.write_str(text),
            Self::Shared(text) => f.write_str(text),
            Self::Owned(text) => f.write_str(text),
            Self::Number(n) => write!(f, "{n}"),
            Self::AtMost(n) => write!(f, "at most {n}"),
            Self::Decimal(n) => write!(f, "{n}"),
            Self::AtMostDecimal(n) => write!(f, "at most {n}"),
            Self::Size(w, h) => write!(f, "{w}x{h}"),
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Self {
        Self::Shared(Arc::clone(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Owned(text)
    }
}

/// A number that a rule compares.
pub(super) trait Number: PartialOrd + Copy {
    fn found(self) -> Text;
    fn wanted(self) -> Text;
}

macro_rules! whole {
    ($($kind:ty),+) => {$(
        impl Number for $kind {
            fn found(self) -> Text {
                Text::Number(u64::from(self))
            }
            fn wanted(self) -> Text {
                Text::AtMost(u64::from(self))
            }
        }
    )+};
}
whole!(u8, u32, u64);

impl Number for f64 {
    fn found(self) -> Text {
        Text::Decimal(self)
    }
    fn wanted(self) -> Text {
        Text::AtMostDecimal(self)
    }
}

/// Collects rules.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    pub(super) fn new() -> Self {
        // What most decisions note.
        Self(Vec::with_capacity(20))
    }

    pub(super) fn done(self) -> Vec<Rule> {
        self.0
    }

    /// Takes over what was noted apart.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Notes a rule that refuses nothing: unknown, or a loss.
    pub(super) fn note(
        &mut self,
        rule: &'static str,
        stream: Option<u32>,
        wanted: impl Into<Text>,
        found: impl Into<Text>,
        verdict: RuleVerdict,
    ) {
        let (wanted, found) = (wanted.into(), found.into());
        self.0.push(Rule { rule, stream, wanted, found, verdict, reason: None });
    }

    /// Notes a rule and says whether it holds; `reason` is what follows when it does not.
    pub(super) fn must(
        &mut self,
        reason: Reason,
        rule: &'static str,
        stream: Option<u32>,
        wanted: impl Into<Text>,
        found: impl Into<Text>,
        holds: bool,
    ) -> bool {
        let (verdict, reason) =
            if holds { (RuleVerdict::Pass, None) } else { (RuleVerdict::Fail, Some(reason)) };
        let (wanted, found) = (wanted.into(), found.into());
        self.0.push(Rule { rule, stream, wanted, found, verdict, reason });
        holds
    }

    /// A number that must not be above a limit by more than `slack`; no limit notes nothing, and what
    /// nobody knows holds.
    pub(super) fn at_most<T: Number>(
        &mut self,
        reason: Reason,
        rule: &'static str,
        stream: u32,
        limit: Option<T>,
        found: Option<T>,
    ) -> bool {
        let Some(limit) = limit else { return true };
        match found {
            Some(found) => {
                self.must(reason, rule, Some(stream), limit.wanted(), found.found(), found <= limit)
            }
            None => {
                self.note(rule, Some(stream), limit.wanted(), "unknown", RuleVerdict::Unknown);
                true
            }
        }
    }
}
