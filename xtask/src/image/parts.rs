//! Where what is built once lies: an enclave's kernel, QEMU, its vsock device, its firmware; Kubernetes' control plane.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of built parts. A stamp next to a part records its inputs, so that another pin builds it again.
pub(crate) struct Parts {
    folder: PathBuf,
}

impl Parts {
    /// Those of enclave images: `$CLEARSEAL_ENCLAVE_PARTS`, else the user's cache folder.
    pub(crate) fn find() -> Result<Self> {
        Self::find_in("CLEARSEAL_ENCLAVE_PARTS", "enclave")
    }

    /// Those that the folder named by an environment variable holds, else the user's cache folder under `name`.
    pub(crate) fn find_in(variable: &str, name: &str) -> Result<Self> {
        let folder = match std::env::var_os(variable) {
            Some(folder) => PathBuf::from(folder),
            None => crate::paths::cache()?
                .join("clearseal")
                .join(name)
                .join("bin"),
        };
        Ok(Self { folder })
    }

    /// Where they lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a part, whether it is there or not.
    pub(crate) fn path(&self, part: &str) -> PathBuf {
        self.folder.join(part)
    }

    /// Whether the part was built from what `recipe` says.
    pub(crate) fn has(&self, part: &str, recipe: &str) -> bool {
        let stamp = fs::read_to_string(self.stamp(part)).unwrap_or_default();
        self.path(part).is_file() && stamp == digest(recipe)
    }

    /// Whether the kernel is there.
    pub(crate) fn has_kernel(&self) -> bool {
        super::kernel::recipe().is_ok_and(|recipe| self.has(super::kernel::PART, &recipe))
    }

    /// Takes a built file in, and remembers its recipe.
    pub(crate) fn take(&self, part: &str, recipe: &str, file: &Path) -> Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        // Moved into place at the end: a part that is in use is replaced, never written to.
        let staged = self.folder.join(format!(".{part}"));
        fs::copy(file, &staged).with_context(|| format!("cannot copy {}", file.display()))?;
        fs::rename(&staged, self.path(part))
            .with_context(|| format!("cannot write {}", self.path(part).display()))?;
        fs::write(self.stamp(part), digest(recipe))
            .with_context(|| format!("cannot write {}", self.stamp(part).display()))
    }

    /// A new folder to build in, next to the parts.
    pub(crate) fn workshop(&self, name: &str) -> Result<PathBuf> {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        let folder = parent.join("work").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    fn stamp(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{part}.recipe-sha256"))
    }
}

fn digest(recipe: &str) -> String {
    base16ct::lower::encode_string(&Sha256::digest(recipe.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_there_for_its_recipe_alone() {
        let folder = std::env::temp_dir().join(format!("clearseal-parts-{}", std::process::id()));
        let parts = Parts {
            folder: folder.join("bin"),
        };
        let built = folder.join("built");
        fs::create_dir_all(&folder).unwrap();
        fs::write(&built, "program").unwrap();
        assert!(!parts.has("x", "one"));
        parts.take("x", "one", &built).unwrap();
        assert!(parts.has("x", "one") && !parts.has("x", "two"));
        fs::remove_file(parts.path("x")).unwrap();
        assert!(!parts.has("x", "one"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
