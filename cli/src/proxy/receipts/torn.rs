//! A last line that broke off: a crash, a full disk, a loss of power.

use super::lines::sync_folder;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Longer than any bundle without content. A longer last line is set aside without a look at it.
const MAX_LINE: u64 = 1 << 20;
const BLOCK: usize = 64 << 10;

/// Makes the file end with a whole line. Returns a sentence that says how, where it did not end so.
///
/// An object that lacks only the end of its line gets that. Everything else is moved to `FILE.torn`, because it may be the only
/// trace of an answer.
pub(super) fn repair(mut file: &File, path: &Path) -> Result<Option<String>> {
    let broken = || format!("cannot repair {}", path.display());
    let length = file.metadata().with_context(broken)?.len();
    let start = start_of_last_line(file, length).with_context(broken)?;
    let torn = length.saturating_sub(start);
    if torn == 0 {
        return Ok(None);
    }
    if is_object(file, start, torn).with_context(broken)? {
        file.write_all(b"\n")
            .and_then(|()| file.sync_data())
            .with_context(broken)?;
        return Ok(Some(format!(
            "the last line of {} had no end; it is complete now",
            path.display()
        )));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".torn");
    let mut options = crate::private::options();
    let mut aside = options
        .create(true)
        .append(true)
        .open(&name)
        .with_context(|| format!("cannot write {}", Path::new(&name).display()))?;
    file.seek(SeekFrom::Start(start)).with_context(broken)?;
    std::io::copy(&mut file.take(torn), &mut aside)
        .and_then(|_| aside.write_all(b"\n"))
        .and_then(|()| aside.sync_all())
        .with_context(|| format!("cannot write {}", Path::new(&name).display()))?;
    sync_folder(path)?;
    // In this order: after a crash in between, the piece is in both files, and not in none.
    file.set_len(start)
        .and_then(|()| file.sync_all())
        .with_context(broken)?;
    Ok(Some(format!(
        "the last line of {} broke off after {torn} bytes; they are in {} now",
        path.display(),
        Path::new(&name).display()
    )))
}

/// Offset of the first byte after the last line feed.
fn start_of_last_line(mut file: &File, length: u64) -> std::io::Result<u64> {
    let mut buffer = [0; BLOCK];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let size = usize::try_from(end - start).unwrap_or(BLOCK);
        let block = buffer.get_mut(..size).unwrap_or_default();
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Whether so many bytes from `start` on are one JSON object. The beginning of an object never is.
fn is_object(mut file: &File, start: u64, length: u64) -> std::io::Result<bool> {
    if length > MAX_LINE {
        return Ok(false);
    }
    let mut line = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(length).read_to_end(&mut line)?;
    let value = serde_json::from_slice::<serde_json::Value>(&line);
    Ok(value.is_ok_and(|value| value.is_object()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::lines::LineFile;

    #[test]
    fn a_file_cut_at_any_byte_goes_on_with_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let lines = ["{\"n\":1}\n", "{\"text\":\"a }\\n{\",\"n\":[{},2]}\n"];
        let whole = lines.concat();
        for cut in 0..=whole.len() {
            let path = folder.join(format!("{cut}.jsonl"));
            let torn = folder.join(format!("{cut}.jsonl.torn"));
            std::fs::write(&path, &whole[..cut]).unwrap();
            let printed = std::cell::RefCell::new(Vec::new());
            let report = |text: &str| printed.borrow_mut().push(text.to_owned());
            let mut file = LineFile::open(&path, 1000, &report).unwrap();
            assert_eq!(file.commit(&[b"{\"n\":3}\n"], &report).written, [true]);
            let kept: String = lines
                .iter()
                .scan(0, |end, line| {
                    *end += line.len();
                    // The last byte of a line is its end, which is added where it is all that is missing.
                    (cut + 1 >= *end).then_some(*line)
                })
                .collect();
            let found = std::fs::read_to_string(&path).unwrap();
            assert_eq!(found, format!("{kept}{{\"n\":3}}\n"), "cut at {cut}");
            let left = whole[..cut].strip_prefix(&*kept).unwrap_or_default();
            match left.is_empty() {
                true => assert!(!torn.exists(), "cut at {cut}"),
                false => assert_eq!(
                    std::fs::read_to_string(&torn).unwrap(),
                    format!("{left}\n"),
                    "cut at {cut}"
                ),
            }
            let is_whole = whole[..cut].is_empty() || whole[..cut].ends_with('\n');
            assert_eq!(printed.borrow().is_empty(), is_whole, "cut at {cut}");
        }
    }

    #[test]
    fn zeros_and_long_pieces_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let long = format!("{{\"n\":\"{}\"}}", "x".repeat(2 << 20));
        for (name, piece) in [("zeros", "\0".repeat(5000)), ("long", long)] {
            let path = folder.join(name);
            std::fs::write(&path, format!("{{}}\n{piece}")).unwrap();
            drop(LineFile::open(&path, 1000, &|_: &str| ()).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
            let torn = std::fs::read_to_string(folder.join(format!("{name}.torn"))).unwrap();
            assert_eq!(torn, format!("{piece}\n"));
        }
    }
}
