//! Signatures of media URLs: `/media/{session}.{expires}.{mac}/…`.
//!
//! A television or a cast device fetches media without a cookie, so the URL itself is the
//! permission: for one session (and so one item and one user), until a time, and nothing else.

use subtle::ConstantTimeEq as _;

use super::token::hex;

/// The key of this server; kept in the database, so that URLs outlive a restart.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// Bytes of the code in a URL: 128 bits.
const MAC_BYTES: usize = 16;

impl Key {
    /// Wraps 32 secret bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The signed part of a URL for `session` (an id of `[0-9a-z_]`) until `expires_s` (Unix).
    #[must_use]
    pub fn sign(&self, session: &str, expires_s: i64) -> String {
        format!("{session}.{expires_s:x}.{}", hex(&self.mac(session, expires_s)))
    }

    /// The session that `signed` stands for, if the code is ours and the time has not come.
    #[must_use]
    pub fn verify<'a>(&self, signed: &'a str, now_s: i64) -> Option<&'a str> {
        let mut parts = signed.split('.');
        let (session, expires, mac) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let expires_s = i64::from_str_radix(expires, 16).ok()?;
        // One spelling: what was not issued letter by letter is not ours.
        if format!("{expires_s:x}") != expires {
            return None;
        }
        let ours = hex(&self.mac(session, expires_s));
        let same: bool = ours.as_bytes().ct_eq(mac.as_bytes()).into();
        (same && now_s < expires_s).then_some(session)
    }

    fn mac(&self, session: &str, expires_s: i64) -> [u8; MAC_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"spindle media url v1\0");
        hasher.update(&expires_s.to_le_bytes());
        hasher.update(session.as_bytes());
        let mut out = [0; MAC_BYTES];
        out.copy_from_slice(&hasher.finalize().as_bytes()[..MAC_BYTES]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_signature_names_its_session_until_it_expires() {
        let key = Key::new([7; 32]);
        let signed = key.sign("abc", 1000);
        assert_eq!(key.verify(&signed, 999), Some("abc"));
        assert_eq!(key.verify(&signed, 1000), None);
        assert_eq!(Key::new([8; 32]).verify(&signed, 999), None);
    }

    #[test]
    fn a_changed_signature_is_refused() {
        let key = Key::new([7; 32]);
        let signed = key.sign("abc", 1000);
        for wrong in [
            signed.replace("abc", "abd"),
            signed.replace("3e8", "3e9"),
            signed.replace("3e8", "+3e8"),
            signed.replace("3e8", "03e8"),
            signed.replace("3e8", "3E8"),
            signed[..signed.len() - 1].to_owned(),
            format!("{signed}.x"),
            format!("{signed}0"),
            "abc.3e8.".to_owned(),
            String::new(),
        ] {
            assert_eq!(key.verify(&wrong, 0), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_random_verifies(text in ".{0,120}") {
            prop_assert_eq!(Key::new([7; 32]).verify(&text, 0), None);
        }
    }
}
