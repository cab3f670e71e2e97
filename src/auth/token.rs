//! Session tokens: 256 random bits, of which only the hash is stored.

use spindle_base::id::random_bytes;

/// A new token as 64 hexadecimal digits.
#[must_use]
pub fn new() -> String {
    hex(&random_bytes::<32>())
}

/// What the database keeps of a token: its BLAKE3 hash. The token has 256 bits of entropy, so that
/// no slow hash is needed.
#[must_use]
pub fn hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}
