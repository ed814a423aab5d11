//! Seals a model under a simulated key, in the layout of host-proxy's `--models`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use rand_core::CryptoRng;
use sealed_model::{DataKey, Manifest, ModelFolder, ModelLock};

/// A model folder whose files are hashed.
pub struct Model {
    folder: ModelFolder,
    manifest: Manifest,
}

impl Model {
    /// Reads a folder; with a lock, its files alone.
    ///
    /// # Errors
    /// The folder is not that of a model, differs from the lock, or cannot be read.
    pub fn read(folder: &Path, lock: Option<&Path>) -> Result<Self> {
        if let Some(path) = lock {
            let json = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            // Sealing compares each file with it.
            let manifest = ModelLock::parse(&json)?.files;
            let folder = ModelFolder::open_pinned(folder, &manifest)?;
            return Ok(Self { folder, manifest });
        }
        let folder = ModelFolder::open(folder)?;
        let manifest = folder.manifest(&mut |_| {})?;
        Ok(Self { folder, manifest })
    }

    /// SHA-256 of the artifact set.
    pub fn sha256(&self) -> [u8; 32] {
        self.manifest.digest()
    }

    /// Seals the model with the data key of `key`, a folder that [`create`](crate::create) made, as
    /// `KEY/models/NAME/model.sealed`, next to `data-key.wrapped`.
    ///
    /// # Errors
    /// The name is not plain, or a file cannot be read or written.
    pub fn seal(&self, key: &Path, name: &str, rng: &mut impl CryptoRng) -> Result<()> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        ensure!(
            !name.starts_with('.') && !name.is_empty() && name.bytes().all(is_plain),
            "the model's name has characters other than letters, digits, `.`, `-` and `_`"
        );
        let path = key.join("data-key");
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let bytes: [u8; 32] = bytes
            .try_into()
            .map_err(|_| anyhow!("{} does not have 32 bytes", path.display()))?;
        let target = key.join("models").join(name);
        fs::create_dir_all(&target)?;
        let mut salt = [0; 32];
        rng.fill_bytes(&mut salt);
        self.folder.seal(
            &self.manifest,
            &DataKey::new(&bytes),
            &salt,
            &target.join("model.sealed"),
            &mut |_| {},
        )?;
        fs::copy(
            key.join("data-key.wrapped"),
            target.join("data-key.wrapped"),
        )?;
        Ok(())
    }
}
