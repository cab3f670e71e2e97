//! The local credential: whoever may read the data directory may look at the server without a password.
//!
//! At its start a server writes `local.json` into its data directory, readable by its owner alone: where it listens, and a
//! token of 256 random bits that holds until it stops and is in no database. The token looks and changes nothing (GET and
//! HEAD), from this machine alone. It says no more than the database beside it, which the same people can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::token;

/// Its name in the data directory.
pub const FILE: &str = "local.json";
/// What is read of it at most.
const MAX_BYTES: u64 = 4096;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// `http://ADDRESS:PORT` as this machine reaches it.
    pub server: String,
    /// For `Authorization: Bearer`.
    pub token: String,
}

/// The server's side of it.
#[derive(Debug)]
pub struct Local {
    hash: [u8; 32],
    listen: IpAddr,
    path: PathBuf,
}

/// What became of a token that was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// It is another one.
    Other,
    /// It may look.
    Granted,
    /// It is the local one, and not good for this: why.
    Refused(&'static str),
}

/// Why the file does not help.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// There is none: no server runs, or an older one.
    #[error("no server of the data directory `{0}` runs")]
    None(PathBuf),
    /// Somebody else's.
    #[error("`{0}` may be read by its owner alone: ask as the user who runs the server")]
    NotOurs(PathBuf),
    /// Others can write or read it.
    #[error("`{0}` is open to others: it is not believed")]
    Open(PathBuf),
    /// It cannot be read.
    #[error("unable to read `{path}`: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Local {
    /// Makes the credential of a server that listens at `address`, over that of one that was killed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn issue(data_dir: &Path, address: SocketAddr) -> io::Result<Self> {
        let token = token::new();
        let own = Self { hash: token::hash(&token), listen: address.ip(), path: data_dir.join(FILE) };
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            // Listens for both, where the kernel's default holds.
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let server = format!("http://{}", SocketAddr::new(host, address.port()));
        let text = serde_json::to_string(&Credential { server, token })?;
        // Made aside under a name that only we use (the data directory has one server), so that it is never there in part, nor
        // for a moment readable by others.
        let aside = data_dir.join(format!("{FILE}.part"));
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&aside, &own.path)?;
        Ok(own)
    }

    /// Takes the file away: a server that stops does so while the data directory is still its own. One that is left says that
    /// its server was killed.
    pub fn withdraw(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "unable to remove the local credential");
        }
    }

    /// Looks at a token by its hash. `changes`: the request is no GET and no HEAD. `forwarded`: somebody in between says so.
    #[must_use]
    pub fn look(&self, hash: &[u8; 32], peer: Option<IpAddr>, changes: bool, forwarded: bool) -> Shown {
        let same: bool = self.hash.ct_eq(hash).into();
        let is_here = peer.is_some_and(|ip| ip.to_canonical().is_loopback() || ip == self.listen);
        match (same, is_here && !forwarded, changes) {
            (false, ..) => Shown::Other,
            (true, false, _) => {
                Shown::Refused("the local credential is good on the server's own machine alone")
            }
            (true, true, true) => Shown::Refused("the local credential looks and changes nothing: sign in"),
            (true, true, false) => Shown::Granted,
        }
    }
}

/// Reads the credential of the server of a data directory.
///
/// # Errors
/// There is none, it is somebody else's, or others could have written it.
pub fn read(data_dir: &Path) -> Result<Credential, LocalError> {
    let path = data_dir.join(FILE);
    let failed = |source| LocalError::Read { path: path.clone(), source };
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(LocalError::None(data_dir.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(LocalError::NotOurs(path)),
        Err(e) => return Err(failed(e)),
    };
    if !is_private(&file).map_err(failed)? {
        return Err(LocalError::Open(path));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
    serde_json::from_str(&text).map_err(|e| failed(e.into()))
}

/// A plain file of ours, or of root, that nobody else may touch.
fn is_private(file: &File) -> io::Result<bool> {
    let about = file.metadata()?;
    let us = rustix::process::geteuid().as_raw();
    // Root reads everybody's: the one that the server's user wrote is what it asks for.
    Ok(about.is_file() && about.mode() & 0o077 == 0 && (us == 0 || about.uid() == us || about.uid() == 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn issued(address: &str) -> (tempfile::TempDir, Local, Credential) {
        let dir = tempfile::tempdir().unwrap();
        let local = Local::issue(dir.path(), address.parse().unwrap()).unwrap();
        let credential = read(dir.path()).unwrap();
        (dir, local, credential)
    }

    #[test]
    fn its_owner_alone_may_read_it_and_it_goes_with_the_server() {
        let (dir, local, credential) = issued("0.0.0.0:8096");
        let path = dir.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!((credential.server.as_str(), credential.token.len()), ("http://127.0.0.1:8096", 64));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        local.withdraw();
        assert!(!path.exists());
        assert!(matches!(read(dir.path()), Err(LocalError::None(_))));
    }

    #[test]
    fn it_looks_from_this_machine_and_nothing_else() {
        let (_dir, local, credential) = issued("192.168.1.5:8096");
        let hash = token::hash(&credential.token);
        assert_eq!(local.look(&hash, HERE, false, false), Shown::Granted);
        // A connection to one's own address comes from it.
        assert_eq!(local.look(&hash, Some("192.168.1.5".parse().unwrap()), false, false), Shown::Granted);
        assert_eq!(
            local.look(&hash, Some("::ffff:127.0.0.1".parse().unwrap()), false, false),
            Shown::Granted
        );
        let refused = |shown| matches!(shown, Shown::Refused(_));
        assert!(refused(local.look(&hash, Some("192.168.1.9".parse().unwrap()), false, false)), "elsewhere");
        assert!(refused(local.look(&hash, None, false, false)), "unknown");
        assert!(refused(local.look(&hash, HERE, true, false)), "a change");
        assert!(refused(local.look(&hash, HERE, false, true)), "through a proxy");
        assert_eq!(local.look(&token::hash("another"), HERE, false, false), Shown::Other);
        assert_eq!(credential.server, "http://192.168.1.5:8096");
    }

    #[test]
    fn every_start_has_its_own_and_an_old_file_is_replaced() {
        let (dir, first, old) = issued("[::]:8096");
        let second = Local::issue(dir.path(), "[::]:8096".parse().unwrap()).unwrap();
        let new = read(dir.path()).unwrap();
        assert_ne!(old.token, new.token);
        assert_eq!(new.server, "http://[::1]:8096");
        assert_eq!(second.look(&token::hash(&old.token), HERE, false, false), Shown::Other);
        drop(first);
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() {
        let (dir, _local, _) = issued("127.0.0.1:1");
        let path = dir.path().join(FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(read(dir.path()), Err(LocalError::Open(_))));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(matches!(read(dir.path()), Err(LocalError::Read { .. })));
        fs::remove_file(&path).unwrap();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(b"{").unwrap();
        assert!(matches!(read(dir.path()), Err(LocalError::Read { .. })));
    }
}
