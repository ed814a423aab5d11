//! The model on disk: which files it consists of, whether they are the pinned ones, and its weights in memory, once.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

pub mod pinned;

pub use pinned::{PinnedFile, artifact_set_sha256};

use engine::weights;
use engine::{LoadError, Pooling, Shape, Weights};

/// A model whose every file had the pinned digest when it was read.
pub struct Model {
    /// Contents of `config.json`: the architecture, in the terms of Hugging Face's BERT configuration.
    pub architecture: Vec<u8>,
    /// Contents of `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// Longest sequence in word pieces, `[CLS]` and `[SEP]` included; longer texts are truncated.
    pub max_tokens: usize,
    /// How token states become one embedding.
    pub pooling: Pooling,
    /// The parameters; the only copy in this process.
    pub weights: Weights,
    /// Digest of the artifact set, scheme `sha256-manifest` (see [`artifact_set_sha256`]).
    pub artifact_sha256: [u8; 32],
}

impl Model {
    /// Reads a model folder, each file exactly once, and refuses it unless each file is the pinned one.
    ///
    /// # Errors
    /// [`ModelError`] names the file, what was expected and what was found.
    pub fn load(folder: &Path, pins: &[PinnedFile]) -> Result<Self, ModelError> {
        let mut small = std::collections::BTreeMap::new();
        let mut weights = None;
        for pin in pins {
            let path = folder.join(&pin.file);
            let source = open(&path, pin)?;
            let digest = if pin.file == WEIGHTS {
                let (read, digest) =
                    weights::read(source, pin.size).map_err(|source| ModelError::Weights {
                        path: path.clone(),
                        source,
                    })?;
                weights = Some(read);
                digest
            } else {
                let bytes = read_small(source, &path, pin)?;
                let digest = Sha256::digest(&bytes).into();
                small.insert(pin.file.as_str(), bytes);
                digest
            };
            if digest != pin.sha256 {
                return Err(ModelError::Digest {
                    path,
                    expected: hex(&pin.sha256),
                    observed: hex(&digest),
                });
            }
        }
        let mut take =
            |file: &'static str| small.remove(file).ok_or(ModelError::NotPinned { file });
        let (architecture, tokenizer) = (take("config.json")?, take("tokenizer.json")?);
        let sentence: SentenceConfig = parse(
            "sentence_bert_config.json",
            &take("sentence_bert_config.json")?,
        )?;
        let pooling: PoolingConfig =
            parse("1_Pooling/config.json", &take("1_Pooling/config.json")?)?;
        let pooling = if pooling == PoolingConfig::MEAN {
            Pooling::Mean
        } else if pooling == PoolingConfig::FIRST {
            Pooling::First
        } else {
            return Err(ModelError::Unsupported {
                file: "1_Pooling/config.json",
                what: "another pooling than the mean over tokens or the first token",
            });
        };
        let modules: Vec<Module> = parse("modules.json", &take("modules.json")?)?;
        if !modules
            .iter()
            .any(|module| module.kind.ends_with(".Normalize"))
        {
            return Err(ModelError::Unsupported {
                file: "modules.json",
                what: "embeddings that are not normalised",
            });
        }
        Ok(Self {
            architecture,
            tokenizer,
            max_tokens: sentence.max_seq_length,
            pooling,
            weights: weights.ok_or(ModelError::NotPinned { file: WEIGHTS })?,
            artifact_sha256: artifact_set_sha256(pins),
        })
    }

    /// What the model looks like, for the engines.
    ///
    /// # Errors
    /// [`LoadError`] where `config.json` describes what no engine computes.
    pub fn shape(&self) -> Result<Shape, LoadError> {
        Shape::parse(&self.architecture, self.max_tokens, self.pooling)
    }
}

/// Why a model folder was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The pinned list itself cannot be used.
    #[error("MODEL_LOCK_INVALID: {0}; restore model.lock.json from the release")]
    Lock(String),
    /// The pinned list lacks a file that the engine needs.
    #[error("MODEL_FILE_NOT_PINNED: `{file}` is needed, but the pinned list lacks it")]
    NotPinned {
        /// Name inside the model folder.
        file: &'static str,
    },
    /// A file cannot be read.
    #[error(
        "MODEL_FILE_UNREADABLE: {path}: {source}; get the model with `cargo xtask model`, or name its folder with --model"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is longer or shorter than the pinned one.
    #[error(
        "MODEL_FILE_SIZE: {path} has {observed} bytes, the pinned file {expected}; get the model again with `cargo xtask model`"
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Pinned size in bytes.
        expected: u64,
        /// Size found.
        observed: u64,
    },
    /// A file is another than the pinned one.
    #[error(
        "MODEL_FILE_DIGEST: {path} has SHA-256 {observed}, the pinned file {expected}; do not use it, get the model again with `cargo xtask model`"
    )]
    Digest {
        /// The file.
        path: PathBuf,
        /// Pinned SHA-256, hex.
        expected: String,
        /// SHA-256 found, hex.
        observed: String,
    },
    /// The weights are not what they should be.
    #[error("{source} (in {path})")]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: weights::WeightsError,
    },
    /// A configuration file is not of the expected form.
    #[error("MODEL_CONFIG_INVALID: {file}: {message}")]
    Config {
        /// Name inside the model folder.
        file: &'static str,
        /// What the parser said.
        message: String,
    },
    /// The configuration asks for what no engine here does.
    #[error(
        "MODEL_UNSUPPORTED: {file} asks for {what}; use a sentence-transformers BERT model with mean or first-token pooling and normalisation"
    )]
    Unsupported {
        /// Name inside the model folder.
        file: &'static str,
        /// What it asks for.
        what: &'static str,
    },
}

const WEIGHTS: &str = "model.safetensors";

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: usize,
}

#[derive(Deserialize, PartialEq)]
struct PoolingConfig {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
}

impl PoolingConfig {
    const MEAN: Self = Self {
        pooling_mode_cls_token: false,
        pooling_mode_mean_tokens: true,
        pooling_mode_max_tokens: false,
        pooling_mode_mean_sqrt_len_tokens: false,
    };

    const FIRST: Self = Self {
        pooling_mode_cls_token: true,
        pooling_mode_mean_tokens: false,
        ..Self::MEAN
    };
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

fn parse<T: for<'de> Deserialize<'de>>(file: &'static str, bytes: &[u8]) -> Result<T, ModelError> {
    serde_json::from_slice(bytes).map_err(|error| ModelError::Config {
        file,
        message: error.to_string(),
    })
}

/// Opens a pinned file, and compares sizes before anything is allocated for its contents.
fn open(path: &Path, pin: &PinnedFile) -> Result<File, ModelError> {
    let unreadable = |source| ModelError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let observed = file.metadata().map_err(unreadable)?.len();
    if observed != pin.size {
        return Err(ModelError::Size {
            path: path.to_owned(),
            expected: pin.size,
            observed,
        });
    }
    Ok(file)
}

fn read_small(source: File, path: &Path, pin: &PinnedFile) -> Result<Vec<u8>, ModelError> {
    let mut bytes = Vec::with_capacity(usize::try_from(pin.size).unwrap_or(0).min(1 << 20));
    // The file may have grown since its size was read; the digest then differs.
    source
        .take(pin.size)
        .read_to_end(&mut bytes)
        .map_err(|source| ModelError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> TempDir {
        let folder = TempDir::new().unwrap();
        for (file, contents) in files {
            std::fs::write(folder.path().join(file), contents).unwrap();
        }
        folder
    }

    fn pin(file: &str, contents: &[u8]) -> PinnedFile {
        PinnedFile {
            file: file.to_owned(),
            sha256: Sha256::digest(contents).into(),
            size: contents.len() as u64,
        }
    }

    #[test]
    fn a_changed_byte_is_refused_with_both_digests() {
        let folder = folder(&[("config.json", b"{ }")]);
        let Err(error) = Model::load(folder.path(), &[pin("config.json", b"{}\n")]) else {
            panic!("accepted")
        };
        let message = error.to_string();
        assert!(
            message.starts_with("MODEL_FILE_DIGEST") && message.contains("config.json"),
            "{message}"
        );
        assert!(
            message.contains(&hex(&Sha256::digest(b"{ }")))
                && message.contains(&hex(&Sha256::digest(b"{}\n")))
        );
    }

    #[test]
    fn a_wrong_size_is_refused_before_reading() {
        let folder = folder(&[("config.json", b"{}  ")]);
        let Err(error) = Model::load(folder.path(), &[pin("config.json", b"{}")]) else {
            panic!("accepted")
        };
        assert!(error.to_string().starts_with("MODEL_FILE_SIZE"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named_with_the_remedy() {
        let folder = folder(&[]);
        let Err(error) = Model::load(folder.path(), &[pin("tokenizer.json", b"{}")]) else {
            panic!("accepted")
        };
        let message = error.to_string();
        assert!(
            message.contains("tokenizer.json") && message.contains("cargo xtask model"),
            "{message}"
        );
    }

    #[test]
    fn a_list_without_weights_is_refused() {
        let folder = folder(&[("config.json", b"{}")]);
        let Err(error) = Model::load(folder.path(), &[pin("config.json", b"{}")]) else {
            panic!("accepted")
        };
        assert!(
            error.to_string().starts_with("MODEL_FILE_NOT_PINNED"),
            "{error}"
        );
    }
}
