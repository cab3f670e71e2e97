//! `spindle user`: accounts, from the command line, also while the server runs.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use spindle_base::clock::SystemClock;
use spindle_library::{Library, Role, User};
use std::sync::Arc;

use super::serve::Common;
use super::{Failure, Outcome, print, print_json};
use crate::auth::password;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Folder of the server's data [default: $XDG_DATA_HOME/spindle or ~/.local/share/spindle]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make an account
    Add {
        /// Its name
        name: String,
        /// May change the server
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        password: Password,
    },
    /// List accounts
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set a password; signs the account out everywhere
    Passwd {
        /// Its name
        name: String,
        #[command(flatten)]
        password: Password,
    },
    /// Remove an account and what it watched
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
struct Password {
    /// Read the password from standard input, the only way to give it: others see what is on a command line
    #[arg(long, required = true)]
    password_stdin: bool,
}

impl Password {
    fn hash(&self) -> Result<String, Failure> {
        let mut text = String::new();
        let limit = u64::try_from(password::MAX_BYTES).unwrap_or(1024) + 2;
        std::io::stdin().lock().take(limit).read_to_string(&mut text)?;
        password::hash(text.trim_end_matches(['\n', '\r'])).map_err(|e| Failure::Failed(e.to_string()))
    }
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let common = Common { data_dir: arguments.data_dir.clone(), libraries: Vec::new() };
    let config = common.layers(None)?.build().map_err(|e| Failure::Usage(e.to_string()))?;
    match arguments.action {
        Action::Add { .. } if !Library::is_in(&config.data_dir) => {
            super::complain(&format!("making a new data directory in `{}`", super::named(&config.data_dir)));
        }
        Action::Add { .. } => {}
        Action::List { .. } | Action::Passwd { .. } | Action::Remove { .. } => super::existing(&config)?,
    }
    let library = Library::open(&config.data_dir, Arc::new(SystemClock))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(act(&library, arguments.action));
    library.close();
    outcome
}

async fn act(library: &Library, action: Action) -> Outcome {
    match action {
        Action::Add { name, admin, password } => {
            let hash = password.hash()?;
            let user = if library.user_count().await? == 0 {
                library.create_first_user(&name, &hash).await?
            } else {
                let role = if admin { Role::Admin } else { Role::User };
                library.create_user(&name, &hash, role).await?
            };
            print(&format!("{} ({})\n", user.name, user.role));
        }
        Action::List { json } => {
            let users = library.users().await?;
            if json {
                return print_json(&users);
            }
            for user in users {
                print(&format!("{}  {}  since {}\n", user.name, user.role, user.created));
            }
        }
        Action::Passwd { name, password } => {
            let user = named(library, &name).await?;
            library.set_password(&user.id, &password.hash()?).await?;
        }
        Action::Remove { name } => {
            let user = named(library, &name).await?;
            library.remove_user(&user.id).await?;
        }
    }
    Ok(())
}

async fn named(library: &Library, name: &str) -> Result<User, Failure> {
    let found = library.user_for_login(name).await?;
    found
        .map(|(user, _)| user)
        .ok_or_else(|| Failure::Failed(format!("there is no account `{name}`; see `spindle user list`")))
}
