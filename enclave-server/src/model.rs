//! The model: its files, the comparison with the pinned list, and the weights in memory, once.
//!
//! A folder and a sealed container take the same path. A separate thread hashes the bytes of the source, and hands them over only
//! when every file that ends among them has the pinned digest. Meanwhile the weights are laid out where the engine uses them.
//! Two parts read bytes of a file before its digest is known: the bounded reader of safetensors, and the copy into memory.
//! Nothing leaves this module before its digest was compared.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Encoder, EngineChoice, LoadError, Precision, Recipe, Shape};
use engine::{Tokenizer, TokenizerError, Weights};
use sealed_model::Manifest;

mod error;
pub mod fetch;
mod load;
pub mod pinned;
pub mod self_test;
pub mod source;

pub use error::ModelError;
pub use fetch::{FetchError, Sealed};
pub use self_test::SelfTestFault;
pub use source::{Folder, Piece, Source, SourceTimes};

/// A model whose every file had the pinned digest when it was read.
pub struct Model {
    /// The computation that the folder describes.
    pub recipe: Recipe,
    /// Contents of the tokenizer's description.
    pub tokenizer: Vec<u8>,
    /// The parameters by file; the only copy in this process.
    pub weights: BTreeMap<String, Weights>,
    /// Digest of the artifact set, scheme `sha256-manifest` (see [`Manifest::digest`]).
    pub artifact_sha256: [u8; 32],
}

impl Model {
    /// Reads a model folder, each file exactly once, and refuses it unless each file is the pinned one.
    ///
    /// # Errors
    /// [`ModelError`] names the file, the expected digest or size, and the one found.
    pub fn load(folder: &Path, pins: &Manifest) -> Result<Self, ModelError> {
        let loaded = Self::load_from(Folder::new(folder, pins), pins, |_, _| ())?;
        Ok(loaded.model)
    }

    /// Reads the files of `pins` from `source`, and refuses them unless each is the pinned one. `side_task` runs on a separate
    /// thread as soon as the configuration and the tokenizer's description, its arguments, are verified.
    ///
    /// # Errors
    /// [`ModelError`] names the file, the expected digest or size and the one found, or is the source's error.
    pub fn load_from<T: Send>(
        source: impl Source,
        pins: &Manifest,
        side_task: impl FnOnce(&Recipe, &[u8]) -> T + Send,
    ) -> Result<Loaded<T>, ModelError> {
        load::load(source, pins, side_task)
    }

    /// Builds the model's tokenizer.
    ///
    /// # Errors
    /// [`TokenizerError`] where the description is malformed.
    pub fn build_tokenizer(&self) -> Result<Tokenizer, TokenizerError> {
        self.recipe.tokenizer(&self.tokenizer)
    }

    /// Builds the encoder, reusing the memory of the weights.
    ///
    /// # Errors
    /// [`LoadError`] where no engine computes the model, or a tensor is missing or has another shape.
    pub fn build_encoder(
        self,
        choice: EngineChoice,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Arc<dyn Encoder>, LoadError> {
        self.recipe.build(self.weights, choice, precision, threads)
    }

    /// Shape and weights of a model whose pooled rows are only scaled to unit length, for an engine of the caller's choice.
    ///
    /// # Errors
    /// [`LoadError`] for any other model.
    pub fn into_parts(self) -> Result<(Shape, Weights), LoadError> {
        let shape = self.recipe.plain_shape().copied();
        let shape = shape.ok_or_else(|| {
            LoadError::Config("the model is not one encoder with one pooling".to_owned())
        })?;
        Ok((shape, Weights::join(self.weights.into_values())?))
    }
}

/// A model, the result of the side task, and how long the load took.
pub struct Loaded<T> {
    /// The model.
    pub model: Model,
    /// Result of the side task.
    pub side_result: T,
    /// Durations of the parts.
    pub times: LoadTimes,
}

/// Durations of the parts of a load. They overlap, so they do not add up to the total.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadTimes {
    /// From the first request to the last byte; for a folder, time spent reading.
    pub fetch: Duration,
    /// Decryption; zero for a folder.
    pub decrypt: Duration,
    /// Hashing.
    pub hash: Duration,
    /// Parsing safetensors and laying out weights, without waiting for bytes.
    pub layout: Duration,
    /// The side task: building the tokenizer.
    pub tokenizer: Duration,
    /// The whole load.
    pub total: Duration,
}

#[cfg(test)]
mod tests {
    use base16ct::lower::encode_string as hex;
    use sealed_model::FileEntry;
    use sha2::{Digest, Sha256};
    use tempfile::TempDir;

    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> TempDir {
        let folder = TempDir::new().unwrap();
        for (file, contents) in files {
            std::fs::write(folder.path().join(file), contents).unwrap();
        }
        folder
    }

    fn pin(file: &str, contents: &[u8]) -> Manifest {
        Manifest::new(vec![FileEntry::of(file, contents)]).unwrap()
    }

    #[test]
    fn a_changed_byte_is_refused_with_both_digests() {
        let folder = folder(&[("config.json", b"{ }")]);
        let Err(error) = Model::load(folder.path(), &pin("config.json", b"{}\n")) else {
            panic!("accepted")
        };
        assert_eq!(error.code(), "MODEL_FILE_DIGEST");
        let message = error.to_string();
        assert!(message.contains("config.json"), "{message}");
        assert!(
            message.contains(&hex(&Sha256::digest(b"{ }")))
                && message.contains(&hex(&Sha256::digest(b"{}\n")))
        );
    }

    #[test]
    fn a_wrong_size_is_refused_before_reading() {
        let folder = folder(&[("config.json", b"{}  ")]);
        let Err(error) = Model::load(folder.path(), &pin("config.json", b"{}")) else {
            panic!("accepted")
        };
        assert_eq!(error.code(), "MODEL_FILE_SIZE");
    }

    #[test]
    fn a_missing_file_is_named_with_the_remedy() {
        let folder = folder(&[]);
        let Err(error) = Model::load(folder.path(), &pin("tokenizer.json", b"{}")) else {
            panic!("accepted")
        };
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
        assert!(error.remedy().contains("cargo xtask model"));
    }

    #[test]
    fn a_list_without_weights_is_refused() {
        let folder = folder(&[("config.json", b"{}")]);
        let Err(error) = Model::load(folder.path(), &pin("config.json", b"{}")) else {
            panic!("accepted")
        };
        assert_eq!(error.code(), "MODEL_UNSUPPORTED");
        assert!(
            error
                .to_string()
                .contains("modules.json: the file is missing"),
            "{error}"
        );
    }
}
