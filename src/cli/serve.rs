//! `spindle serve`: the server.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Outcome, print};
use crate::app::App;
use crate::config::{self, Config, Layers, Origin};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Settings file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
    /// Address and port to listen on; port 0 takes a free one [default: 0.0.0.0:8096]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Block trace: auto, off, or the socket of a running storage-helper [default: auto]
    #[arg(long, value_name = "auto|off|SOCKET")]
    storage_helper: Option<String>,
    /// Record which disk served every byte of every stream [default: true]
    #[arg(long, value_name = "true|false")]
    storage_record: Option<String>,
    /// Print the settings and where each came from, then exit
    #[arg(long)]
    print_config: bool,
    /// Print one line of JSON when ready
    #[arg(long)]
    json: bool,
}

/// Flags that every command with a data directory has.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Folder for the database, pictures and cache [default: $XDG_DATA_HOME/spindle or ~/.local/share/spindle]
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// A library: movies, tv, music, photos or mixed, and its folder; may be repeated
    #[arg(long = "library", value_name = "KIND=PATH")]
    pub(super) libraries: Vec<String>,
}

impl Common {
    /// Flags over variables over the file.
    pub(super) fn layers(&self, file: Option<&std::path::Path>) -> Result<Layers, Failure> {
        let mut layers = Layers::default();
        let build = |layers: &mut Layers| {
            if let Some(file) = file.map(PathBuf::from).or_else(config::file_from_environment) {
                layers.file(&file)?;
            }
            layers.environment(config::variables())?;
            if let Some(dir) = &self.data_dir {
                layers.set("data_dir", &dir.display().to_string(), Origin::Flag)?;
            }
            for library in &self.libraries {
                layers.library(library, Origin::Flag)?;
            }
            Ok::<_, config::ConfigError>(())
        };
        build(&mut layers).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(layers)
    }
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let config = settings(&arguments)?;
    if arguments.print_config {
        print(&config.print());
        return Ok(());
    }
    for library in &config.libraries {
        if !library.path.is_dir() {
            let message = format!(
                "the library folder `{}` is not a folder that can be read; create it, mount it, or correct --library",
                library.path.display()
            );
            return Err(Failure::Failed(message));
        }
    }
    super::log::start(&config);
    spindle_storage::return_freed_memory();
    allow_many_descriptors();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("spindle-io").build()?;
    let ended = runtime.block_on(async {
        let app = App::build(config).await?;
        let address = app.address();
        if arguments.json {
            print(&format!("{}\n", serde_json::json!({ "listening": format!("http://{address}") })));
        } else {
            print(&format!("Spindle is ready: {}\n", for_people(address)));
        }
        app.run().await;
        Ok::<_, anyhow::Error>(())
    });
    // What still computes for somebody who has gone, or waits for a mount that hangs, holds up nobody.
    runtime.shutdown_timeout(LEFT_BEHIND);
    Ok(ended?)
}

/// How long work on other threads may take after everything has been stopped in order.
const LEFT_BEHIND: std::time::Duration = std::time::Duration::from_secs(2);

/// Every connection, open film and cached segment takes a descriptor, and the usual soft limit of
/// 1024 is there for programs that use select(2): the hard limit is what the owner allows.
fn allow_many_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "unable to raise the limit of open files");
    }
}

/// An address that a person can open: `0.0.0.0` is reached as localhost.
fn for_people(address: std::net::SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://localhost:{}", address.port())
    } else {
        format!("http://{address}")
    }
}

fn settings(arguments: &Arguments) -> Result<Config, Failure> {
    let mut layers = arguments.common.layers(arguments.config.as_deref())?;
    let flags = [
        ("listen", &arguments.listen),
        ("storage.helper", &arguments.storage_helper),
        ("storage.record", &arguments.storage_record),
    ];
    for (key, value) in flags {
        if let Some(value) = value {
            layers.set(key, value, Origin::Flag).map_err(|e| Failure::Usage(e.to_string()))?;
        }
    }
    layers.build().map_err(|e| Failure::Usage(e.to_string()))
}
