//! Reads the files of a model: one thread hashes, one builds the tokenizer, and this one lays out the weights.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use engine::weights;
use engine::{ModelFiles, Recipe, Weights};
use sealed_model::{Digests, FileEntry, LockError, Manifest};

use super::{LoadTimes, Loaded, Model, ModelError, Piece, Source, SourceTimes};

pub(super) fn load<T: Send>(
    source: impl Source,
    pins: &Manifest,
    side_task: impl FnOnce(&Recipe, &[u8]) -> T + Send,
) -> Result<Loaded<T>, ModelError> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (hashing, stream) = start_hashing(scope, source, pins)?;
        let mut reader = FileReader::new(stream, pins);
        let mut side_task = Some(side_task);
        let mut side_thread = None;
        for pin in pins.files() {
            reader.read_file(pin)?;
            if let Some((recipe, tokenizer)) = reader.described()?
                && let Some(task) = side_task.take()
            {
                let (recipe, tokenizer) = (recipe.clone(), tokenizer.to_vec());
                let timed_task = move || {
                    let begun = Instant::now();
                    let result = task(&recipe, &tokenizer);
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
    files: ModelFiles,
    /// Descriptions that are still to come.
    missing: usize,
    recipe: Option<Recipe>,
    weights: BTreeMap<String, Weights>,
}

impl FileReader {
    fn new(stream: VerifiedStream, pins: &Manifest) -> Self {
        let names = pins.files().iter().map(|pin| &pin.name);
        let (descriptions, others): (Vec<_>, _) = names.partition(|name| is_description(name));
        Self {
            stream,
            files: ModelFiles {
                contents: BTreeMap::new(),
                others: others.into_iter().cloned().collect(),
            },
            missing: descriptions.len(),
            recipe: None,
            weights: BTreeMap::new(),
        }
    }

    fn read_file(&mut self, pin: &FileEntry) -> Result<(), ModelError> {
        if is_description(&pin.name) {
            return self.read_description(pin);
        }
        let known = self.recipe.as_ref().map(Recipe::weight_files);
        let needed = known.is_none_or(|files| files.contains(&pin.name));
        if !pin.name.ends_with(WEIGHTS) || !needed {
            let skipped = io::copy(&mut (&mut self.stream).take(pin.size), &mut io::sink());
            skipped.map_err(|error| model_error(error, &pin.name))?;
            return Ok(());
        }
        let parsed = weights::parse(&mut self.stream, pin.size);
        let weights = parsed.map_err(|source| match source {
            weights::WeightsError::Read(error) => model_error(error, &pin.name),
            source => ModelError::Weights {
                path: pin.name.clone().into(),
                source,
            },
        })?;
        self.weights.insert(pin.name.clone(), weights);
        Ok(())
    }

    fn read_description(&mut self, pin: &FileEntry) -> Result<(), ModelError> {
        if pin.size > SMALL_MAX {
            let fault = format!("`{}` is larger than 64 MiB", pin.name);
            return Err(LockError(fault).into());
        }
        let mut bytes = vec![0; usize::try_from(pin.size).unwrap_or(0)];
        self.stream
            .read_exact(&mut bytes)
            .map_err(|error| model_error(error, &pin.name))?;
        self.files.contents.insert(pin.name.clone(), bytes);
        self.missing -= 1;
        Ok(())
    }

    /// The recipe and the tokenizer's description, once every description was read.
    fn described(&mut self) -> Result<Option<(&Recipe, &[u8])>, ModelError> {
        if self.missing > 0 {
            return Ok(None);
        }
        if self.recipe.is_none() {
            self.recipe = Some(Recipe::read(&self.files)?);
        }
        let files = &self.files.contents;
        Ok(self.recipe.as_ref().and_then(|recipe| {
            let tokenizer = files.get(recipe.tokenizer_file())?;
            Some((recipe, tokenizer.as_slice()))
        }))
    }

    fn into_model(mut self, pins: &Manifest) -> Result<Model, ModelError> {
        let recipe = match self.recipe {
            Some(recipe) => recipe,
            None => Recipe::read(&self.files)?,
        };
        self.weights
            .retain(|name, _| recipe.weight_files().contains(name));
        let tokenizer = self.files.contents.remove(recipe.tokenizer_file());
        Ok(Model {
            tokenizer: tokenizer.ok_or(ModelError::NotPinned {
                file: "tokenizer.json",
            })?,
            recipe,
            weights: self.weights,
            artifact_sha256: pins.digest(),
        })
    }
}

/// Whether a file describes the model: it is read before the weights are built.
fn is_description(name: &str) -> bool {
    name.ends_with(".json")
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

const WEIGHTS: &str = ".safetensors";
