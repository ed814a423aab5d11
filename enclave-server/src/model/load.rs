//! Reads the files of a model: one thread hashes, one builds the tokenizer, and this one lays out the weights.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use engine::weights;
use engine::{Pooling, Weights};
use sealed_model::{Digests, FileEntry, LockError, Manifest};
use serde::Deserialize;

use super::{LoadTimes, Loaded, Model, ModelError, Piece, Source, SourceTimes};

pub(super) fn load<T: Send>(
    source: impl Source,
    pins: &Manifest,
    side_task: impl FnOnce(&[u8], usize) -> T + Send,
) -> Result<Loaded<T>, ModelError> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (hashing, stream) = start_hashing(scope, source, pins)?;
        let mut reader = FileReader {
            stream,
            small: BTreeMap::new(),
            weights: None,
        };
        let mut side_task = Some(side_task);
        let mut side_thread = None;
        for pin in pins.files() {
            reader.read_file(pin)?;
            if let Some((tokenizer, max_tokens)) = reader.vocabulary()
                && let Some(task) = side_task.take()
            {
                let tokenizer = tokenizer.to_vec();
                let timed_task = move || {
                    let begun = Instant::now();
                    let result = task(&tokenizer, max_tokens);
                    SideOutcome {
                        result,
                        took: begun.elapsed(),
                    }
                };
                let thread = Builder::new().name("tokenizer".to_owned());
                let thread = thread.spawn_scoped(scope, timed_task);
                side_thread = Some(thread.map_err(ModelError::Thread)?);
            }
        }
        let layout = begun.elapsed().saturating_sub(reader.stream.waited);
        let model = reader.into_model(pins)?;
        let side_thread = side_thread.ok_or(ModelError::NotPinned {
            file: "tokenizer.json",
        })?;
        let side = join(side_thread);
        let HashTimes {
            hash,
            source: SourceTimes { fetch, decrypt },
        } = join(hashing);
        Ok(Loaded {
            model,
            side_result: side.result,
            times: LoadTimes {
                fetch,
                decrypt,
                hash,
                layout,
                tokenizer: side.took,
                total: begun.elapsed(),
            },
        })
    })
}

struct SideOutcome<T> {
    result: T,
    took: Duration,
}

struct HashTimes {
    hash: Duration,
    source: SourceTimes,
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Starts the thread that reads and hashes `source`; the stream returns the bytes that it hands over.
fn start_hashing<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut source: impl Source + 'scope,
    pins: &'scope Manifest,
) -> Result<(ScopedJoinHandle<'scope, HashTimes>, VerifiedStream), ModelError> {
    let (pieces, received) = sync_channel(1);
    let (back, memory) = channel();
    let thread = Builder::new().name("model-hash".to_owned());
    let thread = thread.spawn_scoped(scope, move || {
        let hash = hash(&mut source, pins, &pieces, &memory).unwrap_or_else(|error| {
            // Without a receiver the load has failed already.
            pieces.send(Err(error)).ok();
            Duration::ZERO
        });
        HashTimes {
            hash,
            source: source.times(),
        }
    });
    let stream = VerifiedStream {
        received,
        back,
        piece: None,
        at: 0,
        waited: Duration::ZERO,
    };
    Ok((thread.map_err(ModelError::Thread)?, stream))
}

/// Hashes pieces, and hands each over unless a file that ends in it differs from the pinned one.
fn hash(
    source: &mut impl Source,
    pins: &Manifest,
    pieces: &SyncSender<Result<Piece, ModelError>>,
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
            // The load failed on the receiving side, which reports the error.
            return Ok(took);
        }
    }
}

/// Reads the verified bytes. An error of the hashing side is returned inside an [`io::Error`].
struct VerifiedStream {
    received: Receiver<Result<Piece, ModelError>>,
    back: Sender<Vec<u8>>,
    piece: Option<Piece>,
    at: usize,
    waited: Duration,
}

impl Read for VerifiedStream {
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
                // Fails where the hashing side has ended and needs no more memory.
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

/// Reads file after file.
struct FileReader {
    stream: VerifiedStream,
    small: BTreeMap<String, Vec<u8>>,
    weights: Option<Weights>,
}

impl FileReader {
    fn read_file(&mut self, pin: &FileEntry) -> Result<(), ModelError> {
        if pin.name == WEIGHTS {
            let parsed = weights::parse(&mut self.stream, pin.size);
            self.weights = Some(parsed.map_err(|source| match source {
                weights::WeightsError::Read(error) => model_error(error, &pin.name),
                source => ModelError::Weights {
                    path: pin.name.clone().into(),
                    source,
                },
            })?);
            return Ok(());
        }
        if pin.size > SMALL_MAX {
            let fault = format!("`{}` is larger than 64 MiB", pin.name);
            return Err(LockError(fault).into());
        }
        let mut bytes = vec![0; usize::try_from(pin.size).unwrap_or(0)];
        self.stream
            .read_exact(&mut bytes)
            .map_err(|error| model_error(error, &pin.name))?;
        self.small.insert(pin.name.clone(), bytes);
        Ok(())
    }

    /// `tokenizer.json` and the longest sequence, once both have been read.
    fn vocabulary(&self) -> Option<(&[u8], usize)> {
        let sentence = self.small.get("sentence_bert_config.json")?;
        let sentence: SentenceConfig = serde_json::from_slice(sentence).ok()?;
        Some((self.small.get("tokenizer.json")?, sentence.max_seq_length))
    }

    fn into_model(mut self, pins: &Manifest) -> Result<Model, ModelError> {
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

/// Takes the error of the hashing side out of the reader's error.
fn model_error(error: io::Error, name: &str) -> ModelError {
    let path = PathBuf::from(name);
    match error.downcast::<ModelError>() {
        Ok(error) => error,
        Err(source) => ModelError::Unreadable { path, source },
    }
}

/// Largest configuration or vocabulary: far larger than any that exists, far smaller than a second model.
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
