//! A file of whole lines that one process writes.

use super::torn;
use anyhow::{Context, Result, bail};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(super) struct LineFile {
    /// Without symbolic links, so that the lock has one name.
    path: PathBuf,
    limit: u64,
    /// `None` after a full file was put aside, until the next one is there.
    file: Option<File>,
    /// Number that the file gets when it is full.
    number: u64,
    /// Length that is on the disk.
    synced: u64,
    /// Length of the lines that count, where more than these is in the file. Cut off before anything is appended.
    cut: Option<u64>,
    /// `None` for a pipe or a device, which can be neither locked, cut nor numbered.
    lock: Option<File>,
}

/// Outcome of a group of lines.
pub(super) struct Committed {
    /// For each line: whether it is on the disk.
    pub(super) written: Vec<bool>,
    /// Why the last one of those that are not was not written.
    pub(super) failure: Option<anyhow::Error>,
}

impl LineFile {
    /// Opens or makes `path`, alone, and repairs its last line.
    pub(super) fn open(path: &Path, limit: u64, report: &impl Fn(&str)) -> Result<Self> {
        let file = append(path)?;
        let is_regular = file.metadata().map(|file| file.is_file());
        let is_regular = is_regular.with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = Self {
            path: path.to_owned(),
            limit,
            file: Some(file),
            number: 0,
            synced: 0,
            cut: None,
            lock: None,
        };
        if is_regular {
            lines.path = std::fs::canonicalize(path)
                .with_context(|| format!("cannot find {}", path.display()))?;
            lines.lock = Some(lock(&lines.path)?);
            // Opened again: before it held the lock, another process could have put the first one aside.
            lines.file = None;
            lines.number = last_number(&lines.path)?.saturating_add(1);
            lines.file(report)?;
        }
        Ok(lines)
    }

    /// Appends `lines`, and writes them through to the disk with one `fdatasync` a file.
    pub(super) fn commit(&mut self, lines: &[&[u8]], report: &impl Fn(&str)) -> Committed {
        let mut committed = Committed {
            written: Vec::with_capacity(lines.len()),
            failure: None,
        };
        // Index of the first line of the file that is open.
        let mut first = 0;
        for line in lines {
            let mut outcome = Ok(());
            if self.is_full(line) {
                self.settle(&mut committed, first);
                first = committed.written.len();
                outcome = self.put_aside();
            }
            let outcome = outcome.and_then(|()| self.append(line, report));
            committed.written.push(outcome.is_ok());
            committed.failure = outcome.err().or(committed.failure);
        }
        self.settle(&mut committed, first);
        committed
    }

    /// Writes the lines from `first` on through to the disk. They are in the file that is open.
    fn settle(&mut self, committed: &mut Committed, first: usize) {
        let lines = committed.written.get_mut(first..).unwrap_or_default();
        if lines.contains(&true)
            && let Err(error) = self.sync()
        {
            lines.fill(false);
            committed.failure = Some(error);
        }
    }

    fn sync(&mut self) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.lock.is_some()) else {
            return Ok(());
        };
        match file.sync_data().and_then(|()| file.metadata()) {
            Ok(metadata) => self.synced = metadata.len(),
            Err(error) => {
                // Pages that failed once are not tried again by every kernel: these lines count as not written.
                self.cut = Some(self.synced);
                return Err(error).context("the receipts do not get to the disk");
            }
        }
        Ok(())
    }

    fn is_full(&self, line: &[u8]) -> bool {
        let length = self.file.as_ref().and_then(|file| file.metadata().ok());
        let length = length.map_or(0, |metadata| metadata.len());
        let length = self.cut.map_or(length, |cut| cut.min(length));
        self.lock.is_some() && length > 0 && length.saturating_add(line.len() as u64) > self.limit
    }

    fn append(&mut self, line: &[u8], report: &impl Fn(&str)) -> Result<()> {
        self.cut_back()?;
        let is_regular = self.lock.is_some();
        let mut file = self.file(report)?;
        let before = file.metadata().context("cannot read the receipts")?.len();
        if let Err(error) = file.write_all(line) {
            if is_regular {
                self.cut = Some(before);
                // Where this fails too, it is tried again before the next line.
                let _ = self.cut_back();
            }
            return Err(error).context("cannot write the receipts");
        }
        Ok(())
    }

    /// Removes a line that broke off, which would swallow the next one.
    fn cut_back(&mut self) -> Result<()> {
        if let (Some(length), Some(file)) = (self.cut, &self.file) {
            // Never longer than it is: another program may have emptied the file, and zeros are not lines.
            file.metadata()
                .and_then(|now| file.set_len(length.min(now.len())))
                .context("the last line of the receipts is torn")?;
        }
        self.cut = None;
        Ok(())
    }

    /// The open file; a new one where the last was put aside.
    fn file(&mut self, report: &impl Fn(&str)) -> Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = append(&self.path)?;
                if let Some(repaired) = torn::repair(&file, &self.path)? {
                    report(&repaired);
                }
                sync_folder(&self.path)?;
                self.synced = file.metadata().context("cannot read the receipts")?.len();
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// Gives the full file its number. All its lines are on the disk.
    fn put_aside(&mut self) -> Result<()> {
        self.cut_back()?;
        let kept = self.reserve()?;
        match std::fs::rename(&self.path, &kept) {
            Ok(()) => sync_folder(&self.path)?,
            Err(error) => {
                std::fs::remove_file(&kept)
                    .with_context(|| format!("cannot remove {}", kept.display()))?;
                // Another program has moved the file away.
                if error.kind() != ErrorKind::NotFound {
                    return Err(error).with_context(|| {
                        format!("cannot keep the receipts as {}", kept.display())
                    });
                }
            }
        }
        self.file = None;
        self.number = self.number.saturating_add(1);
        Ok(())
    }

    /// Makes an empty file with the next free number. A rename then replaces it, and no file that holds receipts; hard links,
    /// which would do without, do not exist on every file system.
    fn reserve(&mut self) -> Result<PathBuf> {
        loop {
            let kept = numbered(&self.path, self.number);
            let mut options = crate::private::options();
            match options.write(true).create_new(true).open(&kept) {
                Ok(_) => return Ok(kept),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let last = last_number(&self.path)?.max(self.number);
                    self.number = last.checked_add(1).context("no number is free")?;
                }
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("cannot keep the receipts as {}", kept.display())
                    });
                }
            }
        }
    }
}

/// Bundles hold texts and vectors: the file is the user's alone.
fn append(path: &Path) -> Result<File> {
    let mut options = crate::private::options();
    // Devices such as /dev/stdout may not be readable; a file is read to repair it.
    let is_device = std::fs::metadata(path).is_ok_and(|known| !known.is_file());
    options
        .create(true)
        .append(true)
        .read(!is_device)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Held until the process ends, however it ends. The lock has a separate file, because the receipts' file is renamed when it is
/// full.
fn lock(path: &Path) -> Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let mut options = crate::private::options();
    let file = options.create(true).append(true).open(&name);
    let name = Path::new(&name).display();
    let file = file.with_context(|| format!("cannot write {name}"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another process writes to {}; give each proxy its own --receipts FILE",
            path.display()
        ),
        Err(TryLockError::Error(error)) => Err(error)
            .with_context(|| format!("cannot lock {name}; choose a file system that has locks")),
    }
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The folder of a path that has no symbolic links in it.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Writes names of files through to the disk.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    let folder = folder(path);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("cannot write {}", folder.display()))
}

/// The greatest number of a full file of `path`; 0 where there is none.
fn last_number(path: &Path) -> Result<u64> {
    let folder = folder(path);
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

    fn open(path: &Path, limit: u64) -> LineFile {
        LineFile::open(path, limit, &|_: &str| ()).unwrap()
    }

    fn write(file: &mut LineFile, line: &str) -> bool {
        let committed = file.commit(&[format!("{line}\n").as_bytes()], &|_: &str| ());
        committed.written == [true]
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("receipts.jsonl");
        (folder, path)
    }

    #[test]
    fn full_files_are_numbered_and_none_is_lost() {
        let (folder, path) = place();
        let line = |number: u32| format!("{{\"n\":{number}}}");
        for start in [0, 5] {
            // Three lines of eight bytes fit.
            let mut file = open(&path, 24);
            for number in start..start + 5 {
                assert!(write(&mut file, &line(number)));
            }
        }
        let kept = [1, 2, 3].map(|number| read(&numbered(&path, number)));
        let all = kept.concat() + &read(&path);
        let expected: String = (0..10).map(|number| line(number) + "\n").collect();
        assert_eq!(all, expected);
        // The lock, too.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_group_of_lines_goes_on_in_the_next_file() {
        let (_folder, path) = place();
        let lines: Vec<String> = (0..10)
            .map(|number| format!("{{\"n\":{number}}}\n"))
            .collect();
        let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let committed = open(&path, 24).commit(&bytes, &|_: &str| ());
        assert_eq!(committed.written, [true; 10]);
        let kept = [1, 2, 3].map(|number| read(&numbered(&path, number)));
        assert_eq!(kept.concat() + &read(&path), lines.concat());
    }

    #[test]
    fn a_new_file_that_could_not_be_made_is_made_later() {
        let (_folder, path) = place();
        let mut file = open(&path, 8);
        assert!(write(&mut file, "1"));
        // As after a full file was put aside, and no further one could be opened.
        std::fs::rename(&path, numbered(&path, 1)).unwrap();
        file.file = None;
        std::fs::create_dir(&path).unwrap();
        assert!(!write(&mut file, "2"));
        std::fs::remove_dir(&path).unwrap();
        assert!(write(&mut file, "3"));
        assert_eq!(read(&path), "3\n");
    }

    #[test]
    fn a_file_that_bears_the_next_number_is_not_replaced() {
        let (_folder, path) = place();
        let mut file = open(&path, 8);
        assert!(write(&mut file, "1"));
        std::fs::write(numbered(&path, 1), "another's").unwrap();
        assert!(write(&mut file, "\"more than fits\""));
        assert_eq!(read(&numbered(&path, 1)), "another's");
        assert_eq!(read(&numbered(&path, 2)), "1\n");
        assert_eq!(read(&path), "\"more than fits\"\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_again_when_it_is_full() {
        let (folder, path) = place();
        let mut file = open(&path, 8);
        assert!(write(&mut file, "1"));
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        assert!(write(&mut file, "\"more than fits\""));
        assert_eq!(read(&path), "\"more than fits\"\n");
        assert!(!numbered(&path, 1).exists());
    }

    #[test]
    fn a_file_that_was_emptied_meanwhile_gets_no_zeros() {
        let (_folder, path) = place();
        let mut file = open(&path, 1000);
        assert!(write(&mut file, "1"));
        file.cut = Some(500);
        std::fs::write(&path, "").unwrap();
        assert!(write(&mut file, "2"));
        assert_eq!(read(&path), "2\n");
    }

    #[test]
    fn a_line_that_broke_off_is_cut_before_the_next_one() {
        let (_folder, path) = place();
        let mut file = open(&path, 1000);
        assert!(write(&mut file, "1"));
        // As after a full disk, where cutting failed at first.
        std::fs::write(&path, "1\n{\"half").unwrap();
        file.cut = Some(2);
        assert!(write(&mut file, "2"));
        assert_eq!(read(&path), "1\n2\n");
    }

    #[test]
    fn a_second_writer_is_refused_also_by_another_name() {
        let (folder, path) = place();
        let first = open(&path, 8);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for name in [&path, &link] {
            let second = LineFile::open(name, 8, &|_: &str| ()).err().unwrap();
            assert!(second.to_string().contains("another process"), "{second}");
        }
        drop(first);
        let mut later = open(&link, 8);
        assert!(write(&mut later, "1") && write(&mut later, "\"more than fits\""));
        // The file behind the link was put aside, and the link leads to the next one.
        assert_eq!(read(&numbered(&path, 1)), "1\n");
        assert_eq!(read(&link), "\"more than fits\"\n");
    }

    #[test]
    fn a_full_device_is_an_error_for_each_line() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            forge::tell_skipped("/dev/full does not exist here");
            return;
        }
        let mut file = open(full, 8);
        for _ in 0..2 {
            let committed = file.commit(&[b"1\n", b"2\n"], &|_: &str| ());
            assert_eq!(committed.written, [false, false]);
            assert!(committed.failure.is_some());
        }
        assert!(!Path::new("/dev/full.lock").exists());
    }

    #[test]
    fn a_pipe_gets_lines_and_has_no_lock() {
        use std::io::Read;
        use std::os::fd::AsRawFd;

        let (mut read, write) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", write.as_raw_fd()));
        if !path.exists() {
            forge::tell_skipped("/proc does not exist here");
            return;
        }
        let mut file = open(&path, 1);
        for line in [&b"1\n"[..], b"2\n"] {
            assert_eq!(file.commit(&[line], &|_: &str| ()).written, [true]);
        }
        drop((file, write));
        let mut found = String::new();
        read.read_to_string(&mut found).unwrap();
        assert_eq!(found, "1\n2\n");
    }

    #[test]
    fn only_the_user_may_read_them() {
        use std::os::unix::fs::PermissionsExt;

        let (_folder, path) = place();
        let mut file = open(&path, 8);
        assert!(write(&mut file, "1") && write(&mut file, "\"more than fits\""));
        let lock = path.with_extension("jsonl.lock");
        for path in [&path, &numbered(&path, 1), &lock] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
