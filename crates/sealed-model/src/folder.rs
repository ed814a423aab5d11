//! Seals a folder of files: the only part of this crate that reads and writes files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{CHUNK, ContainerError, DataKey, Digests, FileEntry, MAX_FILES, Manifest, Sealer, TAG};

/// The files below a folder, with their names in a container.
pub struct ModelFolder {
    folder: PathBuf,
    files: Vec<(String, PathBuf)>,
    bytes: u64,
}

impl ModelFolder {
    /// Lists the files below `folder`. Follows links: a downloaded model's folder often consists of them.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be read, or lacks a part of a model.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let files = list(folder, Hidden::Listed)?;
        if !files.iter().any(|(name, _)| name == "config.json") {
            return Err(FolderError::Lacks(folder.to_owned(), "config.json"));
        }
        Self::of_files(folder, files)
    }

    /// Lists the files below `folder` that a server needs: configuration, tokenizer and weights in safetensors. Follows links.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be read, lacks a part of a model, or holds its weights as a pickle only.
    pub fn open_for_server(folder: &Path) -> Result<ServerFiles, FolderError> {
        let (needed, others): (Vec<_>, Vec<_>) = list(folder, Hidden::Skipped)?
            .into_iter()
            .partition(|(name, _)| is_needed_by_server(name));
        let mut left_out: Vec<_> = others.into_iter().map(|(name, _)| name).collect();
        left_out.sort_unstable();
        let has_weights = needed.iter().any(|(name, _)| is_safetensors(name));
        if !has_weights && let Some(pickle) = left_out.iter().find(|name| is_pickle(name)) {
            return Err(FolderError::Pickle(folder.to_owned(), pickle.clone()));
        }
        Ok(ServerFiles {
            folder: Self::of_files(folder, needed)?,
            left_out,
        })
    }

    /// The files of `manifest` below `folder`, without any other.
    ///
    /// # Errors
    /// [`FolderError`] if one of them cannot be read.
    pub fn open_pinned(folder: &Path, manifest: &Manifest) -> Result<Self, FolderError> {
        let files = manifest.files().iter();
        let files = files.map(|file| (file.name.clone(), folder.join(&file.name)));
        Self::of_files(folder, files.collect())
    }

    fn of_files(folder: &Path, files: Vec<(String, PathBuf)>) -> Result<Self, FolderError> {
        // The tokenizer may be in the folder of a module.
        let is_tokenizer = |name: &str| name.rsplit('/').next() == Some("tokenizer.json");
        if !files.iter().any(|(name, _)| is_tokenizer(name)) {
            return Err(FolderError::Lacks(folder.to_owned(), "tokenizer.json"));
        }
        if !files.iter().any(|(name, _)| is_safetensors(name)) {
            return Err(FolderError::Lacks(folder.to_owned(), ".safetensors file"));
        }
        let mut bytes = 0_u64;
        for (_, path) in &files {
            bytes = bytes.saturating_add(path.metadata().map_err(read(path))?.len());
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            bytes,
        })
    }

    /// Names of the files, with `/`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads every file once, and records its size and digest. Calls `progress` with the number of bytes read.
    ///
    /// # Errors
    /// [`FolderError`] if a file cannot be read, or a name is not allowed in a container.
    pub fn manifest(&self, progress: &mut dyn FnMut(u64)) -> Result<Manifest, FolderError> {
        let entries = self
            .files
            .iter()
            .map(|(name, path)| entry(name, path, progress));
        Ok(Manifest::new(entries.collect::<Result<_, _>>()?)?)
    }

    /// Seals the files of `manifest` into a new file `out`, chunk by chunk, and returns its length. An existing file is
    /// replaced when the new one is complete. `salt` must be random.
    ///
    /// # Errors
    /// [`FolderError`] if a file cannot be read, has changed since [`manifest`](Self::manifest), or `out` cannot be written.
    pub fn seal(
        &self,
        manifest: &Manifest,
        key: &DataKey,
        salt: &[u8; 32],
        out: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, FolderError> {
        let mut sealer = Sealer::new(manifest.clone(), salt, key)?;
        let mut partial = out.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let written = self
            .write(&partial, &mut sealer, manifest, progress)
            .and_then(|()| std::fs::rename(&partial, out).map_err(write(out)));
        if let Err(error) = written {
            // An incomplete file could be mistaken for a container.
            std::fs::remove_file(&partial).ok();
            return Err(error);
        }
        Ok(sealer.container_length())
    }

    fn write(
        &self,
        out: &Path,
        sealer: &mut Sealer,
        manifest: &Manifest,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), FolderError> {
        let mut writer = BufWriter::new(File::create(out).map_err(write(out))?);
        writer.write_all(sealer.header()).map_err(write(out))?;
        let mut plain = Contents {
            folder: &self.folder,
            files: manifest.files(),
            open: None,
        };
        let mut digests = Digests::new(manifest);
        let mut chunk = Vec::with_capacity(CHUNK + TAG);
        while let Some(length) = sealer.wants() {
            chunk.clear();
            plain
                .by_ref()
                .take(length as u64)
                .read_to_end(&mut chunk)
                .map_err(read(&self.folder))?;
            // Refuses files that changed since they were hashed.
            digests.update(&chunk)?;
            progress(chunk.len() as u64);
            sealer.seal(&mut chunk)?;
            writer.write_all(&chunk).map_err(write(out))?;
        }
        digests.finish()?;
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).map_err(write(out))
    }
}

/// The files of a folder that a server needs, and the names of the others.
pub struct ServerFiles {
    /// The needed files.
    pub folder: ModelFolder,
    /// Names of the other files, sorted; hidden files and folders are not listed.
    pub left_out: Vec<String>,
}

/// Files of one name. The server refuses a folder with an adapter; it could not if the lock left the adapter's settings out.
const NEEDED: [&str; 6] = [
    "adapter_config.json",
    "added_tokens.json",
    "modules.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// Whether a server needs the file of this name: configuration, tokenizer and weights in Hugging Face's and sentence-transformers'
/// formats, at the top and in the folder of a module.
pub fn is_needed_by_server(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_json = |start: &str, end: &str| file.starts_with(start) && file.ends_with(end);
    let is_needed = is_json("config", ".json")
        || is_json("sentence_", "_config.json")
        || is_json("", ".safetensors.index.json")
        || is_safetensors(file)
        || NEEDED.contains(&file);
    is_needed && !folder.contains('/')
}

fn is_safetensors(name: &str) -> bool {
    name.ends_with(".safetensors")
}

/// Formats of PyTorch that run code when they are loaded.
fn is_pickle(name: &str) -> bool {
    let pickles = [".bin", ".pt", ".pth", ".pkl", ".ckpt"];
    pickles.iter().any(|end| name.ends_with(end))
}

/// Why the files of a folder cannot be used.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum FolderError {
    /// Something below it cannot be read.
    #[error("cannot read {0}: {1}")]
    #[coded(
        "MODEL_FOLDER_UNREADABLE",
        remedy = "Name a folder that this user can read."
    )]
    Read(PathBuf, io::Error),
    /// The container cannot be written.
    #[error("cannot write {0}: {1}")]
    #[coded(
        "CONTAINER_UNWRITABLE",
        remedy = "Name a file that this user can write, on a disk with room for the model."
    )]
    Write(PathBuf, io::Error),
    /// The folder is not a model.
    #[error("{0} holds no {1}")]
    #[coded(
        "MODEL_FOLDER_INCOMPLETE",
        remedy = "Name a model folder, with its weights in safetensors."
    )]
    Lacks(PathBuf, &'static str),
    /// Weights in a format that can run code.
    #[error("{0} holds its weights as a pickle alone, `{1}`, which can run code when it is loaded")]
    #[coded(
        "MODEL_FOLDER_PICKLE",
        remedy = "Get the model's safetensors file, or convert the weights: load the model in Python, where you trust it, and call its save_pretrained with safe_serialization=True."
    )]
    Pickle(PathBuf, String),
    /// Neither file nor folder, or a name that is not UTF-8.
    #[error("{0} is neither a file nor a folder, or its name is not UTF-8")]
    #[coded("MODEL_FOLDER_ENTRY", remedy = "Remove it.")]
    Entry(PathBuf),
    /// Many more files than a model has.
    #[error("{0} holds too many files for a model")]
    #[coded("MODEL_FOLDER_TOO_MANY", remedy = "Name the model's own folder.")]
    TooMany(PathBuf),
    /// See [`ContainerError`].
    #[error(transparent)]
    #[coded(transparent)]
    Container(#[from] ContainerError),
}

fn read(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    |error| FolderError::Read(path.to_owned(), error)
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    |error| FolderError::Write(path.to_owned(), error)
}

/// Whether names that begin with a dot are listed.
#[derive(Clone, Copy, PartialEq)]
enum Hidden {
    Listed,
    /// Tools keep caches and histories there, of any number of files.
    Skipped,
}

fn list(folder: &Path, hidden: Hidden) -> Result<Vec<(String, PathBuf)>, FolderError> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), folder.to_path_buf())];
    while let Some((prefix, folder)) = open.pop() {
        for entry in std::fs::read_dir(&folder).map_err(read(&folder))? {
            let entry = entry.map_err(read(&folder))?;
            if hidden == Hidden::Skipped && entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let kind = path.metadata().map_err(read(&path))?;
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(FolderError::Entry(path));
            };
            let name = format!("{prefix}{name}");
            if kind.is_dir() {
                open.push((format!("{name}/"), path));
            } else if kind.is_file() {
                found.push((name, path));
            } else {
                return Err(FolderError::Entry(path));
            }
            if found.len() + open.len() > 4 * MAX_FILES {
                return Err(FolderError::TooMany(folder));
            }
        }
    }
    Ok(found)
}

fn entry(name: &str, path: &Path, progress: &mut dyn FnMut(u64)) -> Result<FileEntry, FolderError> {
    let mut file = File::open(path).map_err(read(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer).map_err(read(path))?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            break;
        };
        hash.update(read);
        size += count as u64;
        progress(count as u64);
    }
    Ok(FileEntry {
        name: name.to_owned(),
        size,
        sha256: hash.finalize().into(),
    })
}

/// The files' bytes, one after another.
struct Contents<'a> {
    folder: &'a Path,
    files: &'a [FileEntry],
    open: Option<io::Take<File>>,
}

impl Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(open) = &mut self.open {
                let count = open.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            let Some((file, rest)) = self.files.split_first() else {
                return Ok(0);
            };
            self.files = rest;
            self.open = Some(File::open(self.folder.join(&file.name))?.take(file.size));
        }
    }
}
