//! Batches of input lines.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

/// Maximum bytes of a batch's lines, well below the limit of one message of a channel.
pub(super) const BATCH_BYTES: usize = 384 << 10;

/// Texts with the numbers of their rows; `numbers` and `texts` have the same length.
#[derive(Default)]
pub(crate) struct LineBatch {
    pub(crate) numbers: Vec<usize>,
    pub(crate) texts: Vec<String>,
}

/// Reads batches of up to `size` lines and [`BATCH_BYTES`] bytes. A longer line gets its own batch. Skips empty lines, which keep
/// their numbers. Removes a byte order mark, which editors write, from the first line. `count` becomes the
/// number of lines that were read.
pub(super) fn read_batches(
    input: impl BufRead,
    size: u16,
    count: Arc<AtomicUsize>,
) -> impl Iterator<Item = Result<LineBatch>> {
    let lines = input
        .lines()
        .enumerate()
        .inspect(move |(number, _)| count.store(number + 1, Ordering::Relaxed))
        .map(|(number, line)| line.map(|line| (number, strip_bom(number, line))))
        .filter(|line| !line.as_ref().is_ok_and(|(_, line)| line.trim().is_empty()))
        .map(|line| line.context("standard input is not UTF-8 text"));
    make_batches(lines, size)
}

/// Combines texts with their numbers into batches of up to `size` texts and [`BATCH_BYTES`] bytes. A longer text gets its own batch.
pub(crate) fn make_batches(
    lines: impl Iterator<Item = Result<(usize, String)>>,
    size: u16,
) -> impl Iterator<Item = Result<LineBatch>> {
    let mut lines = lines.peekable();
    std::iter::from_fn(move || {
        let (mut batch, mut bytes) = (LineBatch::default(), 0);
        while batch.numbers.len() < usize::from(size) {
            let fits = |line: &Result<(usize, String)>| match line {
                Ok((_, line)) => bytes == 0 || bytes + line.len() <= BATCH_BYTES,
                Err(_) => true,
            };
            match lines.next_if(fits) {
                Some(Ok((number, line))) => {
                    bytes += line.len();
                    batch.numbers.push(number);
                    batch.texts.push(line);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        (!batch.numbers.is_empty()).then_some(Ok(batch))
    })
}

fn strip_bom(number: usize, mut line: String) -> String {
    if number == 0 && intake::strip_bom(&line).len() < line.len() {
        line.remove(0);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_by_lines_and_by_bytes() {
        let long = "x".repeat(BATCH_BYTES / 2);
        let input = format!("a\n\nb\nc\n{long}\n{long}\n{long}{long}{long}\nd\n");
        let count = Arc::new(AtomicUsize::new(0));
        let numbers =
            read_batches(input.as_bytes(), 2, Arc::clone(&count)).map(|batch| match batch {
                Ok(batch) => batch.numbers,
                Err(error) => panic!("{error}"),
            });
        let expected = [vec![0, 2], vec![3, 4], vec![5], vec![6], vec![7]];
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
        assert_eq!(count.load(Ordering::Relaxed), 8);
        let broken = read_batches(&b"a\n\xff\n"[..], 8, count).next();
        assert!(broken.is_some_and(|batch| batch.is_err()));
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_text() {
        for (input, expected) in [
            ("\u{feff}a\n\u{feff}b\n", vec!["a", "\u{feff}b"]),
            ("\u{feff}\na\n", vec!["a"]),
            ("\u{feff}", vec![]),
        ] {
            let texts =
                read_batches(input.as_bytes(), 8, Arc::default()).flat_map(|batch| match batch {
                    Ok(batch) => batch.texts,
                    Err(error) => panic!("{error}"),
                });
            assert_eq!(texts.collect::<Vec<_>>(), expected);
        }
    }
}
