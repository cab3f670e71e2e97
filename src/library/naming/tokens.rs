//! A name cut into tokens: runs of letters and digits with what stands between them.
//!
//! Recognition works on folded text (lower case, Latin letters without marks); titles are cut from
//! the text itself. One pass, linear in the length of the name.

/// One run of letters and digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    /// Byte range in [`Name::text`].
    pub(super) start: usize,
    pub(super) end: usize,
    fold_start: usize,
    fold_end: usize,
    /// Number of the innermost bracket pair around it, 0 = none; index into [`Name::groups`] plus 1.
    pub(super) group: usize,
    /// Within square or curly brackets, at any depth.
    pub(super) boxed: bool,
}

/// A pair of brackets. An unclosed one ends with the name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// `(`, `[` or `{`.
    pub(super) open: char,
    /// Byte offset of the opening bracket.
    pub(super) start: usize,
    /// Byte offset after the closing bracket.
    pub(super) end: usize,
}

/// A run of digits or of letters within a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Atom {
    /// The token it is part of.
    pub(super) token: usize,
    /// Byte range in [`Name::text`].
    pub(super) start: usize,
    pub(super) end: usize,
    fold_start: usize,
    fold_end: usize,
    /// The value when it is a number of at most nine digits.
    pub(super) number: Option<u32>,
    /// Directly after the atom before it.
    pub(super) glued: bool,
}

/// A file or folder name, cut up.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The name with full-width digits and brackets made plain.
    pub(super) text: String,
    fold: String,
    pub(super) tokens: Vec<Token>,
    pub(super) groups: Vec<Group>,
    pub(super) atoms: Vec<Atom>,
}

/// File systems end names at 255 bytes; of a longer one only the start is read, so that no name
/// costs more than a fixed time.
const MOST_CHARS: usize = 1024;

/// Plain forms of the wide characters that carry structure.
fn plain(c: char) -> char {
    match c {
        '\u{ff10}'..='\u{ff19}' => char::from(b'0' + (u32::from(c) - 0xff10) as u8),
        '【' | '［' | '「' | '『' | '〔' => '[',
        '】' | '］' | '」' | '』' | '〕' => ']',
        '（' => '(',
        '）' => ')',
        '×' => 'x',
        '\u{a0}' => ' ',
        '–' | '—' | '‐' => '-',
        c => c,
    }
}

/// Lower case without the marks of Latin letters, so that `Säsong` and `SASONG` are one word.
pub(super) fn fold_into(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c.to_ascii_lowercase());
        return;
    }
    let plain = match c {
        '\u{300}'..='\u{36f}' => return,
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'À' | 'Á' | 'Â' | 'Ã' | 'Ä' | 'Å' | 'ą' | 'Ą' | 'ă' | 'Ă' => {
            'a'
        }
        'ç' | 'Ç' | 'č' | 'Č' | 'ć' | 'Ć' => 'c',
        'è' | 'é' | 'ê' | 'ë' | 'È' | 'É' | 'Ê' | 'Ë' | 'ę' | 'Ę' | 'ě' | 'Ě' => 'e',
        'ì' | 'í' | 'î' | 'ï' | 'Ì' | 'Í' | 'Î' | 'Ï' | 'İ' | 'ı' => 'i',
        'ñ' | 'Ñ' | 'ń' | 'Ń' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' | 'Ò' | 'Ó' | 'Ô' | 'Õ' | 'Ö' | 'Ø' | 'ő' | 'Ő' => {
            'o'
        }
        'ù' | 'ú' | 'û' | 'ü' | 'Ù' | 'Ú' | 'Û' | 'Ü' | 'ű' | 'Ű' => 'u',
        'ś' | 'Ś' | 'š' | 'Š' | 'ş' | 'Ş' => 's',
        'ž' | 'Ž' | 'ź' | 'Ź' | 'ż' | 'Ż' => 'z',
        'ý' | 'Ý' => 'y',
        c => {
            out.extend(c.to_lowercase());
            return;
        }
    };
    out.push(plain);
}

/// The whole of `text` folded.
pub(super) fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| fold_into(c, &mut out));
    out
}

/// Folded letters and digits alone: two spellings of one title have the same key.
pub(super) fn key(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '&' {
            out.push_str("and");
        } else if is_word(c) && !is_quote(c) {
            fold_into(c, &mut out);
        }
    }
    out
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '’' | '`')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_quote(c) || ('\u{300}'..='\u{36f}').contains(&c)
}

impl Name {
    /// Cuts `raw` up.
    pub(super) fn new(raw: &str) -> Name {
        let mut name = Name { text: raw.chars().take(MOST_CHARS).map(plain).collect(), ..Name::default() };
        name.fold.reserve(name.text.len());
        let mut open: Vec<usize> = Vec::new();
        let mut token: Option<Token> = None;
        // Open brackets that are not round.
        let mut square = 0usize;
        for (at, c) in name.text.char_indices() {
            if is_word(c) {
                let boxed = square > 0;
                let fold_start = name.fold.len();
                let current = token.get_or_insert_with(|| Token {
                    start: at,
                    end: at,
                    fold_start,
                    fold_end: fold_start,
                    group: open.last().map_or(0, |group| group + 1),
                    boxed,
                });
                if !is_quote(c) {
                    fold_into(c, &mut name.fold);
                    let digit = c.is_ascii_digit();
                    let end = at + c.len_utf8();
                    match name.atoms.last_mut() {
                        Some(last)
                            if last.token == name.tokens.len()
                                && last.end <= at
                                && name
                                    .fold
                                    .as_bytes()
                                    .get(last.fold_start)
                                    .is_some_and(u8::is_ascii_digit)
                                    == digit =>
                        {
                            last.end = end;
                            last.fold_end = name.fold.len();
                        }
                        last => {
                            let glued = last.is_some_and(|last| last.token == name.tokens.len());
                            name.atoms.push(Atom {
                                token: name.tokens.len(),
                                start: at,
                                end,
                                fold_start,
                                fold_end: name.fold.len(),
                                number: None,
                                glued,
                            });
                        }
                    }
                }
                current.end = at + c.len_utf8();
                current.fold_end = name.fold.len();
                continue;
            }
            if let Some(done) = token.take() {
                name.tokens.push(done);
            }
            match c {
                '(' | '[' | '{' => {
                    open.push(name.groups.len());
                    square += usize::from(c != '(');
                    name.groups.push(Group { open: c, start: at, end: name.text.len() });
                }
                ')' | ']' | '}' => {
                    if let Some(group) = open.pop() {
                        name.groups[group].end = at + 1;
                        square -= usize::from(name.groups[group].open != '(');
                    }
                }
                _ => {}
            }
        }
        name.tokens.extend(token);
        for atom in &mut name.atoms {
            let digits = &name.fold[atom.fold_start..atom.fold_end];
            if digits.len() <= 9 && digits.starts_with(|c: char| c.is_ascii_digit()) {
                atom.number = digits.parse().ok();
            }
        }
        name
    }

    /// Folded text of a token; empty past the end.
    pub(super) fn low(&self, token: usize) -> &str {
        self.tokens.get(token).map_or("", |token| &self.fold[token.fold_start..token.fold_end])
    }

    /// The token as written.
    pub(super) fn raw(&self, token: usize) -> &str {
        self.tokens.get(token).map_or("", |token| &self.text[token.start..token.end])
    }

    /// What stands before a token (or, past the last, behind it).
    pub(super) fn gap(&self, token: usize) -> &str {
        let from = if token == 0 {
            0
        } else {
            self.tokens.get(token - 1).map_or(self.text.len(), |before| before.end)
        };
        let to = self.tokens.get(token).map_or(self.text.len(), |token| token.start);
        self.text.get(from..to).unwrap_or("")
    }

    /// Whether a dash with space (or dot, underscore) beside it stands before a token.
    pub(super) fn dashed(&self, token: usize) -> bool {
        let gap = self.gap(token);
        gap.len() > 1 && gap.contains('-')
    }

    /// The bracket pair around a token.
    pub(super) fn group_of(&self, token: usize) -> Option<Group> {
        let number = self.tokens.get(token)?.group;
        self.groups.get(number.checked_sub(1)?).copied()
    }

    /// Whether the token fills a bracket pair alone.
    pub(super) fn alone_in_group(&self, token: usize) -> bool {
        let Some(group) = self.tokens.get(token).map(|token| token.group) else { return false };
        group != 0
            && (token == 0 || self.tokens[token - 1].group != group)
            && self.tokens.get(token + 1).is_none_or(|next| next.group != group)
    }

    /// Written in capitals throughout (at least one letter).
    pub(super) fn upper(&self, token: usize) -> bool {
        let raw = self.raw(token);
        raw.chars().any(char::is_alphabetic) && !raw.chars().any(char::is_lowercase)
    }

    /// Value and digit count of a token that is a number.
    pub(super) fn number(&self, token: usize) -> Option<(u32, usize)> {
        let low = self.low(token);
        (!low.is_empty() && low.len() <= 9 && low.bytes().all(|b| b.is_ascii_digit()))
            .then(|| low.parse().ok().map(|value| (value, low.len())))?
    }

    /// Folded letters of an atom; empty for numbers and past the end.
    pub(super) fn word(&self, atom: usize) -> &str {
        self.atoms.get(atom).map_or("", |a| {
            let text = &self.fold[a.fold_start..a.fold_end];
            if text.starts_with(|c: char| c.is_ascii_digit()) { "" } else { text }
        })
    }

    /// Value and digit count of an atom that is a number.
    pub(super) fn value(&self, atom: usize) -> Option<(u32, usize)> {
        let a = self.atoms.get(atom)?;
        Some((a.number?, a.fold_end - a.fold_start))
    }

    /// What stands between an atom and the one before it.
    pub(super) fn atom_gap(&self, atom: usize) -> &str {
        match self.atoms.get(atom) {
            Some(a) if !a.glued => self.gap(a.token),
            Some(_) => "",
            None => self.gap(self.tokens.len()),
        }
    }

    /// Directly after the atom before it, nothing between.
    pub(super) fn glued(&self, atom: usize) -> bool {
        self.atoms.get(atom).is_some_and(|a| a.glued)
    }

    /// First token that starts at or after a byte offset.
    pub(super) fn token_at(&self, byte: usize) -> usize {
        self.tokens.partition_point(|token| token.start < byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_marks_and_case_away() {
        assert_eq!(fold("SÄSONG Évad Сезон"), "sasong evad сезон");
        assert_eq!(fold("Sa\u{308}song"), "sasong");
        assert_eq!(key("Marvel’s Tom & Jerry!"), "marvelstomandjerry");
    }

    #[test]
    fn cuts_tokens_and_atoms_with_their_gaps() {
        let name = Name::new("Show - S01E02 [１０８０p]");
        let words: Vec<&str> = (0..name.tokens.len()).map(|t| name.low(t)).collect();
        assert_eq!(words, ["show", "s01e02", "1080p"]);
        assert!(name.dashed(1));
        assert!(name.alone_in_group(2));
        assert_eq!(name.atoms.len(), 7);
        assert_eq!(
            (name.word(1), name.value(2), name.word(3), name.value(4)),
            ("s", Some((1, 2)), "e", Some((2, 2)))
        );
        assert!(name.glued(3) && !name.glued(1));
    }

    #[test]
    fn an_unclosed_bracket_ends_with_the_name() {
        let name = Name::new("a [b");
        assert_eq!(name.groups[0].end, 4);
    }
}
