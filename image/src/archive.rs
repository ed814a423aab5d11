//! Ramdisks: cpio archives in Linux's `newc` form (Documentation/driver-api/early-userspace/buffer-format.rst), with owners and
//! times of zero, entries in order, compressed with gzip without name and time (RFC 1952 §2.3).

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};

/// Files and folders of a ramdisk, by path. Parent folders are created automatically.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    Folder { mode: u32 },
    File { mode: u32, content: Vec<u8> },
}

/// Why an entry cannot be added to an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// Absolute, empty, too long, or contains `.`, `..` or an empty name.
    #[error(
        "ARCHIVE_PATH: `{0}` is not a path inside a ramdisk; write it relative, as in bin/init"
    )]
    Path(String),
    /// Two entries have the same path, or a file has the path of a folder.
    #[error("ARCHIVE_TWICE: `{0}` is in the ramdisk twice; leave one of them out")]
    Twice(String),
    /// Linux reads sizes of 32 bits.
    #[error(
        "ARCHIVE_FILE_SIZE: `{path}` has {bytes} bytes, and a ramdisk's file has at most {FILE_MAX}"
    )]
    FileSize {
        /// Path of the file.
        path: String,
        /// Its size.
        bytes: usize,
    },
    /// The compressor failed, which happens only when memory runs out.
    #[error("ARCHIVE_COMPRESSION: {0}")]
    Compression(String),
}

/// The largest size in eight hexadecimal digits.
pub const FILE_MAX: usize = u32::MAX as usize;
/// Linux refuses longer names (`PATH_MAX`, including the terminating zero).
const PATH_MAX: usize = 4095;
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
/// Permission bits, with set-uid, set-gid and sticky.
const PERMISSIONS: u32 = 0o7777;
/// Linux pads an archive to its own block size; here padding only marks the end.
const BLOCK: usize = 512;

impl Archive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder with the permission bits of `mode`.
    ///
    /// # Errors
    /// [`ArchiveError::Path`], [`ArchiveError::Twice`] if a file has that path.
    pub fn folder(&mut self, path: &str, mode: u32) -> Result<(), ArchiveError> {
        self.parents(path)?;
        let entry = Entry::Folder {
            mode: mode & PERMISSIONS,
        };
        match self.entries.insert(path.to_owned(), entry) {
            Some(Entry::File { .. }) => Err(ArchiveError::Twice(path.to_owned())),
            _ => Ok(()),
        }
    }

    /// Adds a file with the permission bits of `mode`.
    ///
    /// # Errors
    /// [`ArchiveError::Path`], [`ArchiveError::Twice`], [`ArchiveError::FileSize`].
    pub fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) -> Result<(), ArchiveError> {
        if content.len() > FILE_MAX {
            return Err(ArchiveError::FileSize {
                path: path.to_owned(),
                bytes: content.len(),
            });
        }
        self.parents(path)?;
        let entry = Entry::File {
            mode: mode & PERMISSIONS,
            content,
        };
        match self.entries.insert(path.to_owned(), entry) {
            Some(_) => Err(ArchiveError::Twice(path.to_owned())),
            None => Ok(()),
        }
    }

    /// The archive, uncompressed.
    pub fn to_cpio(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, (path, entry)) in (1..).zip(&self.entries) {
            match entry {
                Entry::Folder { mode } => append(&mut out, number, FOLDER | mode, 2, path, &[]),
                Entry::File { mode, content } => {
                    append(&mut out, number, FILE | mode, 1, path, content);
                }
            }
        }
        append(&mut out, 0, 0, 1, "TRAILER!!!", &[]);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
        out
    }

    /// The archive, compressed into a ramdisk.
    ///
    /// # Errors
    /// [`ArchiveError::Compression`].
    pub fn to_ramdisk(&self) -> Result<Vec<u8>, ArchiveError> {
        let failed = |error: std::io::Error| ArchiveError::Compression(error.to_string());
        let mut encoder = GzBuilder::new()
            .mtime(0)
            // Unknown, so that the builder's system does not affect the image.
            .operating_system(255)
            .write(Vec::new(), Compression::best());
        encoder.write_all(&self.to_cpio()).map_err(failed)?;
        encoder.finish().map_err(failed)
    }

    /// Checks the path and creates its parent folders.
    fn parents(&mut self, path: &str) -> Result<(), ArchiveError> {
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        if path.len() > PATH_MAX || !path.split('/').all(plain) || path == "TRAILER!!!" {
            return Err(ArchiveError::Path(path.to_owned()));
        }
        for (at, _) in path.match_indices('/') {
            let Some(above) = path.get(..at) else {
                continue;
            };
            let folder = Entry::Folder { mode: 0o755 };
            let found = self.entries.entry(above.to_owned()).or_insert(folder);
            if matches!(found, Entry::File { .. }) {
                return Err(ArchiveError::Twice(above.to_owned()));
            }
        }
        Ok(())
    }
}

fn append(out: &mut Vec<u8>, inode: u32, mode: u32, links: u32, path: &str, content: &[u8]) {
    // Both conversions succeed: the sizes were checked when the entries were added.
    let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
    let fields = [
        inode, mode, 0, // owner
        0, // group
        links, 0, // time
        size, 0, 0, // device that the archive was made on
        0, 0, // device that the entry names
        name, 0, // checksum, which this form leaves zero
    ];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;

    use super::*;

    #[test]
    fn an_entry_lies_as_linux_reads_it() {
        let mut archive = Archive::new();
        archive.file("a/b", 0o755, b"hello".to_vec()).unwrap();
        let cpio = archive.to_cpio();
        // The name's length is 2, so header and name together are 112 bytes.
        let header: Vec<u8> = cpio[..112].to_vec();
        assert_eq!(&header[..6], b"070701");
        assert_eq!(&header[14..22], b"000041ED");
        assert_eq!(&header[94..102], b"00000002");
        assert_eq!(&header[110..112], b"a\0");
        let file = &cpio[112..];
        assert_eq!(&file[14..22], b"000081ED");
        assert_eq!(&file[54..62], b"00000005");
        assert_eq!(&file[110..116], b"a/b\0\0\0");
        assert_eq!(&file[116..121], b"hello");
        assert_eq!(cpio.len() % BLOCK, 0);
    }

    #[test]
    fn the_order_of_adding_changes_nothing() {
        let files = [("z", "1"), ("a/b", "2"), ("a/a", "3"), ("m", "")];
        let build = |order: &[usize]| {
            let mut archive = Archive::new();
            for &at in order {
                let (path, content) = files[at];
                archive.file(path, 0o644, content.into()).unwrap();
            }
            archive.folder("dev", 0o755).unwrap();
            archive.to_ramdisk().unwrap()
        };
        assert_eq!(build(&[0, 1, 2, 3]), build(&[3, 2, 1, 0]));
    }

    #[test]
    fn gzip_says_nothing_of_the_builder() {
        let mut archive = Archive::new();
        archive.file("init", 0o755, vec![7; 5000]).unwrap();
        let gzip = archive.to_ramdisk().unwrap();
        // RFC 1952 §2.3: no flags, no time, best compression, unknown system.
        assert_eq!(gzip[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255]);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&gzip[..])
            .read_to_end(&mut back)
            .unwrap();
        assert_eq!(back, archive.to_cpio());
    }

    #[test]
    fn what_would_leave_the_ramdisk_is_refused() {
        let mut archive = Archive::new();
        for path in [
            "",
            "/",
            "/etc/x",
            "a//b",
            "../x",
            "a/./b",
            "a/..",
            "x\0y",
            "TRAILER!!!",
        ] {
            let refused = archive.file(path, 0o644, vec![]);
            assert_eq!(refused, Err(ArchiveError::Path(path.to_owned())));
        }
        let long = "a/".repeat(2048) + "b";
        assert!(matches!(
            archive.folder(&long, 0o755),
            Err(ArchiveError::Path(_))
        ));
    }

    #[test]
    fn a_path_has_one_meaning() {
        let mut archive = Archive::new();
        archive.file("a", 0o644, vec![]).unwrap();
        assert_eq!(
            archive.file("a", 0o644, vec![]),
            Err(ArchiveError::Twice("a".to_owned()))
        );
        assert_eq!(
            archive.file("a/b", 0o644, vec![]),
            Err(ArchiveError::Twice("a".to_owned()))
        );
        assert_eq!(
            archive.folder("a", 0o755),
            Err(ArchiveError::Twice("a".to_owned()))
        );
        archive.folder("d", 0o700).unwrap();
        archive.file("d/e", 0o644, vec![]).unwrap();
        assert_eq!(
            archive.file("d", 0o644, vec![]),
            Err(ArchiveError::Twice("d".to_owned()))
        );
    }
}
