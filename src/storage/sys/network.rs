//! Mounts whose disks are another machine's: server and export by the source that `/proc/self/mountinfo` shows.

/// What a mount is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) server: Option<String>,
    pub(crate) export: Option<String>,
    /// Whether the other side is this machine's host or hypervisor, not a network.
    pub(crate) is_host: bool,
}

/// Splits the source of a network filesystem; `None` if `kind` is not one.
pub(crate) fn remote(kind: &str, source: &str) -> Option<Remote> {
    let text = |t: &str| Some(t.to_owned()).filter(|t| !t.is_empty());
    let by_colon = || {
        // The address may be IPv6 in brackets: `[fe80::1%eth0]:/export`.
        let at = match source.strip_prefix('[').and_then(|rest| rest.find("]:")) {
            Some(end) => Some(end + 2),
            None => source.find(':'),
        };
        match at {
            Some(at) => {
                Remote { server: text(&source[..at]), export: text(&source[at + 1..]), is_host: false }
            }
            None => Remote { server: None, export: text(source), is_host: false },
        }
    };
    let lower = kind.strip_prefix("fuse.").unwrap_or(kind);
    Some(match lower {
        "nfs" | "nfs4" | "sshfs" | "rclone" | "glusterfs" | "fuse.glusterfs" | "lustre" | "beegfs"
        | "gfs2" | "ocfs2" | "davfs" | "curlftpfs" | "s3fs" | "goofys" | "geesefs" | "gcsfuse"
        | "mountpoint-s3" | "juicefs" | "JuiceFS" | "moosefs" | "mfs" | "seaweedfs" | "afpfs" | "hdfs"
        | "ipfs" | "orangefs" | "pvfs2" | "coda" | "afs" | "webdav" | "ftpfs" | "jmtpfs" | "simple-mtpfs" => {
            if let Some((_, rest)) = source.split_once("://") {
                // davfs, curlftpfs: an address of the web.
                let (server, export) = rest.split_once('/').unwrap_or((rest, ""));
                let export = if export.is_empty() { None } else { Some(format!("/{export}")) };
                Remote { server: text(without_user(server)), export, is_host: false }
            } else {
                let mut out = by_colon();
                out.server = out.server.map(|s| without_user(&s).to_owned());
                out
            }
        }
        "cifs" | "smb3" | "smbfs" | "smbnetfs" | "ncpfs" => {
            let rest = source.trim_start_matches(['/', '\\']);
            let (server, export) = rest.split_once(['/', '\\']).unwrap_or((rest, ""));
            Remote { server: text(without_user(server)), export: text(export), is_host: false }
        }
        // `mon1,mon2:/path`, or `user@fsid.name=/path` since 5.17.
        "ceph" | "ceph-fuse" => match source.split_once("=/") {
            Some((server, export)) => Remote {
                server: text(without_user(server)),
                export: Some(format!("/{export}")),
                is_host: false,
            },
            None => match source.rsplit_once(":/") {
                Some((server, export)) => {
                    Remote { server: text(server), export: Some(format!("/{export}")), is_host: false }
                }
                None => by_colon(),
            },
        },
        "9p" | "virtiofs" | "vboxsf" | "vmhgfs" | "vmhgfs-fuse" | "prl_fs" | "drvfs" | "hostfs" => {
            Remote { server: None, export: text(source), is_host: true }
        }
        _ => return None,
    })
}

/// Who logs in is no part of the server's name, and may be a secret.
fn without_user(server: &str) -> &str {
    server.rsplit_once('@').map_or(server, |(_, s)| s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_export_of_every_kind_of_source() {
        for (kind, source, server, export) in [
            ("nfs4", "nas:/volume1/films", Some("nas"), Some("/volume1/films")),
            ("nfs", "[fd00::2]:/x:y", Some("[fd00::2]"), Some("/x:y")),
            ("nfs", "192.168.1.2:/", Some("192.168.1.2"), Some("/")),
            ("cifs", "//nas.lan/films/hd", Some("nas.lan"), Some("films/hd")),
            ("smb3", "\\\\nas\\films", Some("nas"), Some("films")),
            ("cifs", "//user:pass@nas/films", Some("nas"), Some("films")),
            ("fuse.sshfs", "me@nas:/srv/films", Some("nas"), Some("/srv/films")),
            ("fuse.sshfs", "nas:", Some("nas"), None),
            ("fuse.rclone", "gdrive:films", Some("gdrive"), Some("films")),
            ("fuse.rclone", "gdrive{abc}:", Some("gdrive{abc}"), None),
            ("fuse", "https://dav.example/a", None, None),
            ("davfs", "https://u:p@dav.example/a/b", Some("dav.example"), Some("/a/b")),
            (
                "ceph",
                "10.0.0.1:6789,10.0.0.2:6789:/films",
                Some("10.0.0.1:6789,10.0.0.2:6789"),
                Some("/films"),
            ),
            ("ceph", "admin@b0-1.cephfs=/films", Some("b0-1.cephfs"), Some("/films")),
            ("fuse.s3fs", "bucket", None, Some("bucket")),
            ("fuse.glusterfs", "nas:/gv0", Some("nas"), Some("/gv0")),
            ("9p", "share", None, Some("share")),
        ] {
            let got = remote(kind, source).unwrap_or_default();
            assert_eq!((got.server.as_deref(), got.export.as_deref()), (server, export), "{kind} {source}");
        }
        assert_eq!(remote("ext4", "/dev/sda1"), None);
        assert!(remote("virtiofs", "films").is_some_and(|r| r.is_host));
    }
}
