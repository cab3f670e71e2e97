//! The helper alone, for this crate's tests; in production it is `spindle storage-helper`.

use spindle_storage::{HelperEndpoint, HelperRights, run_helper};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut endpoint = HelperEndpoint::Inherited;
    let mut rights = HelperRights::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--socket" => {
                let path = args.next().ok_or("--socket needs a path")?.into();
                endpoint = HelperEndpoint::Listen {
                    path,
                    allow_uid: args.next().and_then(|u| u.parse().ok()),
                    allow_gid: None,
                };
            }
            "--disks" => rights.disks = true,
            "--zfs" => rights.zfs = true,
            "--no-trace" => rights.no_trace = true,
            _ => {}
        }
    }
    Ok(run_helper(endpoint, rights)?)
}
