//! Conditional and range requests on one entity, RFC 9110 sections 13 and 14. Pure: facts and
//! headers in, a closed outcome out.

use http::Method;
use http::header::{self, HeaderMap};
use spindle_base::clock::parse_http_date;
use spindle_base::units::ByteRange;

use super::range::{self, Resolved};

/// What is served, as far as a condition can ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Length in bytes.
    pub size_bytes: u64,
    /// Strong entity tag with its quotes.
    pub etag: String,
    /// Microseconds since the epoch; HTTP sees whole seconds.
    pub modified_us: i64,
}

/// What a request on an entity comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// 200, everything.
    Full,
    /// 206, these ranges: one plain, several as `multipart/byteranges`.
    Partial(Vec<ByteRange>),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    Unsatisfiable,
}

/// Whether the client has this representation already: `If-None-Match` by weak comparison (section 13.1.2). For what
/// has an entity tag and neither ranges nor a date; everything else goes through [`decide`].
#[must_use]
pub fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    any_tag(headers, &header::IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Applies the preconditions in the order of RFC 9110 section 13.2.2.
#[must_use]
pub fn decide(method: &Method, headers: &HeaderMap, entity: &Entity) -> Outcome {
    let safe = matches!(*method, Method::GET | Method::HEAD);

    // 1. If-Match, strong comparison: false is 412.
    if headers.contains_key(header::IF_MATCH) {
        if !any_tag(headers, &header::IF_MATCH, |tag| tag == entity.etag) {
            return Outcome::PreconditionFailed;
        }
    }
    // 2. else If-Unmodified-Since: false is 412; an invalid date is ignored (13.1.4).
    else if let Some(since) = date(headers, &header::IF_UNMODIFIED_SINCE)
        && seconds(entity.modified_us) > seconds(since)
    {
        return Outcome::PreconditionFailed;
    }
    // 3. If-None-Match, weak comparison: false is 304 for GET and HEAD, 412 otherwise.
    if headers.contains_key(header::IF_NONE_MATCH) {
        if is_known(headers, &entity.etag) {
            return if safe { Outcome::NotModified } else { Outcome::PreconditionFailed };
        }
    }
    // 4. else, for GET and HEAD, If-Modified-Since: false is 304.
    else if safe
        && let Some(since) = date(headers, &header::IF_MODIFIED_SINCE)
        && seconds(entity.modified_us) <= seconds(since)
    {
        return Outcome::NotModified;
    }
    // 5. Range, for GET alone (14.2), unless If-Range says that it is another representation.
    if *method != Method::GET {
        return Outcome::Full;
    }
    let Some(wanted) = single(headers, &header::RANGE) else {
        return Outcome::Full;
    };
    if let Some(condition) = headers.get(header::IF_RANGE) {
        let holds = condition.to_str().is_ok_and(|text| if_range_holds(text.trim(), entity));
        if !holds {
            return Outcome::Full;
        }
    }
    match range::resolve(wanted, entity.size_bytes) {
        Resolved::Whole => Outcome::Full,
        Resolved::Ranges(ranges) => Outcome::Partial(ranges),
        Resolved::Unsatisfiable => Outcome::Unsatisfiable,
    }
}

/// Section 13.1.5: an entity tag by strong comparison, or a date that equals `Last-Modified`
/// exactly. We do not treat the date as strong unless the tag says so too; a file whose second
/// is the same but whose bytes differ has another tag, and players send tags.
fn if_range_holds(condition: &str, entity: &Entity) -> bool {
    if condition.starts_with('"') {
        return condition == entity.etag;
    }
    if condition.starts_with("W/") {
        return false;
    }
    parse_http_date(condition).is_some_and(|at| seconds(at) == seconds(entity.modified_us))
}

fn seconds(us: i64) -> i64 {
    us.div_euclid(1_000_000)
}

fn date(headers: &HeaderMap, name: &header::HeaderName) -> Option<i64> {
    parse_http_date(single(headers, name)?.trim())
}

/// The value of a header that may stand once; several are treated as none.
fn single<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

/// Whether `*` or any tag of a list (over all lines of the header) satisfies `matches`.
fn any_tag(headers: &HeaderMap, name: &header::HeaderName, matches: impl Fn(&str) -> bool) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|line| line.trim() == "*" || tags(line).any(&matches))
}

/// Splits a list of entity tags; a comma inside quotes is part of the tag (section 8.8.3).
fn tags(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let weak = usize::from(rest.starts_with("W/")) * 2;
        let body = rest.get(weak..)?.strip_prefix('"')?;
        let close = body.find('"')?;
        let end = weak + 1 + close + 1;
        let tag = rest.get(..end)?;
        rest = rest.get(end..)?;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: i64 = 784_111_777_500_000; // Sun, 06 Nov 1994 08:49:37.5 GMT

    fn entity() -> Entity {
        Entity { size_bytes: 1000, etag: "\"abc\"".to_owned(), modified_us: MODIFIED }
    }

    fn ask(method: &Method, pairs: &[(&'static str, &str)]) -> Outcome {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a test's header is valid"));
        }
        decide(method, &headers, &entity())
    }

    fn partial(start: u64, end: u64) -> Outcome {
        Outcome::Partial(vec![ByteRange::new(start, end).expect("not inverted")])
    }

    #[test]
    fn a_plain_get_is_full() {
        assert_eq!(ask(&Method::GET, &[]), Outcome::Full);
        assert_eq!(ask(&Method::HEAD, &[]), Outcome::Full);
    }

    #[test]
    fn if_match_takes_precedence_over_if_unmodified_since() {
        let old = "Sat, 05 Nov 1994 08:49:37 GMT";
        assert_eq!(
            ask(&Method::GET, &[("if-match", "\"abc\""), ("if-unmodified-since", old)]),
            Outcome::Full
        );
        assert_eq!(ask(&Method::GET, &[("if-match", "\"x\"")]), Outcome::PreconditionFailed);
        assert_eq!(ask(&Method::GET, &[("if-match", "W/\"abc\"")]), Outcome::PreconditionFailed);
        assert_eq!(ask(&Method::GET, &[("if-match", "*")]), Outcome::Full);
        assert_eq!(ask(&Method::GET, &[("if-match", "\"x\", \"abc\"")]), Outcome::Full);
    }

    #[test]
    fn if_unmodified_since_compares_whole_seconds() {
        for (date, want) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Outcome::Full),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Outcome::PreconditionFailed),
            ("not a date", Outcome::Full),
        ] {
            assert_eq!(ask(&Method::GET, &[("if-unmodified-since", date)]), want, "{date}");
        }
    }

    #[test]
    fn if_none_match_takes_precedence_over_if_modified_since() {
        let same = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(
            ask(&Method::GET, &[("if-none-match", "\"x\""), ("if-modified-since", same)]),
            Outcome::Full
        );
        for tag in ["\"abc\"", "W/\"abc\"", "*", "\"a,b\", \"abc\""] {
            assert_eq!(ask(&Method::GET, &[("if-none-match", tag)]), Outcome::NotModified, "{tag}");
            assert_eq!(ask(&Method::HEAD, &[("if-none-match", tag)]), Outcome::NotModified, "{tag}");
            assert_eq!(ask(&Method::PUT, &[("if-none-match", tag)]), Outcome::PreconditionFailed, "{tag}");
        }
    }

    #[test]
    fn if_modified_since_answers_304_for_the_same_second_or_later() {
        for (date, want) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Outcome::NotModified),
            ("Mon, 07 Nov 1994 08:49:37 GMT", Outcome::NotModified),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Outcome::Full),
            ("garbage", Outcome::Full),
        ] {
            assert_eq!(ask(&Method::GET, &[("if-modified-since", date)]), want, "{date}");
        }
    }

    #[test]
    fn a_failed_precondition_wins_over_a_range() {
        assert_eq!(
            ask(&Method::GET, &[("if-match", "\"x\""), ("range", "bytes=0-1")]),
            Outcome::PreconditionFailed
        );
        assert_eq!(
            ask(&Method::GET, &[("if-none-match", "\"abc\""), ("range", "bytes=0-1")]),
            Outcome::NotModified
        );
    }

    #[test]
    fn range_is_for_get_alone() {
        assert_eq!(ask(&Method::GET, &[("range", "bytes=0-9")]), partial(0, 10));
        assert_eq!(ask(&Method::HEAD, &[("range", "bytes=0-9")]), Outcome::Full);
        assert_eq!(ask(&Method::GET, &[("range", "bytes=1000-")]), Outcome::Unsatisfiable);
        assert_eq!(ask(&Method::HEAD, &[("range", "bytes=1000-")]), Outcome::Full);
    }

    #[test]
    fn two_range_headers_are_ignored() {
        assert_eq!(ask(&Method::GET, &[("range", "bytes=0-9"), ("range", "bytes=0-1")]), Outcome::Full);
    }

    #[test]
    fn if_range_with_another_or_a_weak_tag_sends_everything() {
        for (condition, want) in [
            ("\"abc\"", partial(0, 10)),
            ("\"x\"", Outcome::Full),
            ("W/\"abc\"", Outcome::Full),
            ("Sun, 06 Nov 1994 08:49:37 GMT", partial(0, 10)),
            ("Sun, 06 Nov 1994 08:49:38 GMT", Outcome::Full),
            ("junk", Outcome::Full),
        ] {
            assert_eq!(
                ask(&Method::GET, &[("range", "bytes=0-9"), ("if-range", condition)]),
                want,
                "{condition}"
            );
        }
    }

    #[test]
    fn if_range_without_range_changes_nothing() {
        assert_eq!(ask(&Method::GET, &[("if-range", "\"x\"")]), Outcome::Full);
    }

    #[test]
    fn an_unsatisfiable_range_of_another_representation_sends_everything() {
        assert_eq!(ask(&Method::GET, &[("range", "bytes=5000-"), ("if-range", "\"x\"")]), Outcome::Full);
    }
}
