//! Compares the database with the witness's own cosignatures that others hold. A newer one there shows that the database is an older copy.

use std::time::Duration;

use ::witness::checkpoint::Checkpoint;
use ::witness::key::{KeyError, Verifier};
use ::witness::note::{MAX_NOTE, Note};
use clearseal_client::{Error, Host};

use super::WitnessError;
use super::config::Config;
use super::store::Store;
use crate::notice::notice;

/// Longest time for one source.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the checkpoint of each source, and compares those that `key` cosigned with the database.
///
/// # Errors
/// [`WitnessError::Old`]; [`WitnessError::Unconfirmed`] where the configuration names sources and none of them answers.
pub(super) async fn compare(
    config: &Config,
    key: &Verifier,
    store: &Store,
) -> Result<(), WitnessError> {
    let mut has_answer = config.sources.is_empty();
    for source in &config.sources {
        match fetch(source).await {
            Ok(found) => {
                has_answer = true;
                if let Some(note) = found {
                    compare_one(config, key, store, &note, source)?;
                }
            }
            Err(reason) => notice(&format!("{source} is not compared: {reason}")),
        }
    }
    match has_answer {
        true => Ok(()),
        false => Err(WitnessError::Unconfirmed),
    }
}

/// `None` where the source has no checkpoint yet.
async fn fetch(source: &str) -> Result<Option<Note>, String> {
    let host = Host::new(source, TIMEOUT).map_err(|error| error.to_string())?;
    match host.get("/checkpoint", MAX_NOTE).await {
        Ok(bytes) => Note::parse(&bytes)
            .map(Some)
            .map_err(|error| error.to_string()),
        // A log whose first checkpoint waits for this witness.
        Err(Error::Unreachable(problem)) if problem.status == Some(404) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn compare_one(
    config: &Config,
    key: &Verifier,
    store: &Store,
    note: &Note,
    source: &str,
) -> Result<(), WitnessError> {
    let Ok(checkpoint) = Checkpoint::parse(note.text()) else {
        notice(&format!("{source} does not serve a checkpoint"));
        return Ok(());
    };
    let is_known = config
        .logs
        .iter()
        .any(|log| log.name() == checkpoint.origin && log.verify(note).is_ok());
    match key.verify(note) {
        Ok(_) if is_known => {}
        Ok(_) | Err(KeyError::Unsigned) => return Ok(()),
        Err(error) => {
            notice(&format!("{source}: {error}"));
            return Ok(());
        }
    }
    let stored = store.tree(&checkpoint.origin)?;
    let is_older =
        stored.is_none_or(|stored| stored.size < checkpoint.tree.size || checkpoint.forks(&stored));
    match is_older {
        true => Err(WitnessError::Old {
            origin: checkpoint.origin,
            size: checkpoint.tree.size,
        }),
        false => Ok(()),
    }
}
