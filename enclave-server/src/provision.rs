//! Where the model of this start comes from: a folder, or the sealed container of the parent with a released key.

use std::time::{Duration, Instant};

use engine::{Tokenizer, TokenizerError};
use sealed_model::Manifest;
use sockets::ParentAddress;

use crate::allocator;
use crate::config::Config;
use crate::model::{Folder, Loaded, Model, ModelError, Sealed, pinned};
use crate::nsm::Nsm;
use crate::parent::{Parent, Timeouts};
use crate::release::{KeyArn, PendingKey, ReleaseError, Wanted, release};
use crate::stages::Stages;

/// Who let this enclave have its model's key. Told in `/readyz`; a client learns from the attested model hash, not from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRelease {
    /// Nobody: the model was read from a folder.
    None,
    /// A simulated KMS: no other takes the documents of a simulated module.
    Simulated,
    /// AWS KMS.
    Kms,
}

impl KeyRelease {
    /// As `/readyz` and the log say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Simulated => "simulated KMS",
            Self::Kms => "AWS KMS",
        }
    }

    fn tell(self, key: &KeyArn) {
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

/// What is to be done, and the RSA key that is being made for it.
pub(crate) enum Provision<'a> {
    Folder(&'a Config),
    Parent {
        config: &'a Config,
        address: &'a ParentAddress,
        kms_key: &'a KeyArn,
        key: PendingKey,
    },
}

impl<'a> Provision<'a> {
    /// Begins with what takes longest.
    pub(crate) fn begin(config: &'a Config, nsm: &dyn Nsm) -> Result<Self, ReleaseError> {
        // The command line lets neither be without the other.
        Ok(match (&config.parent, &config.kms_key) {
            (Some(address), Some(kms_key)) => Self::Parent {
                config,
                address,
                kms_key,
                key: PendingKey::start(nsm)?,
            },
            _ => Self::Folder(config),
        })
    }

    /// Loads the model.
    pub(crate) fn load(
        self,
        nsm: &dyn Nsm,
        pins: &Manifest,
        stages: &mut Stages,
    ) -> Result<(LoadedModel, KeyRelease), ProvisionError> {
        let (loaded, release) = match self {
            Self::Folder(config) => {
                let source = Folder::new(&config.model, pins);
                let loaded = Model::load_from(source, pins, tokenizer)?;
                (loaded, KeyRelease::None)
            }
            Self::Parent {
                config,
                address,
                kms_key,
                key,
            } => {
                let until = Instant::now() + config.provision_deadline;
                let wanted = Wanted {
                    key: kms_key,
                    container: &config.model_container,
                    model: pinned::MODEL_ID,
                    sha256: &pins.digest(),
                };
                let parent = Parent::new(address.clone(), KEY_TIMEOUTS);
                let released = release(nsm, &parent, key, wanted, until)?;
                stages.add_release(released.times);
                let by = match nsm.is_simulated() {
                    true => KeyRelease::Simulated,
                    false => KeyRelease::Kms,
                };
                by.tell(kms_key);
                let parent = Parent::new(address.clone(), MODEL_TIMEOUTS);
                let name = &config.model_container;
                let sealed = Sealed::open(&parent, name, &released.key, pins, until)?;
                drop(released.key);
                (Model::load_from(sealed, pins, tokenizer)?, by)
            }
        };
        stages.add_load(loaded.times);
        Ok((loaded, release))
    }
}

/// A model with its tokenizer beside it.
pub(crate) type LoadedModel = Loaded<Result<Tokenizer, TokenizerError>>;

/// Builds the tokenizer, and hands back what that took beside it before the weights need the room.
fn tokenizer(json: &[u8], max_tokens: usize) -> Result<Tokenizer, TokenizerError> {
    let tokenizer = Tokenizer::from_json(json, max_tokens);
    allocator::purge();
    tokenizer
}

/// Why there is no model.
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
}

/// host-proxy asks KMS three times and waits ten seconds for each answer.
const KEY_TIMEOUTS: Timeouts = Timeouts {
    stall: Duration::from_secs(40),
    least_rate: 64,
};

/// A vsock moves gigabytes a second; a host that reads from a distant store, some megabytes.
const MODEL_TIMEOUTS: Timeouts = Timeouts {
    stall: Duration::from_secs(10),
    least_rate: 256 * 1024,
};
