//! The files of a model: names, sizes, digests, in their only allowed order.

use base16ct::lower::encode_string as hex;
use sha2::{Digest, Sha256};

use crate::error::{ContainerError, FileNameError};

/// Most files of one model.
pub const MAX_FILES: usize = 1024;

const NAME_MAX: usize = 255;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Path below the model's folder, with `/`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of its contents.
    pub sha256: [u8; 32],
}

impl FileEntry {
    /// Describes a file with these contents.
    pub fn of(name: &str, contents: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            size: contents.len() as u64,
            sha256: Sha256::digest(contents).into(),
        }
    }
}

/// The file set of a model: 1 to 1,024 files with different, plain names, sorted by size, then name.
///
/// Small files come first: a loader parses configuration and vocabulary while the weights are still in transit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    files: Vec<FileEntry>,
    total: u64,
}

impl Manifest {
    /// Sorts and checks a file set.
    ///
    /// # Errors
    /// [`ContainerError`] if names are not plain or not different, or there are too many files or none.
    pub fn new(mut files: Vec<FileEntry>) -> Result<Self, ContainerError> {
        files.sort_by(|a, b| order(a).cmp(&order(b)));
        Self::sorted(files)
    }

    /// Like [`new`](Self::new), but refuses another order.
    fn sorted(files: Vec<FileEntry>) -> Result<Self, ContainerError> {
        if files.is_empty() || files.len() > MAX_FILES {
            return Err(ContainerError::FileSet("a model has 1 to 1024 files"));
        }
        for file in &files {
            check_name(&file.name).map_err(ContainerError::BadPath)?;
        }
        let mut names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ContainerError::DuplicateName(pair[0].to_owned()));
        }
        if !files.is_sorted_by(|a, b| order(a) < order(b)) {
            return Err(ContainerError::FileOrder);
        }
        let total = files
            .iter()
            .try_fold(0_u64, |total, file| total.checked_add(file.size))
            // As many chunks as the counter in a nonce can distinguish.
            .filter(|total| total.div_ceil(crate::CHUNK as u64) <= u64::from(u32::MAX))
            .ok_or(ContainerError::FileSet("the files are larger than 4 PiB"))?;
        Ok(Self { files, total })
    }

    /// The files, in the order of their bytes.
    pub fn files(&self) -> &[FileEntry] {
        &self.files
    }

    /// Bytes of all files.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Digest of the file set, scheme `sha256-manifest`: SHA-256 over one line `name ‖ 0x00 ‖ sha256-hex ‖ 0x0a` a
    /// file, lines sorted by name. A file added, removed, renamed or changed changes it.
    pub fn digest(&self) -> [u8; 32] {
        let mut lines: Vec<_> = self
            .files
            .iter()
            .map(|file| format!("{}\0{}\n", file.name, hex(&file.sha256)))
            .collect();
        lines.sort_unstable();
        lines
            .iter()
            .fold(Sha256::new(), Digest::chain_update)
            .finalize()
            .into()
    }

    /// count (2) ‖ for each file: length of its name (2) ‖ name ‖ size (8) ‖ SHA-256 (32); numbers big-endian.
    ///
    /// Fixed fields instead of CBOR, so that only one encoding exists.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // `sorted` bounds both counts.
        let mut bytes = (self.files.len() as u16).to_be_bytes().to_vec();
        for file in &self.files {
            bytes.extend((file.name.len() as u16).to_be_bytes());
            bytes.extend(file.name.as_bytes());
            bytes.extend(file.size.to_be_bytes());
            bytes.extend(file.sha256);
        }
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, ContainerError> {
        let short = ContainerError::HeaderMalformed("the manifest ends within an entry");
        let count = usize::from(u16::from_be_bytes(*take(&mut bytes).ok_or(short.clone())?));
        if count > MAX_FILES {
            return Err(ContainerError::FileSet("a model has 1 to 1024 files"));
        }
        let mut files = Vec::with_capacity(count);
        for _ in 0..count {
            let length = usize::from(u16::from_be_bytes(*take(&mut bytes).ok_or(short.clone())?));
            if length > NAME_MAX {
                return Err(ContainerError::BadPath(FileNameError::Length));
            }
            let (name, rest) = bytes.split_at_checked(length).ok_or(short.clone())?;
            bytes = rest;
            let name = std::str::from_utf8(name)
                .map_err(|_| ContainerError::BadPath(FileNameError::Encoding))?
                .to_owned();
            let size = u64::from_be_bytes(*take(&mut bytes).ok_or(short.clone())?);
            let sha256 = *take(&mut bytes).ok_or(short.clone())?;
            files.push(FileEntry { name, size, sha256 });
        }
        if !bytes.is_empty() {
            return Err(ContainerError::HeaderMalformed(
                "bytes follow the manifest's last entry",
            ));
        }
        Self::sorted(files)
    }
}

fn order(file: &FileEntry) -> (u64, &str) {
    (file.size, &file.name)
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

/// Accepts a name that stays below the folder on every system, and occupies one line of the digest.
pub(crate) fn check_name(name: &str) -> Result<(), FileNameError> {
    if !(1..=NAME_MAX).contains(&name.len()) {
        return Err(FileNameError::Length);
    }
    if name.chars().any(|sign| sign.is_control() || sign == '\\') {
        return Err(FileNameError::Character);
    }
    match name
        .split('/')
        .any(|part| part.is_empty() || part == "." || part == "..")
    {
        true => Err(FileNameError::Part),
        false => Ok(()),
    }
}
