//! Loads the model of this start: from a folder, or from the parent's sealed container with a released key.

use std::path::Path;
use std::time::{Duration, Instant};

use engine::{Recipe, Tokenizer, TokenizerError};
use sealed_model::ModelLock;
use sockets::ParentAddress;

use crate::allocator;
use crate::config::Config;
use crate::model::{Folder, Loaded, Model, ModelError, Sealed};
use crate::nsm::Nsm;
use crate::parent::{Parent, Timeouts};
use crate::release::{KeyArn, KeyRequest, PendingKey, ReleaseError, release};
use crate::stages::Stages;

/// The KMS that released the model's key, for `/readyz`. Clients rely on the attested model hash, not on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRelease {
    /// None: the model was read from a folder.
    None,
    /// A simulated KMS: only such a KMS accepts the documents of a simulated module.
    Simulated,
    /// AWS KMS.
    Kms,
}

impl KeyRelease {
    /// The name in `/readyz` and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Simulated => "simulated KMS",
            Self::Kms => "AWS KMS",
        }
    }

    fn log(self, key: &KeyArn) {
        let key = key.as_str();
        if self == Self::Kms {
            tracing::info!(key, "the model's key was released by AWS KMS");
        } else {
            tracing::warn!(
                code = "KMS_SIMULATED",
                key,
                "the model's key was released by a simulated KMS: it protects nothing"
            );
        }
    }
}

/// The source of each model in turn; for a parent, with the RSA key that is being made.
pub(crate) enum Provision<'a> {
    Folder(&'a Path),
    Parent {
        container: Option<&'a str>,
        address: &'a ParentAddress,
        kms_key: &'a KeyArn,
        key: PendingKey,
        until: Instant,
    },
}

impl<'a> Provision<'a> {
    /// The sources of `count` models. Starts making the RSA keys, which takes longest.
    pub(crate) fn begin(
        config: &'a Config,
        nsm: &dyn Nsm,
        count: usize,
    ) -> Result<Vec<Self>, ProvisionError> {
        let check_count = |option, values: usize| match values == count {
            true => Ok(()),
            false => Err(ProvisionError::Count {
                option,
                values,
                locks: count,
            }),
        };
        // The command line requires both or neither.
        let (Some(address), Some(kms_key)) = (&config.parent, &config.kms_key) else {
            check_count("--model", config.model.len())?;
            return Ok(config.model.iter().map(|at| Self::Folder(at)).collect());
        };
        if !config.model_container.is_empty() {
            check_count("--model-container", config.model_container.len())?;
        }
        let until = Instant::now() + config.provision_deadline;
        let each = (0..count).map(|place| {
            Ok(Self::Parent {
                container: config.model_container.get(place).map(String::as_str),
                address,
                kms_key,
                // A key opens one answer.
                key: PendingKey::start(nsm)?,
                until,
            })
        });
        each.collect()
    }

    /// Loads the model.
    pub(crate) fn load(
        self,
        nsm: &dyn Nsm,
        lock: &ModelLock,
        stages: &mut Stages,
    ) -> Result<(LoadedModel, KeyRelease), ProvisionError> {
        let pins = &lock.files;
        let (loaded, release) = match self {
            Self::Folder(path) => {
                let source = Folder::new(path, pins);
                let loaded = Model::load_from(source, pins, build_tokenizer)?;
                (loaded, KeyRelease::None)
            }
            Self::Parent {
                container,
                address,
                kms_key,
                key,
                until,
            } => {
                // Names of containers have no organisation: they are a part of a path.
                let name = container.unwrap_or_else(|| lock.name.short());
                let wanted = KeyRequest {
                    key: kms_key,
                    container: name,
                    model: lock.name.short(),
                    sha256: &pins.digest(),
                };
                let parent = Parent::new(address.clone(), KEY_TIMEOUTS);
                let released = release(nsm, &parent, key, wanted, until)?;
                stages.add_release(released.times);
                let by = match nsm.is_simulated() {
                    true => KeyRelease::Simulated,
                    false => KeyRelease::Kms,
                };
                by.log(kms_key);
                let parent = Parent::new(address.clone(), MODEL_TIMEOUTS);
                let sealed = Sealed::open(&parent, name, &released.key, pins, until)?;
                drop(released.key);
                (Model::load_from(sealed, pins, build_tokenizer)?, by)
            }
        };
        stages.add_load(loaded.times);
        Ok((loaded, release))
    }
}

/// A model with its tokenizer.
pub(crate) type LoadedModel = Loaded<Result<Tokenizer, TokenizerError>>;

/// Builds the tokenizer, and returns the freed memory before the weights need it.
fn build_tokenizer(recipe: &Recipe, json: &[u8]) -> Result<Tokenizer, TokenizerError> {
    let tokenizer = recipe.tokenizer(json);
    allocator::purge();
    tokenizer
}

/// Why the model could not be loaded.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
pub enum ProvisionError {
    /// See [`ModelError`].
    #[error(transparent)]
    #[coded(transparent)]
    Model(#[from] ModelError),
    /// See [`ReleaseError`].
    #[error(transparent)]
    #[coded(transparent)]
    Release(#[from] ReleaseError),
    /// Options for several models are not given for each of them.
    #[error("{option} is given for {values} models, and there are locks of {locks}")]
    #[coded(
        "MODEL_COUNT",
        remedy = "Give one for each --model-lock, in the same order."
    )]
    Count {
        /// The option.
        option: &'static str,
        /// How often it is given.
        values: usize,
        /// Number of locks, one where none is given.
        locks: usize,
    },
}

/// host-proxy tries KMS three times, for ten seconds each.
const KEY_TIMEOUTS: Timeouts = Timeouts {
    stall: Duration::from_secs(40),
    least_rate: 64,
};

/// A vsock transfers gigabytes a second; a host that reads from a distant store, a few megabytes.
const MODEL_TIMEOUTS: Timeouts = Timeouts {
    stall: Duration::from_secs(10),
    least_rate: 256 * 1024,
};
