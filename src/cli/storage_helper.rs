//! `spindle storage-helper`: the small privileged process that traces block requests and asks the kernel
//! what the server may not. Everything it does is in `spindle_storage::trace`.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Outcome};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Listen on this socket; without it, speak over standard input, which is a socket of the server
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Only this user may connect to the socket
    #[arg(long, value_name = "UID", requires = "socket")]
    allow_uid: Option<u32>,
    /// This group may connect to the socket
    #[arg(long, value_name = "GID", requires = "socket")]
    allow_gid: Option<u32>,
    /// Take the listening socket from the service manager, which decides who may connect
    #[arg(long, conflicts_with = "socket")]
    activated: bool,
    /// Keep the right to ask disks for their power state, temperature and health (CAP_SYS_RAWIO)
    #[arg(long)]
    disks: bool,
    /// Keep the right to run zdb, which says where ZFS puts files
    #[arg(long)]
    zfs: bool,
    /// Answer questions and trace nothing, without the right to
    #[arg(long)]
    no_trace: bool,
}

/// Whether standard input is what a server hands over.
fn is_given_a_socket() -> bool {
    rustix::net::sockopt::socket_type(std::io::stdin())
        .is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET)
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let endpoint = match arguments.socket {
        Some(path) => spindle_storage::HelperEndpoint::Listen {
            path,
            allow_uid: arguments.allow_uid,
            allow_gid: arguments.allow_gid,
        },
        None if arguments.activated => spindle_storage::HelperEndpoint::Activated,
        None if is_given_a_socket() => spindle_storage::HelperEndpoint::Inherited,
        None => {
            return Err(Failure::Usage(
                "standard input is no socket of a server. A server with the right to starts its helper by itself; otherwise run, as root, \
                 `spindle storage-helper --socket /run/spindle-storage-helper.sock --allow-uid UID --disks`, UID being the user of \
                 the server, and start the server with `--storage-helper /run/spindle-storage-helper.sock` (docs/storage-helper.md)"
                    .to_owned(),
            ));
        }
    };
    let rights = spindle_storage::HelperRights {
        disks: arguments.disks,
        zfs: arguments.zfs,
        no_trace: arguments.no_trace,
    };
    spindle_storage::run_helper(endpoint, rights)?;
    Ok(())
}
