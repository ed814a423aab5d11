//! The lock of the model: `model.lock.json`, compiled in, or the file of `--model-lock`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sealed_model::{MAX_LOCK, ModelLock};

use super::ModelError;

/// The locks of this start, at least one: from `files`, or the one that is compiled in.
///
/// # Errors
/// Those of [`lock`].
pub fn locks(files: &[PathBuf]) -> Result<Vec<ModelLock>, ModelError> {
    if files.is_empty() {
        return Ok(vec![all_minilm_l6_v2()?]);
    }
    files.iter().map(|file| lock(Some(file))).collect()
}

/// A lock: from `file`, or the one that is compiled in. In an enclave image the file is part of the image, and so
/// is the argument that names it: both are measured.
///
/// # Errors
/// [`ModelError`] where the file cannot be read, or is not a lock.
pub fn lock(file: Option<&Path>) -> Result<ModelLock, ModelError> {
    let Some(path) = file else {
        return all_minilm_l6_v2();
    };
    let mut json = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_LOCK as u64 + 1).read_to_end(&mut json))
        .map_err(|source| ModelError::LockUnreadable {
            path: path.to_owned(),
            source,
        })?;
    Ok(ModelLock::parse(&json)?)
}

/// The lock of all-MiniLM-L6-v2, which is compiled in.
///
/// # Errors
/// [`ModelError::Lock`] where it is not well-formed.
pub fn all_minilm_l6_v2() -> Result<ModelLock, ModelError> {
    Ok(ModelLock::parse(include_bytes!("../../model.lock.json"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_lock_is_well_formed() {
        let lock = lock(None).unwrap();
        let names: Vec<_> = lock.files.files().iter().map(|pin| &*pin.name).collect();
        assert!(
            names.contains(&"model.safetensors") && names.contains(&"tokenizer.json"),
            "{names:?}"
        );
    }

    #[test]
    fn a_file_replaces_the_compiled_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.lock.json");
        let missing = lock(Some(&path)).unwrap_err();
        assert_eq!(missing.code(), "MODEL_LOCK_UNREADABLE");
        assert!(missing.to_string().contains("other.lock.json"), "{missing}");
        let json = include_str!("../../model.lock.json");
        std::fs::write(&path, json.replacen("all-MiniLM-L6-v2", "org/other", 1)).unwrap();
        let other = lock(Some(&path)).unwrap();
        assert_eq!(other.name.as_str(), "org/other");
        std::fs::write(&path, "[]").unwrap();
        let invalid = lock(Some(&path)).unwrap_err();
        assert_eq!(invalid.code(), "MODEL_LOCK_INVALID");
        std::fs::write(&path, vec![b' '; MAX_LOCK + 2]).unwrap();
        assert_eq!(lock(Some(&path)).unwrap_err().code(), "MODEL_LOCK_INVALID");
    }
}
