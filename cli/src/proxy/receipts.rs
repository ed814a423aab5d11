//! Audit bundles on disk: JSON lines, in files of a bounded size.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file that is being written. Full ones are kept beside it, numbered from 1: `receipts.jsonl.1` is the oldest.
pub(super) struct ReceiptFile {
    path: PathBuf,
    limit: u64,
    open: Mutex<Open>,
}

struct Open {
    /// Nothing after a full file was put aside, until the next one is there.
    file: Option<File>,
    /// Bytes of whole lines.
    length: u64,
    /// Number that the file gets when it is full.
    number: u64,
}

impl ReceiptFile {
    /// Appends to `path`, and begins a new file where it would get longer than `limit` bytes.
    pub(super) fn open(path: &Path, limit: u64) -> Result<Self> {
        let file = append(path)?;
        let length = file
            .metadata()
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
        let number = last_number(path)?.saturating_add(1);
        Ok(Self {
            path: path.to_owned(),
            limit,
            open: Mutex::new(Open {
                file: Some(file),
                length,
                number,
            }),
        })
    }

    /// Writes one line. Lines of requests at the same time never mix.
    pub(super) fn write(&self, bundle: &str) -> Result<()> {
        let value: serde_json::Value = serde_json::from_str(bundle)?;
        let line = format!("{value}\n");
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let length = line.len() as u64;
        if open.length > 0 && open.length.saturating_add(length) > self.limit {
            let kept = numbered(&self.path, open.number);
            // A rename would replace a file that somebody put there meanwhile, and receipts are not lost silently.
            std::fs::hard_link(&self.path, &kept)
                .and_then(|()| std::fs::remove_file(&self.path))
                .with_context(|| format!("cannot keep the receipts as {}", kept.display()))?;
            *open = Open {
                file: None,
                length: 0,
                number: open.number.saturating_add(1),
            };
        }
        let Open {
            file,
            length: whole,
            ..
        } = &mut *open;
        let file = match file {
            Some(file) => file,
            None => file.insert(append(&self.path)?),
        };
        if let Err(error) = file.write_all(line.as_bytes()) {
            // Half a line would swallow the next one.
            file.set_len(*whole)
                .context("the last line of the receipts is torn")?;
            return Err(error).context("cannot write the receipts");
        }
        *whole = whole.saturating_add(length);
        Ok(())
    }
}

/// Bundles hold texts and vectors: the file is the user's alone.
fn append(path: &Path) -> Result<File> {
    let mut options = crate::private::options();
    options
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The greatest number of a full file beside `path`; 0 where there is none.
fn last_number(path: &Path) -> Result<u64> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (Some(name), Ok(entries)) = (path.file_name(), std::fs::read_dir(folder)) else {
        bail!("cannot look for older files of {}", path.display());
    };
    let mut last = 0;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let number = entry
            .file_name()
            .to_str()
            .zip(name.to_str())
            .and_then(|(entry, name)| entry.strip_prefix(name)?.strip_prefix('.'))
            .and_then(|number| number.parse().ok());
        last = last.max(number.unwrap_or(0));
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn full_files_are_numbered_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipts.jsonl");
        let line = |number: u32| format!("{{\"n\":{number}}}");
        for start in [0, 5] {
            // Three lines of eight bytes fit.
            let file = ReceiptFile::open(&path, 24).unwrap();
            for number in start..start + 5 {
                file.write(&line(number)).unwrap();
            }
        }
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let kept = [1, 2, 3].map(|number| read(&numbered(&path, number)));
        let all = kept.concat() + &read(&path);
        let expected: String = (0..10).map(|number| line(number) + "\n").collect();
        assert_eq!(all, expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_new_file_that_could_not_be_made_is_made_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipts.jsonl");
        let file = ReceiptFile::open(&path, 8).unwrap();
        file.write("1").unwrap();
        // As after a full file was put aside, and no further one could be opened.
        std::fs::rename(&path, numbered(&path, 1)).unwrap();
        *file.open.lock().unwrap() = Open {
            file: None,
            length: 0,
            number: 2,
        };
        std::fs::create_dir(&path).unwrap();
        assert!(file.write("2").is_err());
        std::fs::remove_dir(&path).unwrap();
        file.write("3").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3\n");
    }

    #[test]
    fn a_file_that_bears_the_next_number_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipts.jsonl");
        let file = ReceiptFile::open(&path, 8).unwrap();
        file.write("1").unwrap();
        std::fs::write(numbered(&path, 1), "another's").unwrap();
        let long = "\"more than fits\"";
        assert!(file.write(long).is_err());
        assert_eq!(
            std::fs::read_to_string(numbered(&path, 1)).unwrap(),
            "another's"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_them() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipts.jsonl");
        ReceiptFile::open(&path, 8).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
