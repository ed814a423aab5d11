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
/// [`WitnessError::Old`]; [`WitnessError::Unconfirmed`] where the configuration names sources and none of them serves a checkpoint of a
/// configured log.
pub(super) async fn compare(
    config: &Config,
    key: &Verifier,
    store: &Store,
) -> Result<(), WitnessError> {
    let mut is_confirmed = config.sources.is_empty();
    for source in &config.sources {
        match fetch(source).await {
            Ok(Some(note)) => is_confirmed |= compare_one(config, key, store, &note, source)?,
            // There is nothing that the database could have lost.
            Ok(None) if !has_trees(config, store)? => is_confirmed = true,
            Ok(None) => notice(&format!("{source} has no checkpoint")),
            Err(reason) => notice(&format!("{source} is not compared: {reason}")),
        }
    }
    match is_confirmed {
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

/// Whether the database has entries of a configured log.
fn has_trees(config: &Config, store: &Store) -> Result<bool, WitnessError> {
    for log in &config.logs {
        if store.tree(log.name())?.is_some_and(|tree| tree.size > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the source serves a checkpoint of a configured log. One without this witness's cosignature counts too: the log grows
/// while the witness is away, and it has to start again to cosign.
fn compare_one(
    config: &Config,
    key: &Verifier,
    store: &Store,
    note: &Note,
    source: &str,
) -> Result<bool, WitnessError> {
    let Ok(checkpoint) = Checkpoint::parse(note.text()) else {
        notice(&format!("{source} does not serve a checkpoint"));
        return Ok(false);
    };
    let is_known = config
        .logs
        .iter()
        .any(|log| log.name() == checkpoint.origin && log.verify(note).is_ok());
    if !is_known {
        notice(&format!(
            "{source} serves a checkpoint that no configured log has signed"
        ));
        return Ok(false);
    }
    match key.verify(note) {
        Ok(_) => {}
        Err(KeyError::Unsigned) => {
            notice(&format!(
                "{source} serves a checkpoint without a cosignature of this witness, which cannot show that the database is old"
            ));
            return Ok(true);
        }
        Err(error) => {
            notice(&format!("{source}: {error}"));
            return Ok(false);
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
        false => Ok(true),
    }
}
