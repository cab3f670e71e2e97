//! A table of text: columns as wide as what is in them, numbers to the right.

use std::fmt;

/// Heads and rows. The first column is a name and stands to the left.
#[derive(Debug)]
pub(super) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    left: Vec<usize>,
}

impl Table {
    pub(super) fn new(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|h| (*h).to_owned()).collect(), rows: Vec::new(), left: vec![0] }
    }

    /// A column of words: it stands to the left too.
    pub(super) fn left(mut self, column: usize) -> Self {
        self.left.push(column);
        self
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let chars = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|i| {
                let cells = self.rows.iter().filter_map(|r| r.get(i)).map(|c| chars(c)).max().unwrap_or(0);
                cells.max(chars(&self.heads[i]))
            })
            .collect();
        for row in std::iter::once(&self.heads).chain(&self.rows) {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if i > 0 {
                    line.push_str("  ");
                }
                let pad = " ".repeat(width - chars(cell));
                let (before, after) =
                    if self.left.contains(&i) { ("", pad.as_str()) } else { (pad.as_str(), "") };
                line.push_str(&format!("{before}{cell}{after}"));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["pattern", "MB/s", "note"]).left(2);
        table.row(vec!["a".to_owned(), "1234.5".to_owned(), "x".to_owned()]);
        table.row(vec!["größer als".to_owned(), "7".to_owned(), String::new()]);
        assert_eq!(
            table.to_string(),
            "pattern       MB/s  note\na           1234.5  x\ngrößer als       7\n"
        );
        assert_eq!(Table::new(&["nothing"]).to_string(), "");
    }
}
