//! One line a step: what is being done, for how long, and how it ended.

use crate::servers::{Signals, stop};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a line on a terminal is redrawn.
const REDRAW: Duration = Duration::from_millis(120);
/// How often a log without a terminal hears that a step goes on.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Lines of a failed command that are shown; the rest is in its log.
pub(crate) const SHOWN_LINES: usize = 30;

/// Numbered steps on standard output.
pub(crate) struct Steps<'a> {
    signals: &'a Signals,
    total: usize,
    done: usize,
    terminal: bool,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(total: usize, signals: &'a Signals) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self {
            signals,
            total,
            done: 0,
            terminal,
        }
    }

    /// Does something quick, or something that shows its own progress; prints what it returns.
    pub(crate) fn quick(
        &mut self,
        title: &str,
        work: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let begun = Instant::now();
        self.draw(title, "");
        let outcome = work().inspect_err(|_| self.end(title, "failed", begun))?;
        self.end(title, &outcome, begun);
        Ok(())
    }

    /// Runs a command whose output goes to `log`, with its last line and the time shown meanwhile.
    pub(crate) fn watch(&mut self, title: &str, command: &mut Command, log: &Path) -> Result<()> {
        let started = Started::new(command, log)?;
        self.join(title, started)
    }

    /// Waits for a command that was started before, in the same way.
    pub(crate) fn join(&mut self, title: &str, mut started: Started) -> Result<()> {
        let begun = started.begun;
        let mut told = Instant::now();
        let status = loop {
            if let Some(status) = started.child.try_wait()? {
                break status;
            }
            let last = started.output.lock().map(|output| output.last.clone());
            let last = last.unwrap_or_default();
            if self.terminal {
                self.draw(title, &format!("{}  {last}", elapsed(begun)));
            } else if told.elapsed() > HEARTBEAT {
                told = Instant::now();
                println!("      {title}: {}  {last}", elapsed(begun));
            }
            if self.signals.came_within(REDRAW) {
                drop(started);
                self.end(title, "stopped", begun);
                bail!("stopped by a signal; the next run goes on where this one was");
            }
        };
        let Started {
            shown,
            readers,
            log,
            ..
        } = &mut started;
        for reader in readers.drain(..) {
            if reader.join().is_err() {
                bail!("the output of `{shown}` cannot be read");
            }
        }
        if !status.success() {
            self.end(title, "failed", begun);
            bail!(
                "`{shown}` failed ({status}). Its last lines, all are in {}:\n\n{}",
                log.display(),
                tail(log, SHOWN_LINES)
            );
        }
        self.end(title, "done", begun);
        Ok(())
    }

    fn draw(&self, title: &str, state: &str) {
        if self.terminal {
            let line: String = format!("[{}/{}] {title}  {state}", self.done + 1, self.total)
                .chars()
                .filter(|character| !character.is_control())
                .take(width())
                .collect();
            print!("\r\x1b[2K{line}");
            flush();
        }
    }

    fn end(&mut self, title: &str, outcome: &str, begun: Instant) {
        self.done += 1;
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        let time = elapsed(begun);
        println!(
            "{clear}[{}/{}] {title}: {outcome}  ({time})",
            self.done, self.total
        );
        flush();
    }
}

/// A running command whose output goes to a log. Dropping it stops the command.
pub(crate) struct Started {
    begun: Instant,
    shown: String,
    child: Child,
    output: Arc<Mutex<Output>>,
    readers: Vec<JoinHandle<()>>,
    log: PathBuf,
}

impl Started {
    pub(crate) fn new(command: &mut Command, log: &Path) -> Result<Self> {
        let shown = crate::process::describe(command);
        let output = Arc::new(Mutex::new(Output::new(log)?));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{shown}`"))?;
        let pipes = [
            child.stdout.take().map(|pipe| follow(pipe, &output)),
            child.stderr.take().map(|pipe| follow(pipe, &output)),
        ];
        Ok(Self {
            begun: Instant::now(),
            shown,
            child,
            output,
            readers: pipes.into_iter().flatten().collect(),
            log: log.to_owned(),
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Of a command that has ended there is nothing to stop, and its end was judged.
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(stop(&self.child));
            drop(self.child.wait());
        }
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// An error where a process has ended by itself, with the last lines of its log.
pub(crate) fn alive(name: &str, child: &mut Child, log: &Path) -> Result<()> {
    match child.try_wait()? {
        None => Ok(()),
        Some(status) => bail!(
            "{name} ended by itself ({status}); its last lines, all are in {}:\n\n{}",
            log.display(),
            tail(log, SHOWN_LINES)
        ),
    }
}

/// Time since `begun`, for a person.
pub(crate) fn elapsed(begun: Instant) -> String {
    let time = begun.elapsed();
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..100 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// Output of a command: all of it in a file, the last line in memory.
struct Output {
    log: File,
    last: String,
}

impl Output {
    fn new(log: &Path) -> Result<Self> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        Ok(Self {
            log,
            last: String::new(),
        })
    }
}

fn follow(pipe: impl Read + Send + 'static, output: &Arc<Mutex<Output>>) -> JoinHandle<()> {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        // A full disk must not stop the command; its end is told all the same.
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            if let Ok(mut output) = output.lock()
                && output.log.write_all(&line).is_ok()
            {
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() {
                    text.trim().clone_into(&mut output.last);
                }
            }
            line.clear();
        }
    })
}

fn width() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse::<usize>().ok())
        .unwrap_or(80)
        .saturating_sub(1)
}

fn flush() {
    // A closed standard output does not stop the build.
    drop(std::io::stdout().flush());
}
