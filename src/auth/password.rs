//! Passwords, kept as argon2id (RFC 9106) in PHC string form.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash};

/// Shortest password that is taken. Length is what protects (NIST SP 800-63B section 3.1.1.2).
pub const MIN_CHARS: usize = 8;
/// Longest, so that nobody makes the server hash a book.
pub const MAX_BYTES: usize = 1024;

/// Why a password is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Too few characters.
    #[error("a password needs at least {MIN_CHARS} characters")]
    TooShort,
    /// Too many bytes.
    #[error("a password may have at most {MAX_BYTES} bytes")]
    TooLong,
    /// The hash could not be made.
    #[error("unable to hash the password")]
    Hash,
}

/// Hashes a password with a fresh salt. Takes tens of milliseconds and 19 MiB: call it on a
/// blocking thread.
///
/// # Errors
/// Too short, too long.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    if password.chars().count() < MIN_CHARS {
        return Err(PasswordError::TooShort);
    }
    if password.len() > MAX_BYTES {
        return Err(PasswordError::TooLong);
    }
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|_| PasswordError::Hash)?;
    Ok(hash.to_string())
}

/// Whether `password` is the one behind `stored`. Without a stored hash the same work is done
/// against a made-up one, so that time does not tell whether the account exists.
#[must_use]
pub fn verify(password: &str, stored: Option<&str>) -> bool {
    const NOBODY: &str =
        "$argon2id$v=19$m=19456,t=2,p=1$c3BpbmRsZS1ub2JvZHk$1Tjz8IkGBmnU9WhFQ8Gp2HoG0ANkNzOZtWmMyKJ3qHo";
    if password.len() > MAX_BYTES {
        return false;
    }
    let Ok(parsed) = PasswordHash::new(stored.unwrap_or(NOBODY)) else {
        return false;
    };
    let matches = Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
    matches && stored.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_verifies_against_its_own_hash_alone() {
        let stored = hash("correct horse").expect("long enough");
        assert!(stored.starts_with("$argon2id$"));
        assert!(verify("correct horse", Some(&stored)));
        assert!(!verify("correct horsf", Some(&stored)));
        assert!(!verify("correct horse", None));
        assert!(!verify("correct horse", Some("nonsense")));
    }

    #[test]
    fn nobodys_hash_is_well_formed_so_that_a_missing_account_costs_the_same() {
        // verify() would answer at once if it were not.
        let nobody =
            "$argon2id$v=19$m=19456,t=2,p=1$c3BpbmRsZS1ub2JvZHk$1Tjz8IkGBmnU9WhFQ8Gp2HoG0ANkNzOZtWmMyKJ3qHo";
        assert!(PasswordHash::new(nobody).is_ok());
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert_eq!(hash("short"), Err(PasswordError::TooShort));
        assert_eq!(hash(&"x".repeat(2000)), Err(PasswordError::TooLong));
        assert!(!verify(&"x".repeat(2000), None));
    }
}
