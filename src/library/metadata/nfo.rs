//! A small reader of NFO files: the few elements that people write into them.
//!
//! Not an XML parser: it looks for elements by name at any depth and takes their text. Entities
//! are the five of XML and character references; a document type is skipped, so that nothing can
//! expand. What is malformed gives what can still be found.

/// Bytes of a file that are looked at.
pub(crate) const MAX_BYTES: u64 = 512 * 1024;
/// Values of one element that are kept, and characters of each.
const MAX_VALUES: usize = 100;
const MAX_TEXT: usize = 8_000;

/// What an NFO file says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Nfo {
    pub(crate) title: Option<String>,
    pub(crate) year: Option<i64>,
    pub(crate) released: Option<String>,
    pub(crate) plot: Option<String>,
    pub(crate) rating: Option<f64>,
    pub(crate) genres: Vec<String>,
    pub(crate) people: Vec<String>,
    pub(crate) provider_id: Option<String>,
}

/// Reads `text`.
pub(crate) fn read(text: &str) -> Nfo {
    let text = without_comments(text);
    let day =
        first(&text, "premiered").or_else(|| first(&text, "aired")).or_else(|| first(&text, "releasedate"));
    let mut people: Vec<String> = all(&text, "actor").iter().filter_map(|a| first(a, "name")).collect();
    people.extend(all(&text, "director").iter().map(|d| plain(d)));
    people.retain(|p| !p.is_empty());
    people.dedup();
    // The cast has titles and plots of its own in some writers' files; look outside it.
    let outside = without(&text, "actor");
    Nfo {
        title: first(&outside, "title"),
        year: first(&outside, "year").and_then(|y| y.parse().ok()).filter(|y| (1_870..2_200).contains(y)),
        released: day.filter(|d| is_day(d)),
        plot: first(&outside, "plot").or_else(|| first(&outside, "outline")),
        rating: rating(&outside),
        genres: all(&outside, "genre").iter().map(|g| plain(g)).filter(|g| !g.is_empty()).collect(),
        people,
        provider_id: provider(&outside),
    }
}

fn rating(text: &str) -> Option<f64> {
    let flat = first(text, "rating").and_then(|r| r.parse::<f64>().ok());
    let nested = all(text, "rating").iter().find_map(|r| first(r, "value")?.parse::<f64>().ok());
    flat.or(nested).filter(|r| (0.0..=10.0).contains(r))
}

fn is_day(text: &str) -> bool {
    text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if matches!(i, 4 | 7) { b == b'-' } else { b.is_ascii_digit() })
}

fn provider(text: &str) -> Option<String> {
    let id =
        |name: &str, prefix: &str| first(text, name).filter(|v| is_id(v)).map(|v| format!("{prefix}:{v}"));
    id("imdbid", "imdb")
        .or_else(|| id("imdb_id", "imdb"))
        .or_else(|| id("tmdbid", "tmdb"))
        .or_else(|| unique(text))
}

/// `<uniqueid type="imdb" default="true">tt…</uniqueid>`
fn unique(text: &str) -> Option<String> {
    let mut best: Option<String> = None;
    let mut rest = text;
    while let Some((attributes, inner, after)) = next(rest, "uniqueid") {
        let kind = attributes.split("type=").nth(1).and_then(|t| t.split(['"', '\'']).nth(1)).unwrap_or("");
        let value = plain(inner);
        if is_id(&value) && matches!(kind, "imdb" | "tmdb" | "tvdb") {
            let found = format!("{kind}:{value}");
            if attributes.contains("default=\"true\"") {
                return Some(found);
            }
            best.get_or_insert(found);
        }
        rest = after;
    }
    best
}

fn is_id(value: &str) -> bool {
    !value.is_empty() && value.len() <= 32 && value.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The next element `name`: its attributes, what is in it, what follows.
fn next<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let open = format!("<{name}");
    let close = format!("</{name}>");
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(&open)?;
        let after_name = at + open.len();
        let tail = &text[after_name..];
        from = after_name;
        if !tail.starts_with(['>', ' ', '\t', '\r', '\n', '/']) {
            continue; // `<titles>` is not `<title>`.
        }
        let end = tail.find('>')?;
        let attributes = &tail[..end];
        if attributes.ends_with('/') {
            continue;
        }
        let inner = &tail[end + 1..];
        let stop = inner.find(&close)?;
        return Some((attributes, &inner[..stop], &inner[stop + close.len()..]));
    }
}

fn all<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((_, inner, after)) = next(rest, name) {
        out.push(inner);
        rest = after;
        if out.len() == MAX_VALUES {
            break;
        }
    }
    out
}

fn first(text: &str, name: &str) -> Option<String> {
    let (_, inner, _) = next(text, name)?;
    let value = plain(inner);
    // An element that holds elements has no text of its own.
    let nested = inner.contains('<') && !inner.trim_start().starts_with("<![CDATA[");
    (!value.is_empty() && !nested).then_some(value)
}

fn without(text: &str, name: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((_, _, after)) = next(rest, name) {
        let element = rest.len() - after.len();
        let start = rest[..element].find(&format!("<{name}")).unwrap_or(0);
        out.push_str(&rest[..start]);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<!--") {
        out.push_str(&rest[..at]);
        rest = rest[at..].find("-->").map_or("", |end| &rest[at + end + 3..]);
    }
    out.push_str(rest);
    out
}

/// Text with CDATA marks taken off and references resolved, once.
fn plain(inner: &str) -> String {
    let inner = inner.trim();
    if let Some(raw) = inner.strip_prefix("<![CDATA[") {
        return raw.split("]]>").next().unwrap_or("").trim().chars().take(MAX_TEXT).collect();
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.char_indices().take(12).find(|(_, c)| *c == ';').map(|(i, _)| i);
        match end.and_then(|end| Some((end, reference(&rest[1..end])?))) {
            Some((end, c)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out.trim().chars().take(MAX_TEXT).collect()
}

fn reference(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|c| !c.is_control() || *c == '\n')?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_is_read() {
        let nfo = read(
            r#"<?xml version="1.0"?><movie><!-- <title>no</title> -->
            <title>Amber &amp; Coast &#x2014; 2</title><originaltitle>x</originaltitle><year>2001</year>
            <ratings><rating name="imdb"><value>7.5</value></rating></ratings>
            <plot><![CDATA[A <b>plot</b>.]]></plot><genre>Drama</genre><genre>Sea</genre>
            <uniqueid type="tmdb">901</uniqueid><uniqueid type="imdb" default="true">tt0000901</uniqueid>
            <actor><name>Ann Onymous</name><title>not this</title></actor><premiered>2001-02-03</premiered></movie>"#,
        );
        assert_eq!(
            nfo,
            Nfo {
                title: Some("Amber & Coast — 2".into()),
                year: Some(2001),
                released: Some("2001-02-03".into()),
                plot: Some("A <b>plot</b>.".into()),
                rating: Some(7.5),
                genres: vec!["Drama".into(), "Sea".into()],
                people: vec!["Ann Onymous".into()],
                provider_id: Some("imdb:tt0000901".into()),
            }
        );
    }

    #[test]
    fn entities_of_the_file_itself_stay_text() {
        let bomb =
            "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><movie><title>&b;</title></movie>";
        assert_eq!(read(bomb).title.as_deref(), Some("&b;"));
    }

    #[test]
    fn damage_gives_what_is_left() {
        assert_eq!(
            read("<movie><title>A</title><plot>never closed"),
            Nfo { title: Some("A".into()), ..Nfo::default() }
        );
        assert_eq!(read("https://example.org/title/tt1"), Nfo::default());
        assert_eq!(read("<title"), Nfo::default());
        assert_eq!(read("<title>&#xD800;&é€;</title>").title.as_deref(), Some("&#xD800;&é€;"));
    }
}
