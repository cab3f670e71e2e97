//! Settings: flags, then `SPINDLE_*` variables, then the TOML file, then the default, each value
//! with its origin. The only reader of the environment. Every key is described in `docs/config.md`.

pub(crate) mod regular_file;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use spindle_storage::HelperMode;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The TOML file.
    File(PathBuf),
    /// A variable.
    Environment(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "variable {name}"),
            Self::Flag => write!(f, "flag"),
        }
    }
}

/// A setting that does not hold, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not there or cannot be read.
    #[error("unable to read the settings file `{path}`: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the settings file `{path}` is not valid TOML: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser says, on one line.
        message: String,
    },
    /// No such key.
    #[error("unknown setting `{key}` ({origin}); `spindle serve --print-config` lists all of them")]
    Unknown {
        /// The key as written.
        key: String,
        /// Where it stands.
        origin: Origin,
    },
    /// A value that the key cannot have.
    #[error("setting `{key}` ({origin}): `{value}` is not {wanted}")]
    Value {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// The value as written.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A data directory cannot be chosen.
    #[error("no home directory is known; say where to keep the data with --data-dir DIR")]
    NoHome,
}

/// One setting: key, default, and what it means, for `--print-config` and `docs/config.md`.
struct Key {
    name: &'static str,
    default: &'static str,
    about: &'static str,
}

const KEYS: &[Key] = &[
    Key { name: "listen", default: "0.0.0.0:8096", about: "address and port; port 0 takes a free one" },
    Key {
        name: "data_dir",
        default: "",
        about: "database, pictures, cache; default: $XDG_DATA_HOME/spindle or ~/.local/share/spindle",
    },
    Key { name: "log.level", default: "info", about: "error, warn, info, debug or trace" },
    Key { name: "log.format", default: "text", about: "text or json" },
    Key {
        name: "storage.helper",
        default: "auto",
        about: "block trace: auto, off, or the socket of a running storage-helper",
    },
    Key {
        name: "storage.record",
        default: "true",
        about: "record which disk served every byte of every stream: true or false",
    },
    Key {
        name: "storage.read_chunk_bytes",
        default: "2097152",
        about: "bytes of one read from a disk: 65536 to 67108864",
    },
    Key {
        name: "transcode.worker",
        default: "",
        about: "the worker program; default: spindle-transcode beside this program",
    },
    Key {
        name: "transcode.cache_bytes",
        default: "2147483648",
        about: "most bytes of segments kept in the data directory: 67108864 or more",
    },
    Key { name: "transcode.max_workers", default: "4", about: "most workers at once: 1 to 64" },
    Key {
        name: "transcode.run_ahead",
        default: "4",
        about: "segments a worker may be ahead of its viewers: 1 to 64",
    },
    Key {
        name: "sessions.idle_s",
        default: "90",
        about: "seconds without a request or report after which a session ends: 5 to 86400",
    },
    Key {
        name: "scan.on_start",
        default: "true",
        about: "look for changed files when the server starts: true or false",
    },
    Key {
        name: "scan.watch",
        default: "true",
        about: "notice new, changed and removed files while the server runs: true or false",
    },
    Key {
        name: "scan.interval_s",
        default: "900",
        about: "seconds between looks at folders that the kernel does not watch: 60 to 604800, 0 for never",
    },
    Key {
        name: "connections.per_address",
        default: "256",
        about: "most connections from one address, which this machine itself has not: 8 to 8192, 0 for no limit",
    },
    Key {
        name: "connections.proxies",
        default: "",
        about: "addresses of reverse proxies, separated by commas, which have no limit of their own",
    },
];

/// A library named by flag, variable or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibrarySetting {
    /// movies, tv, music, photos or mixed.
    pub kind: String,
    /// Its folder.
    pub path: PathBuf,
    /// Its name; default: the folder's last component.
    pub name: String,
}

/// All settings, valid.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where everything but the media is kept.
    pub data_dir: PathBuf,
    /// Least severe level that is logged.
    pub log_level: tracing::Level,
    /// Logs as JSON lines instead of text.
    pub log_json: bool,
    /// How block requests are traced.
    pub helper: HelperMode,
    /// Whether streams are recorded.
    pub record: bool,
    /// Bytes of one read.
    pub read_chunk_bytes: u32,
    /// The worker program.
    pub worker: PathBuf,
    /// Segment cache, bytes.
    pub cache_bytes: u64,
    /// Workers at once.
    pub max_workers: usize,
    /// Segments ahead.
    pub run_ahead: usize,
    /// Seconds after which a silent session ends.
    pub session_idle_s: u64,
    /// Scan at start.
    pub scan_on_start: bool,
    /// Watch folders.
    pub scan_watch: bool,
    /// Seconds between looks at folders that cannot be watched; 0: never.
    pub scan_interval_s: u64,
    /// Connections of one address; 0: no limit.
    pub connections_per_address: usize,
    /// Addresses that many people come from.
    pub proxies: Vec<IpAddr>,
    /// Libraries to make sure of.
    pub libraries: Vec<LibrarySetting>,
    /// Where each library stands.
    library_origins: Vec<Origin>,
    /// Every value with its origin, in the order of the key table.
    origins: Vec<(String, String, Origin)>,
}

/// Values before they are checked, later layers over earlier ones.
#[derive(Debug, Default)]
pub struct Layers {
    values: BTreeMap<String, (String, Origin)>,
    libraries: Vec<(LibrarySetting, Origin)>,
}

impl Layers {
    /// Adds the settings file.
    ///
    /// # Errors
    /// Unreadable, not TOML, unknown keys.
    pub fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text =
            regular_file::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            message: error.message().replace('\n', " "),
        })?;
        let origin = Origin::File(path.to_owned());
        self.table("", &table, &origin)
    }

    fn table(&mut self, prefix: &str, table: &toml::Table, origin: &Origin) -> Result<(), ConfigError> {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                toml::Value::Table(inner) => self.table(&format!("{key}."), inner, origin)?,
                toml::Value::Array(list) if key == "library" => {
                    for entry in list {
                        let setting = library_of(entry).ok_or_else(|| ConfigError::Value {
                            key: key.clone(),
                            origin: origin.clone(),
                            value: entry.to_string(),
                            wanted: "a table with `kind`, `path` and, if wanted, `name`",
                        })?;
                        self.libraries.push((setting, origin.clone()));
                    }
                }
                toml::Value::String(text) => self.set(&key, text, origin.clone())?,
                other => self.set(&key, &other.to_string(), origin.clone())?,
            }
        }
        Ok(())
    }

    /// Adds the `SPINDLE_*` variables of `vars`: `SPINDLE_LOG_LEVEL` is `log.level`.
    ///
    /// # Errors
    /// Unknown variables.
    pub fn environment(&mut self, vars: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
        for (name, value) in vars {
            let Some(rest) = name.strip_prefix("SPINDLE_") else {
                continue;
            };
            let origin = Origin::Environment(name.clone());
            match rest {
                // Not the server's: which file it reads, and which server `spindle top` asks.
                "CONFIG" | "SERVER" | "TOKEN" => {}
                "LIBRARY" => {
                    for part in value.split(';').filter(|p| !p.is_empty()) {
                        self.library(part, origin.clone())?;
                    }
                }
                _ => {
                    let key = KEYS
                        .iter()
                        .find(|k| k.name.replace('.', "_").eq_ignore_ascii_case(rest))
                        .ok_or_else(|| ConfigError::Unknown { key: name.clone(), origin: origin.clone() })?;
                    self.set(key.name, &value, origin)?;
                }
            }
        }
        Ok(())
    }

    /// Adds `KIND=PATH`.
    ///
    /// # Errors
    /// Not of that form.
    pub fn library(&mut self, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let setting = text.split_once('=').and_then(|(kind, path)| library_setting(kind, path, None));
        let setting = setting.ok_or_else(|| ConfigError::Value {
            key: "library".to_owned(),
            origin: origin.clone(),
            value: text.to_owned(),
            wanted: "KIND=DIRECTORY with KIND one of movies, tv, music, photos, mixed",
        })?;
        self.libraries.push((setting, origin));
        Ok(())
    }

    /// Sets one key.
    ///
    /// # Errors
    /// No such key.
    pub fn set(&mut self, key: &str, value: &str, origin: Origin) -> Result<(), ConfigError> {
        if !KEYS.iter().any(|k| k.name == key) {
            return Err(ConfigError::Unknown { key: key.to_owned(), origin });
        }
        self.values.insert(key.to_owned(), (value.to_owned(), origin));
        Ok(())
    }

    /// Checks every value.
    ///
    /// # Errors
    /// A value that its key cannot have; no data directory.
    pub fn build(mut self) -> Result<Config, ConfigError> {
        for key in KEYS {
            self.values
                .entry(key.name.to_owned())
                .or_insert_with(|| (key.default.to_owned(), Origin::Default));
        }
        let helper = match self.text("storage.helper") {
            "auto" => HelperMode::Auto,
            "off" => HelperMode::Off,
            path => HelperMode::Socket(PathBuf::from(path)),
        };
        let data_dir = match self.text("data_dir") {
            "" => default_data_dir().ok_or(ConfigError::NoHome)?,
            path => PathBuf::from(path),
        };
        let worker = match self.text("transcode.worker") {
            "" => beside_program("spindle-transcode"),
            path => PathBuf::from(path),
        };
        self.values.entry("data_dir".to_owned()).and_modify(|v| v.0 = data_dir.display().to_string());
        self.values.entry("transcode.worker".to_owned()).and_modify(|v| v.0 = worker.display().to_string());
        let format = self.text("log.format").to_owned();
        if !matches!(format.as_str(), "text" | "json") {
            return Err(self.wrong("log.format", "text or json"));
        }
        let config = Config {
            listen: self.parsed("listen", "an address and port such as 0.0.0.0:8096")?,
            data_dir,
            log_level: self.parsed("log.level", "error, warn, info, debug or trace")?,
            log_json: format == "json",
            helper,
            record: self.parsed("storage.record", "true or false")?,
            read_chunk_bytes: self.within(
                "storage.read_chunk_bytes",
                64 << 10,
                64 << 20,
                "a number of bytes from 65536 to 67108864",
            )?,
            worker,
            cache_bytes: self.within(
                "transcode.cache_bytes",
                64 << 20,
                u64::MAX,
                "a number of bytes, at least 67108864",
            )?,
            max_workers: self.within("transcode.max_workers", 1, 64, "a number from 1 to 64")?,
            run_ahead: self.within("transcode.run_ahead", 1, 64, "a number from 1 to 64")?,
            session_idle_s: self.within(
                "sessions.idle_s",
                5,
                86_400,
                "a number of seconds from 5 to 86400",
            )?,
            scan_on_start: self.parsed("scan.on_start", "true or false")?,
            scan_watch: self.parsed("scan.watch", "true or false")?,
            scan_interval_s: self.within_or_zero(
                "scan.interval_s",
                60,
                604_800,
                "0 or a number of seconds from 60 to 604800",
            )?,
            connections_per_address: self.within_or_zero(
                "connections.per_address",
                8,
                8192,
                "0 or a number from 8 to 8192",
            )?,
            proxies: self.proxies()?,
            libraries: self.libraries.iter().map(|(l, _)| l.clone()).collect(),
            library_origins: self.libraries.iter().map(|(_, origin)| origin.clone()).collect(),
            origins: self.origins(),
        };
        Ok(config)
    }

    fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", |v| v.0.as_str())
    }

    fn wrong(&self, key: &str, wanted: &'static str) -> ConfigError {
        let (value, origin) = self.values.get(key).cloned().unwrap_or((String::new(), Origin::Default));
        ConfigError::Value { key: key.to_owned(), origin, value, wanted }
    }

    fn parsed<T: std::str::FromStr>(&self, key: &str, wanted: &'static str) -> Result<T, ConfigError> {
        self.text(key).trim().parse().map_err(|_| self.wrong(key, wanted))
    }

    fn within<T: std::str::FromStr + PartialOrd>(
        &self,
        key: &str,
        least: T,
        most: T,
        wanted: &'static str,
    ) -> Result<T, ConfigError> {
        let value: T = self.parsed(key, wanted)?;
        if value < least || value > most {
            return Err(self.wrong(key, wanted));
        }
        Ok(value)
    }

    /// The same, where 0 means that there is none.
    fn within_or_zero<T: std::str::FromStr + PartialOrd + Default>(
        &self,
        key: &str,
        least: T,
        most: T,
        wanted: &'static str,
    ) -> Result<T, ConfigError> {
        let value: T = self.parsed(key, wanted)?;
        if value == T::default() { Ok(value) } else { self.within(key, least, most, wanted) }
    }

    fn proxies(&self) -> Result<Vec<IpAddr>, ConfigError> {
        let given = self.text("connections.proxies").split(',').map(str::trim).filter(|a| !a.is_empty());
        given
            .map(|a| a.parse())
            .collect::<Result<_, _>>()
            .map_err(|_| self.wrong("connections.proxies", "a list of IP addresses, separated by commas"))
    }

    fn origins(&self) -> Vec<(String, String, Origin)> {
        KEYS.iter()
            .filter_map(|k| {
                let (value, origin) = self.values.get(k.name)?;
                Some((k.name.to_owned(), value.clone(), origin.clone()))
            })
            .collect()
    }
}

impl Config {
    /// The settings as a TOML file that says the same, with the origin of each as a comment.
    #[must_use]
    pub fn print(&self) -> String {
        let quoted = |value: &str| toml::Value::String(value.to_owned());
        let mut out = String::new();
        for (key, value, origin) in &self.origins {
            let about = KEYS.iter().find(|k| k.name == key).map_or("", |k| k.about);
            out.push_str(&format!("{key} = {}  # {origin}; {about}\n", quoted(value)));
        }
        for (library, origin) in self.libraries.iter().zip(&self.library_origins) {
            out.push_str(&format!(
                "\n[[library]]  # {origin}\nkind = {}\npath = {}\nname = {}\n",
                quoted(&library.kind),
                quoted(&library.path.display().to_string()),
                quoted(&library.name)
            ));
        }
        out
    }
}

fn library_of(entry: &toml::Value) -> Option<LibrarySetting> {
    let table = entry.as_table()?;
    if table.keys().any(|k| !matches!(k.as_str(), "kind" | "path" | "name")) {
        return None;
    }
    let name = table.get("name").map(|n| n.as_str().map(str::to_owned));
    if matches!(name, Some(None)) {
        return None;
    }
    library_setting(table.get("kind")?.as_str()?, table.get("path")?.as_str()?, name.flatten())
}

fn library_setting(kind: &str, path: &str, name: Option<String>) -> Option<LibrarySetting> {
    if !matches!(kind, "movies" | "tv" | "music" | "photos" | "mixed") || path.is_empty() {
        return None;
    }
    let path = PathBuf::from(path);
    let name = name.unwrap_or_else(|| {
        path.file_name().map_or_else(|| kind.to_owned(), |n| n.to_string_lossy().into_owned())
    });
    Some(LibrarySetting { kind: kind.to_owned(), path, name })
}

fn default_data_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("spindle"))
}

/// A program of ours that lies in the same folder as this one.
fn beside_program(name: &str) -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(|dir| dir.join(name)))
        .unwrap_or_else(|| PathBuf::from(name))
}

/// The settings file that `SPINDLE_CONFIG` names, where no flag does.
#[must_use]
pub fn file_from_environment() -> Option<PathBuf> {
    std::env::var_os("SPINDLE_CONFIG").map(PathBuf::from)
}

/// The server that `SPINDLE_SERVER` names, and the token of `SPINDLE_TOKEN`, for commands that ask one.
#[must_use]
pub fn server_from_environment() -> (Option<String>, Option<String>) {
    let text = |name: &str| std::env::var_os(name)?.into_string().ok().filter(|t| !t.is_empty());
    (text("SPINDLE_SERVER"), text("SPINDLE_TOKEN"))
}

/// What the terminal is said to be able to: nothing at all, and colours (`NO_COLOR`, no-color.org).
#[must_use]
pub fn terminal() -> (bool, bool) {
    let dumb = std::env::var_os("TERM").is_none_or(|t| t.is_empty() || t == "dumb");
    (dumb, !dumb && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()))
}

/// The worker program where no settings are read: `SPINDLE_TRANSCODE_WORKER`, or beside this one.
#[must_use]
pub fn worker_program() -> PathBuf {
    std::env::var_os("SPINDLE_TRANSCODE_WORKER")
        .map_or_else(|| beside_program("spindle-transcode"), PathBuf::from)
}

/// The variables of this process, those that are not UTF-8 left out.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(toml: &str) -> Layers {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("spindle.toml");
        std::fs::write(&path, toml).expect("the file is written");
        let mut layers = Layers::default();
        layers.file(&path).expect("the settings are valid");
        layers
    }

    #[test]
    fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
        let mut layers = layers("data_dir = \"/d\"\n[transcode]\nmax_workers = 2\nrun_ahead = 2\n");
        let vars = [("SPINDLE_TRANSCODE_MAX_WORKERS", "3"), ("PATH", "/bin")];
        let vars = vars.map(|(k, v)| (k.to_owned(), v.to_owned()));
        layers.environment(vars.into_iter()).expect("known variables");
        layers.set("listen", "127.0.0.1:1", Origin::Flag).expect("a known key");
        let config = layers.build().expect("valid");
        assert_eq!((config.max_workers, config.run_ahead), (3, 2));
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.cache_bytes, 2 << 30);
        let printed = config.print();
        assert!(printed.contains("transcode.max_workers = \"3\"  # variable SPINDLE_TRANSCODE_MAX_WORKERS"));
        assert!(printed.contains("listen = \"127.0.0.1:1\"  # flag"));
    }

    #[test]
    fn unknown_keys_and_bad_values_name_themselves_and_their_place() {
        let mut layers = Layers::default();
        let var = ("SPINDLE_TYPO".to_owned(), "x".to_owned());
        let error = layers.environment([var].into_iter()).expect_err("unknown");
        assert!(error.to_string().contains("`SPINDLE_TYPO` (variable SPINDLE_TYPO)"));
        layers.set("data_dir", "/d", Origin::Flag).expect("known");
        layers.set("transcode.max_workers", "0", Origin::Flag).expect("known");
        let error = layers.build().expect_err("out of range");
        assert_eq!(
            error.to_string(),
            "setting `transcode.max_workers` (flag): `0` is not a number from 1 to 64"
        );
    }

    #[test]
    fn what_is_printed_is_a_settings_file_that_says_the_same() {
        let mut given = layers("data_dir = \"/d\"\n[scan]\ninterval_s = 0\n");
        given.library("movies=/b/Films \\ \"new\"", Origin::Flag).expect("valid");
        let printed = given.build().expect("valid").print();
        assert!(printed.contains("scan.interval_s = \"0\""), "{printed}");
        let again = layers(&printed).build().expect("valid");
        assert_eq!((again.scan_interval_s, again.libraries[0].name.as_str()), (0, "Films \\ \"new\""));
    }

    #[test]
    fn proxies_are_addresses_and_a_limit_is_a_limit_or_none() {
        let build = |key: &str, value: &str| {
            let mut layers = layers("data_dir = \"/d\"\n");
            layers.set(key, value, Origin::Flag).expect("known");
            layers.build().map_err(|e| e.to_string())
        };
        assert_eq!(build("connections.proxies", " 192.0.2.1, ::1 ").expect("valid").proxies.len(), 2);
        assert!(build("connections.proxies", "proxy.example").is_err());
        assert_eq!(build("connections.per_address", "0").expect("valid").connections_per_address, 0);
        assert!(build("connections.per_address", "7").is_err());
        assert!(build("scan.interval_s", "59").is_err());
    }

    #[test]
    fn every_setting_is_documented_as_the_program_says_it() {
        let text = include_str!("../../docs/config.md");
        for key in KEYS {
            let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
            let row = format!("| `{}` | {default} | {} |", key.name, key.about);
            assert!(text.contains(&row), "docs/config.md lacks: {row}");
        }
    }

    #[test]
    fn libraries_come_from_every_layer() {
        let mut layers =
            layers("data_dir = \"/d\"\n[[library]]\nkind = \"tv\"\npath = \"/a\"\nname = \"Shows\"\n");
        layers.library("movies=/b/Films", Origin::Flag).expect("valid");
        assert!(layers.library("films=/b", Origin::Flag).is_err());
        assert!(layers.library("/b", Origin::Flag).is_err());
        let names: Vec<_> = layers.build().expect("valid").libraries.into_iter().map(|l| l.name).collect();
        assert_eq!(names, ["Shows", "Films"]);
    }
}
