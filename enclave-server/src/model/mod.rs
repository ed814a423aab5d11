//! The model: which files it consists of, whether they are the pinned ones, and its weights in memory, once.
//!
//! A folder and a sealed container take one path. The source's bytes are hashed on a thread of their own, and are handed
//! over only when every file that ends among them has the pinned digest; meanwhile the weights are laid out where the
//! engine uses them. Two things look at bytes before their file is complete: the bounded reader of safetensors, and the
//! copy into memory. Nothing else does, and nothing leaves this module before its digest was compared.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

use sealed_model::{Digests, FileEntry, Manifest};
use serde::Deserialize;

mod error;
pub mod fetch;
pub mod pinned;
pub mod source;

pub use error::ModelError;
pub use fetch::{FetchError, Sealed};
pub use source::{Folder, Piece, Source, SourceTimes};

use engine::weights;
use engine::{LoadError, Pooling, Shape, Weights};

/// A model whose every file had the pinned digest when it was read.
pub struct Model {
    /// Contents of `config.json`: the architecture, in the terms of Hugging Face's BERT configuration.
    pub architecture: Vec<u8>,
    /// Contents of `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// Longest sequence in tokens, `[CLS]` and `[SEP]` included; longer texts are truncated.
    pub max_tokens: usize,
    /// How token states become one embedding.
    pub pooling: Pooling,
    /// The parameters; the only copy in this process.
    pub weights: Weights,
    /// Digest of the artifact set, scheme `sha256-manifest` (see [`Manifest::digest`]).
    pub artifact_sha256: [u8; 32],
}

impl Model {
    /// Reads a model folder, each file exactly once, and refuses it unless each file is the pinned one.
    ///
    /// # Errors
    /// [`ModelError`] names the file, what was expected and what was found.
    pub fn load(folder: &Path, pins: &[FileEntry]) -> Result<Self, ModelError> {
        let pins = Manifest::new(pins.to_vec())?;
        let loaded = Self::load_from(Folder::new(folder, &pins), &pins, |_, _| ())?;
        Ok(loaded.model)
    }

    /// Takes the files of `pins` out of `source`, and refuses them unless each is the pinned one. As soon as vocabulary and
    /// longest sequence are there and verified, `meanwhile` begins on a thread of its own: with `tokenizer.json`, and the
    /// longest sequence.
    ///
    /// # Errors
    /// [`ModelError`] names the file, what was expected and what was found, or what the source failed at.
    pub fn load_from<T: Send>(
        mut source: impl Source,
        pins: &Manifest,
        meanwhile: impl FnOnce(&[u8], usize) -> T + Send,
    ) -> Result<Loaded<T>, ModelError> {
        let begun = Instant::now();
        let hashed = std::sync::Mutex::new((Duration::ZERO, SourceTimes::default()));
        let (model, beside, layout) = std::thread::scope(|scope| {
            let (pieces, received) = sync_channel(1);
            let (back, memory) = channel();
            let hashed = &hashed;
            std::thread::Builder::new()
                .name("model-hash".to_owned())
                .spawn_scoped(scope, move || {
                    let outcome = hash(&mut source, pins, &pieces, &memory);
                    let took = match outcome {
                        Ok(took) => took,
                        Err(error) => {
                            // Without a receiver the load has failed already.
                            pieces.send(Err(error)).ok();
                            Duration::ZERO
                        }
                    };
                    *hashed
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner) =
                        (took, source.times());
                })
                .map_err(ModelError::Thread)?;
            let stream = Stream {
                received,
                back,
                piece: None,
                at: 0,
                waited: Duration::ZERO,
            };
            let mut reading = Reading {
                stream,
                small: BTreeMap::new(),
                weights: None,
            };
            let mut meanwhile = Some(meanwhile);
            let mut beside = None;
            for pin in pins.files() {
                reading.file(pin)?;
                if let Some((tokenizer, max_tokens)) = reading.vocabulary()
                    && let Some(work) = meanwhile.take()
                {
                    let tokenizer = tokenizer.to_vec();
                    let work = move || {
                        let begun = Instant::now();
                        (work(&tokenizer, max_tokens), begun.elapsed())
                    };
                    let thread = std::thread::Builder::new().name("tokenizer".to_owned());
                    beside = Some(
                        thread
                            .spawn_scoped(scope, work)
                            .map_err(ModelError::Thread)?,
                    );
                }
            }
            let layout = begun.elapsed().saturating_sub(reading.stream.waited);
            let model = reading.model(pins)?;
            let beside = beside.ok_or(ModelError::NotPinned {
                file: "tokenizer.json",
            })?;
            let beside = beside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, ModelError>((model, beside, layout))
        })?;
        let (hash, SourceTimes { fetch, decrypt }) = hashed
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (beside, tokenizer) = beside;
        let times = LoadTimes {
            fetch,
            decrypt,
            hash,
            layout,
            tokenizer,
            total: begun.elapsed(),
        };
        Ok(Loaded {
            model,
            beside,
            times,
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

/// A model, what was made meanwhile, and how long it took.
pub struct Loaded<T> {
    /// The model.
    pub model: Model,
    /// What the work beside the load returned.
    pub beside: T,
    /// How long what took.
    pub times: LoadTimes,
}

/// Where the time of a load went. The parts run at once: they do not add up to the total.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadTimes {
    /// From the first request to the last byte; for a folder, time spent reading.
    pub fetch: Duration,
    /// Inside the cipher; none for a folder.
    pub decrypt: Duration,
    /// Inside the hash.
    pub hash: Duration,
    /// Reading of safetensors and laying out of weights, without waiting for bytes.
    pub layout: Duration,
    /// Work beside the load: the tokenizer.
    pub tokenizer: Duration,
    /// All of it.
    pub total: Duration,
}

/// Hashes what comes, and hands on only what ends no file that is another than the pinned one.
fn hash(
    source: &mut impl Source,
    pins: &Manifest,
    pieces: &std::sync::mpsc::SyncSender<Result<Piece, ModelError>>,
    memory: &Receiver<Vec<u8>>,
) -> Result<Duration, ModelError> {
    let mut digests = Digests::new(pins);
    let mut took = Duration::ZERO;
    loop {
        let free = memory.try_recv().unwrap_or_default();
        let Some(piece) = source.next(free)? else {
            digests.finish()?;
            return Ok(took);
        };
        let begun = Instant::now();
        digests.update(piece.bytes())?;
        took += begun.elapsed();
        if pieces.send(Ok(piece)).is_err() {
            // The load failed on the other side, which says why.
            return Ok(took);
        }
    }
}

/// The verified bytes as a reader. What the hashing side failed at comes as an [`io::Error`] around it.
struct Stream {
    received: Receiver<Result<Piece, ModelError>>,
    back: Sender<Vec<u8>>,
    piece: Option<Piece>,
    at: usize,
    waited: Duration,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(piece) = &self.piece {
                let rest = piece.bytes().get(self.at..).unwrap_or_default();
                if !rest.is_empty() {
                    let count = rest.len().min(buffer.len());
                    let (to, from) = (buffer.get_mut(..count), rest.get(..count));
                    if let (Some(to), Some(from)) = (to, from) {
                        to.copy_from_slice(from);
                    }
                    self.at += count;
                    return Ok(count);
                }
            }
            if let Some(piece) = self.piece.take() {
                // The other side may have ended: then nothing needs memory any more.
                self.back.send(piece.memory).ok();
            }
            let begun = Instant::now();
            let next = self.received.recv();
            self.waited += begun.elapsed();
            match next {
                Ok(Ok(piece)) => (self.piece, self.at) = (Some(piece), 0),
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(_) => return Ok(0),
            }
        }
    }
}

/// What was read so far.
struct Reading {
    stream: Stream,
    small: BTreeMap<String, Vec<u8>>,
    weights: Option<Weights>,
}

impl Reading {
    fn file(&mut self, pin: &FileEntry) -> Result<(), ModelError> {
        if pin.name == WEIGHTS {
            let parsed = weights::parse(&mut self.stream, pin.size);
            self.weights = Some(parsed.map_err(|source| match source {
                weights::WeightsError::Read(error) => unwrapped(error, &pin.name),
                source => ModelError::Weights {
                    path: pin.name.clone().into(),
                    source,
                },
            })?);
            return Ok(());
        }
        if pin.size > SMALL_MAX {
            return Err(ModelError::Lock(format!(
                "`{}` is larger than 64 MiB",
                pin.name
            )));
        }
        let mut bytes = vec![0; usize::try_from(pin.size).unwrap_or(0)];
        self.stream
            .read_exact(&mut bytes)
            .map_err(|error| unwrapped(error, &pin.name))?;
        self.small.insert(pin.name.clone(), bytes);
        Ok(())
    }

    /// `tokenizer.json` and the longest sequence, once both are here.
    fn vocabulary(&self) -> Option<(&[u8], usize)> {
        let sentence = self.small.get("sentence_bert_config.json")?;
        let sentence: SentenceConfig = serde_json::from_slice(sentence).ok()?;
        Some((self.small.get("tokenizer.json")?, sentence.max_seq_length))
    }

    fn model(mut self, pins: &Manifest) -> Result<Model, ModelError> {
        let mut take = |file: &'static str| {
            self.small
                .remove(file)
                .ok_or(ModelError::NotPinned { file })
        };
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
        Ok(Model {
            architecture,
            tokenizer,
            max_tokens: sentence.max_seq_length,
            pooling,
            weights: self
                .weights
                .ok_or(ModelError::NotPinned { file: WEIGHTS })?,
            artifact_sha256: pins.digest(),
        })
    }
}

/// What the hashing side failed at, out of the reader's error.
fn unwrapped(error: io::Error, name: &str) -> ModelError {
    let path = PathBuf::from(name);
    match error.downcast::<ModelError>() {
        Ok(error) => error,
        Err(source) => ModelError::Unreadable { path, source },
    }
}

/// Configuration and vocabularies: far above any, far below what would be a second model.
const SMALL_MAX: u64 = 64 << 20;

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

#[cfg(test)]
mod tests {
    use base16ct::lower::encode_string as hex;
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

    fn pin(file: &str, contents: &[u8]) -> FileEntry {
        FileEntry::of(file, contents)
    }

    #[test]
    fn a_changed_byte_is_refused_with_both_digests() {
        let folder = folder(&[("config.json", b"{ }")]);
        let Err(error) = Model::load(folder.path(), &[pin("config.json", b"{}\n")]) else {
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
        let Err(error) = Model::load(folder.path(), &[pin("config.json", b"{}")]) else {
            panic!("accepted")
        };
        assert_eq!(error.code(), "MODEL_FILE_SIZE");
    }

    #[test]
    fn a_missing_file_is_named_with_the_remedy() {
        let folder = folder(&[]);
        let Err(error) = Model::load(folder.path(), &[pin("tokenizer.json", b"{}")]) else {
            panic!("accepted")
        };
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
        assert!(error.remedy().contains("cargo xtask model"));
    }

    #[test]
    fn a_list_without_weights_is_refused() {
        let folder = folder(&[("config.json", b"{}")]);
        let Err(error) = Model::load(folder.path(), &[pin("config.json", b"{}")]) else {
            panic!("accepted")
        };
        assert_eq!(error.code(), "MODEL_FILE_NOT_PINNED");
    }
}
