//! Progress of `clearseal embed` on standard error.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use crate::notice::notice;

/// Progress of a run: after each batch on a terminal only; at the end a note on truncated lines, in any case.
pub(super) struct Progress {
    is_shown: bool,
    start: Instant,
    /// Bytes of the input, if it is a file.
    size: Option<u64>,
    /// Bytes of the lines that are done.
    done: u64,
    lines: u64,
    tokens: u64,
    truncated: u64,
}

impl Progress {
    pub(super) fn new(size: Option<u64>) -> Self {
        Self {
            is_shown: std::io::stderr().is_terminal(),
            start: Instant::now(),
            size,
            done: 0,
            lines: 0,
            tokens: 0,
            truncated: 0,
        }
    }

    pub(super) fn count(&mut self, bytes: usize, tokens: u64, truncated: bool) {
        self.lines += 1;
        // One more byte for the end of the line.
        self.done = self.done.saturating_add(bytes as u64 + 1);
        self.tokens = self.tokens.saturating_add(tokens);
        self.truncated += u64::from(truncated);
    }

    pub(super) fn show(&mut self) {
        if self.is_shown {
            let seconds = self.start.elapsed().as_secs_f64().max(1e-9);
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = self.lines as f64 / seconds;
            let (lines, tokens) = (self.lines, self.tokens);
            let left = match self.size {
                Some(size) if self.done > 0 => time_left(seconds, self.done, size),
                _ => String::new(),
            };
            // If standard error is closed, stop showing progress and go on with the work.
            self.is_shown = write!(
                std::io::stderr(),
                "\r{lines} lines, {tokens} tokens, {rate:.0} lines a second{left}  "
            )
            .is_ok();
        }
    }

    pub(super) fn end(&self) {
        if self.is_shown {
            notice("");
        }
        if self.truncated > 0 {
            let (truncated, lines) = (self.truncated, self.lines);
            notice(&format!(
                "{truncated} of {lines} lines are longer than the model reads; text beyond its limit is not in their vectors (`truncated`)"
            ));
        }
    }
}

/// Returns the size of standard input in bytes, if it is a file.
pub(super) fn input_size() -> Option<u64> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    let metadata = File::from(input).metadata().ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Estimates the remaining time at the average speed so far, for people.
fn time_left(seconds: f64, done: u64, size: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    let left = seconds * size.saturating_sub(done) as f64 / done as f64;
    match left {
        ..60.0 => format!(", {left:.0} s left"),
        ..3600.0 => format!(", {:.0} min left", left / 60.0),
        _ => format!(", {:.1} h left", left / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::time_left;

    #[test]
    fn time_left_is_in_the_unit_that_people_read() {
        for (seconds, done, size, expected) in [
            (10.0, 100, 400, ", 30 s left"),
            (60.0, 100, 400, ", 3 min left"),
            (3600.0, 100, 350, ", 2.5 h left"),
            (10.0, 100, 50, ", 0 s left"),
        ] {
            assert_eq!(time_left(seconds, done, size), expected);
        }
    }
}
