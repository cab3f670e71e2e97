//! The helper alone, for this crate's tests; in production it is `spindle storage-helper`.

use spindle_storage::{HelperEndpoint, run_helper};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut endpoint = HelperEndpoint::Inherited;
    while let Some(arg) = args.next() {
        if arg == "--socket" {
            let path = args.next().ok_or("--socket needs a path")?.into();
            endpoint = HelperEndpoint::Listen {
                path,
                allow_uid: args.next().and_then(|u| u.parse().ok()),
                allow_gid: None,
            };
        }
    }
    Ok(run_helper(endpoint)?)
}
