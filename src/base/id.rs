//! Opaque identifiers: random, so that none can be guessed or derived from a path.

use rand::RngExt as _;

/// Characters of an id: digits and lower case without the look-alikes `l` and `o`, and without
/// vowels that could make a word.
const ALPHABET: &[u8; 32] = b"0123456789abcdfghjkmnpqrstvwxyz_";

/// A new random id of 128 bits, 26 characters of `[0-9a-z_]`.
#[must_use]
pub fn new_id() -> String {
    let mut bits: u128 = rand::rng().random();
    let mut out = String::with_capacity(26);
    for _ in 0..26 {
        let low = usize::try_from(bits & 31).unwrap_or(0);
        out.push(char::from(ALPHABET[low]));
        bits >>= 5;
    }
    out
}

/// `N` random bytes from the system's generator, for tokens and keys.
#[must_use]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut out = [0_u8; N];
    rand::rng().fill(&mut out[..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_url_safe_and_differ() {
        let (a, b) = (new_id(), new_id());
        assert_ne!(a, b);
        assert_eq!(a.len(), 26);
        assert!(a.bytes().all(|c| ALPHABET.contains(&c)));
    }
}
