//! Errors as `application/problem+json` (RFC 9457). The one place where a kind becomes a status.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use spindle_base::error::ErrorKind;

use crate::sessions::SessionError;

/// The type of a problem that its status tells (RFC 9457 section 4.2.1).
const UNTYPED: &str = "about:blank";
/// The type of a problem that programs tell apart from others of its status: the film's file is not where it was.
pub const FILE_MISSING: &str = "urn:spindle:problem:file-missing";

/// A failed request, as the client sees it.
#[derive(Debug, Clone)]
pub struct Problem {
    of_type: &'static str,
    status: StatusCode,
    detail: String,
    retry_after_s: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    /// A problem of `kind`; `detail` says what was attempted, on what, and what to do.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            of_type: UNTYPED,
            status: status_of(kind),
            detail: detail.into(),
            retry_after_s: (kind == ErrorKind::OverLimit).then_some(2),
        }
    }

    /// The request is wrong.
    pub fn bad_input(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadInput, detail)
    }

    /// The body is longer than any that this route takes.
    pub fn too_large(detail: impl Into<String>) -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self { of_type: UNTYPED, status, detail: detail.into(), retry_after_s: None }
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, detail)
    }

    /// An error of any room, with its causes on one line. Faults are logged here, once.
    pub fn from_error(kind: ErrorKind, error: &dyn std::error::Error) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let text = inner.to_string();
            if !detail.ends_with(&text) {
                detail.push_str(": ");
                detail.push_str(&text);
            }
            source = inner.source();
        }
        if kind == ErrorKind::Fault {
            tracing::error!(error = %detail, "request failed");
        }
        Self::new(kind, detail)
    }

    /// The same with a type of its own, for programs.
    #[must_use]
    pub fn of_type(mut self, of_type: &'static str) -> Self {
        self.of_type = of_type;
        self
    }

    /// Asks the client to come again after so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The document's bytes.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let document = Document {
            r#type: self.of_type,
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// Seconds for `Retry-After`, where there is a point in coming again.
    #[must_use]
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after_s
    }
}

/// The status of each kind of failure.
#[must_use]
pub fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::BadInput => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::OverLimit | ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Unreadable => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Fault => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

macro_rules! from_room {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::from_error(error.kind(), &error)
            }
        }
    )+};
}

from_room!(
    spindle_bench::BenchError,
    spindle_library::LibraryError,
    spindle_storage::StorageError,
    spindle_transcode::TranscodeError,
);

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let problem = Self::from_error(error.kind(), &error);
        match error {
            SessionError::FileMissing(_) => problem.of_type(FILE_MISSING),
            _ => problem,
        }
    }
}
