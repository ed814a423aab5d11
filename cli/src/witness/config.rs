//! The configuration of a witness.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::witness::key::{Use, Verifier};
use serde::Deserialize;

use super::WitnessError;
use crate::input;

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    listen: SocketAddr,
    key: PathBuf,
    database: PathBuf,
    logs: Vec<String>,
    #[serde(default)]
    sources: Vec<String>,
}

/// A configuration. Its paths are relative to the folder of its file.
pub(super) struct Config {
    pub(super) name: String,
    pub(super) listen: SocketAddr,
    pub(super) key: PathBuf,
    pub(super) database: PathBuf,
    pub(super) logs: Vec<Verifier>,
    /// Addresses before `/checkpoint`, at which checkpoints with this witness's cosignatures are.
    pub(super) sources: Vec<String>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read, and [`WitnessError::Config`].
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = input::read(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self::parse(&bytes, folder).map_err(WitnessError::Config)?)
    }

    fn parse(bytes: &[u8], folder: &Path) -> Result<Self, String> {
        let written: Written =
            toml::from_slice(bytes).map_err(|error| error.message().to_owned())?;
        let mut logs: Vec<Verifier> = Vec::new();
        for log in &written.logs {
            let key = Verifier::parse(log).map_err(|error| format!("{log:?}: {error}"))?;
            if key.key_use() != Use::Log {
                return Err(format!("{log:?} is the key of a witness, not of a log"));
            }
            if logs.contains(&key) {
                return Err(format!("{log:?} is there twice"));
            }
            logs.push(key);
        }
        if !::witness::note::is_name(&written.name) {
            return Err("the name is empty, or contains a space or +".to_owned());
        }
        Ok(Self {
            name: written.name,
            listen: written.listen,
            key: folder.join(written.key),
            database: folder.join(written.database),
            logs,
            sources: written.sources,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"w\"\nlisten = \"127.0.0.1:0\"\nkey = \"w.key\"\ndatabase = \"/db/w.redb\"\n\
                        logs = [\"example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k\"]\n";

    #[test]
    fn paths_are_relative_to_the_file() {
        let config = Config::parse(GOOD.as_bytes(), Path::new("/etc"))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.key, Path::new("/etc/w.key"));
        assert_eq!(config.database, Path::new("/db/w.redb"));
        assert_eq!(config.logs.len(), 1);
    }

    #[test]
    fn unknown_keys_and_wrong_values_are_refused() {
        let twice = GOOD.replace(
            "2k\"]",
            "2k\", \"example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k\"]",
        );
        for bad in [
            "",
            &format!("{GOOD}port = 1\n"),
            &GOOD.replace("\"w\"", "\"w w\""),
            &GOOD.replace("530d903a", "530d903b"),
            &GOOD.replace("127.0.0.1:0", "localhost"),
            &twice,
        ] {
            assert!(
                Config::parse(bad.as_bytes(), Path::new("")).is_err(),
                "{bad}"
            );
        }
    }
}
