//! What tells a file's content without reading it: its size and three pieces of it.

use std::io::{self, Read as _, SeekFrom};

use super::MediaSource;

/// Bytes of each piece: with three, 192 KiB a file, one read-ahead window each.
const PIECE: u64 = 64 * 1024;

/// BLAKE3 over the size and the head, middle and tail of `file`, which holds `size_bytes`. Two
/// recordings that agree in all of these are the same but for bytes that a player would not show.
pub(super) fn fingerprint(file: &mut dyn MediaSource, size_bytes: u64) -> io::Result<Vec<u8>> {
    let mut sum = blake3::Hasher::new();
    sum.update(&size_bytes.to_le_bytes());
    let middle = (size_bytes / 2).saturating_sub(PIECE / 2);
    let tail = size_bytes.saturating_sub(PIECE);
    for at in [0, middle, tail] {
        file.seek(SeekFrom::Start(at))?;
        let mut piece = Vec::new();
        file.take(PIECE).read_to_end(&mut piece)?;
        sum.update(&piece);
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(sum.finalize().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn any_of_the_pieces_tells() {
        let base = vec![0_u8; 1_000_000];
        let of = |bytes: &[u8]| fingerprint(&mut Cursor::new(bytes.to_vec()), bytes.len() as u64).unwrap();
        let same = of(&base);
        assert_eq!(of(&base), same);
        for at in [0, 500_000, 999_999] {
            let mut other = base.clone();
            other[at] = 1;
            assert_ne!(of(&other), same, "{at}");
        }
        assert_ne!(of(&base[1..]), same);
        of(&[]);
    }
}
