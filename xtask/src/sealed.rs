//! The development enclave's sealed model, and the simulated KMS key that its data key is wrapped with.
//!
//! The key's policy names the measurements of one build of enclave-server, as a real one does. So another build gets another
//! key, and the model is sealed again under it; that takes a second.

use crate::{model, paths, process};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Key and container that `kms-simulator new-key --seal` made.
pub(crate) struct Sealed {
    folder: PathBuf,
}

impl Sealed {
    /// Makes key and container again where the programs in `binaries` or the model have changed; returns a sentence about it.
    pub(crate) fn prepare(binaries: &Path, model: &Path) -> Result<(Self, &'static str)> {
        let folder = paths::target()?.join("clearseal/simulated-kms");
        let sealed = Self { folder };
        let (stamp, state) = (sealed.folder.join("made-from"), state(binaries)?);
        if fs::read_to_string(&stamp).is_ok_and(|made| made == state) {
            return Ok((sealed, "up to date"));
        }
        if sealed.folder.exists() {
            fs::remove_dir_all(&sealed.folder)
                .with_context(|| format!("cannot replace {}", sealed.folder.display()))?;
        }
        process::run(
            Command::new(binaries.join("kms-simulator"))
                .arg("new-key")
                .arg("--out")
                .arg(&sealed.folder)
                .arg("--enclave")
                .arg(binaries.join("enclave-server"))
                .args(["--model", model::ID, "--seal"])
                .arg(model)
                .arg("--model-lock")
                .arg(paths::root().join(model::LOCK)),
        )?;
        // Last: without it everything is made again.
        fs::write(&stamp, state)?;
        Ok((sealed, "sealed under a key of a simulated KMS"))
    }

    /// The simulated key, for `kms-simulator serve`.
    pub(crate) fn key(&self) -> &Path {
        &self.folder
    }

    /// The seed of the root that the simulated KMS and the simulated module share.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root.seed")
    }

    /// For `host-proxy --models`.
    pub(crate) fn models(&self) -> PathBuf {
        self.folder.join("models")
    }
}

/// Hash of the inputs of key and container.
fn state(binaries: &Path) -> Result<String> {
    let mut digest = Sha256::new();
    for name in ["enclave-server", "kms-simulator"] {
        let path = binaries.join(name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        digest.update(Sha256::digest(&bytes));
    }
    digest.update(fs::read(paths::root().join(model::LOCK))?);
    Ok(base16ct::lower::encode_string(&digest.finalize()))
}
