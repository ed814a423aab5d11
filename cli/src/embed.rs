//! `clearseal embed`: lines in, vectors out, each batch through a verified and sealed channel.

mod bulk;
mod output;

use crate::args::EmbedArgs;
use crate::{follow, render, shown};
use anyhow::{Context, Result, anyhow, bail};
use clearseal_client::{Client, Embeddings, Error, State, blocking};
use output::{Output, Row};
use std::fs::File;
use std::io::{BufRead, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Reads standard input to its end, batch by batch.
pub(crate) fn embed(args: &EmbedArgs) -> Result<ExitCode> {
    let client = Client::builder(&args.url)
        .accept_simulated(args.accept_simulated)
        .candidates(args.candidates.into());
    let mut source = args.policy.source()?;
    let client = match &mut source {
        Some(source) => {
            let first = blocking::Client::load(source);
            client.policy(first.map_err(|error| follow::describe(&error))?)
        }
        None => client,
    };
    let client = client.build().map_err(|error| said(&error))?;
    let client = blocking::Client::new(client).map_err(|error| said(&error))?;
    if let Some(source) = source {
        let following = client.follow(source, follow::tell);
        following.map_err(|error| said(&error))?;
    }
    let session = match client.connect() {
        Ok(session) => session,
        Err(error) => return refused(error),
    };
    note_simulation(&client);
    let dimension = usize::try_from(session.manifest().model.dimension)?;
    let mut sink = Sink::new(args, dimension)?;
    let ended = match args.bulk {
        true => bulk::embed(&client, args.batch, &mut sink),
        false => one_by_one(&client, args.batch, &mut sink),
    };
    // What was embedded before a failure is kept, in whole rows.
    let kept = sink.finish();
    let code = ended?;
    kept.map(|()| code)
}

fn one_by_one(client: &blocking::Client, size: u16, sink: &mut Sink) -> Result<ExitCode> {
    for batch in batches(std::io::stdin().lock(), size) {
        let (numbers, texts) = batch?;
        // The service does not name the line that it refuses: halves find it.
        let mut parts = vec![(&numbers[..], &texts[..])];
        while let Some((numbers, texts)) = parts.pop() {
            match patiently(|| embed_part(client, texts)) {
                Ok(embedded) => sink.take(numbers, texts, &embedded)?,
                Err(error) if !error.is_about_input() => return refused(error),
                Err(error) if texts.len() <= 1 => sink.leave_out(numbers, &error),
                Err(_) => {
                    let middle = texts.len() / 2;
                    let ((n, numbers), (t, texts)) =
                        (numbers.split_at(middle), texts.split_at(middle));
                    parts.extend([(numbers, texts), (n, t)]);
                }
            }
        }
    }
    Ok(sink.status())
}

/// Refuses here what a request may have no room for. [`batches`] puts a line that is as long into a batch of its own.
fn embed_part(client: &blocking::Client, texts: &[String]) -> Result<Embeddings, Error> {
    match texts {
        [text] if text.len() > BATCH_BYTES => Err(Error::TextTooLong { bytes: text.len() }),
        _ => client.embed(texts),
    }
}

/// After this long no further attempt at a batch begins. The client itself asks twice each time.
const PATIENCE: Duration = Duration::from_secs(25);
/// Between two attempts; doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Asks again where a moment may help: a job of hours should not end with a balancer that is restarted.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match ask() {
            Err(error) if error.is_transient() && begun.elapsed() + pause < PATIENCE => {
                if pause == FIRST_PAUSE {
                    note("no answer; asking again for up to 25 seconds");
                }
                std::thread::sleep(pause);
            }
            other => return other,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

type Lines = (Vec<usize>, Vec<String>);

/// Bytes of a batch's lines, well below what a channel takes in one message.
const BATCH_BYTES: usize = 384 << 10;

/// Lines with their numbers, `size` at a time, and fewer where they are long. There is nothing to embed in an empty line; the
/// others keep their numbers. A byte order mark, which editors write, is not part of the first text.
fn batches(input: impl BufRead, size: u16) -> impl Iterator<Item = Result<Lines>> {
    let mut lines = input
        .lines()
        .enumerate()
        .map(|(number, line)| line.map(|line| (number, without_mark(number, line))))
        .filter(|line| !line.as_ref().is_ok_and(|(_, line)| line.trim().is_empty()))
        .peekable();
    std::iter::from_fn(move || {
        let (mut batch, mut bytes) = (Lines::default(), 0);
        while batch.0.len() < usize::from(size) {
            let fits = |line: &std::io::Result<(usize, String)>| match line {
                Ok((_, line)) => bytes == 0 || bytes + line.len() <= BATCH_BYTES,
                Err(_) => true,
            };
            match lines.next_if(fits) {
                Some(Ok((number, line))) => {
                    bytes += line.len();
                    batch.0.push(number);
                    batch.1.push(line);
                }
                Some(Err(error)) => {
                    return Some(Err(error).context("standard input is not UTF-8 text"));
                }
                None => break,
            }
        }
        (!batch.0.is_empty()).then_some(Ok(batch))
    })
}

fn without_mark(number: usize, mut line: String) -> String {
    if number == 0 && intake::strip_bom(&line).len() < line.len() {
        line.remove(0);
    }
    line
}

/// Where rows, receipts and progress go.
struct Sink {
    out: Output,
    receipts: Option<BufWriter<File>>,
    proofs: Option<BufWriter<File>>,
    progress: Progress,
    /// Lines that the service refused.
    left_out: u64,
}

/// Exit status where lines were refused; the others are written.
const LINES_LEFT_OUT: u8 = 3;

impl Sink {
    fn new(args: &EmbedArgs, dimension: usize) -> Result<Self> {
        // Before files of an earlier run are replaced.
        let out = Output::new(args, dimension)?;
        Ok(Self {
            receipts: args.receipts.as_deref().map(create).transpose()?,
            proofs: args.proofs.as_deref().map(create).transpose()?,
            out,
            progress: Progress::new(input_size()),
            left_out: 0,
        })
    }

    /// Receipts and proofs first: a row that was published without its own could never be proved.
    fn take(&mut self, numbers: &[usize], texts: &[String], embedded: &Embeddings) -> Result<()> {
        if let Some(file) = &mut self.receipts {
            let bundle = embedded.answer.bundle(false);
            let bundle = bundle.context("the answer has no receipt")?.to_json()?;
            let bundle: serde_json::Value = serde_json::from_str(&bundle)?;
            writeln!(file, "{bundle}")
                .and_then(|()| file.flush())
                .context("cannot write the receipts")?;
        }
        if let Some(file) = &mut self.proofs {
            let bundle = embedded.answer.bundle(true);
            crate::vector::write(file, &bundle.context("the answer has no receipt")?)?;
            file.flush().context("cannot write the proofs")?;
        }
        for ((index, text), item) in numbers.iter().zip(texts).zip(&embedded.items) {
            self.progress.count(text.len(), item.tokens, item.truncated);
            self.out.write(&Row {
                index: *index,
                text,
                tokens: item.tokens,
                truncated: item.truncated,
                embedding: &item.vector,
            })?;
        }
        self.out.flush()?;
        self.progress.show();
        Ok(())
    }

    /// Reports lines that have no row, and why.
    fn leave_out(&mut self, numbers: &[usize], error: &Error) {
        for number in numbers {
            self.left_out += 1;
            let line = format!("index {number} is left out: {}", said(error));
            note(&shown::shown(&line));
        }
    }

    fn status(&self) -> ExitCode {
        match self.left_out {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(LINES_LEFT_OUT),
        }
    }

    fn finish(self) -> Result<()> {
        self.out.finish()?;
        self.progress.end();
        match self.left_out {
            0 => {}
            1 => note("1 line was refused and has no row"),
            lines => note(&format!("{lines} lines were refused and have no rows")),
        }
        Ok(())
    }
}

/// A proof holds the salt of its text, with which guesses of the text can be tried: the file is the user's alone.
fn create(path: &std::path::Path) -> Result<BufWriter<File>> {
    let mut options = crate::private::options();
    let file = options.write(true).create(true).truncate(true).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}

/// Prints why the enclave was refused, with the status that says so; everything else could not be judged.
fn refused(error: Error) -> Result<ExitCode> {
    match error {
        Error::Refused(report) => {
            render::refusal(&report)?;
            Ok(ExitCode::from(1))
        }
        Error::Withdrawn(ref report) => {
            render::refusal(report)?;
            note(&format!("{error} ({}). {}", error.code(), error.remedy()));
            Ok(ExitCode::from(1))
        }
        Error::NoPolicy => bail!(
            "there is no trust policy to judge the enclave by: give --policy FILE, or --accept-simulated to develop against a simulated one"
        ),
        error => Err(said(&error)),
    }
}

/// Message, code and remedy.
pub(crate) fn said(error: &Error) -> anyhow::Error {
    let (code, remedy) = (error.code().to_owned(), error.remedy().to_owned());
    anyhow!("{error} ({code}). {remedy}")
}

fn note_simulation(client: &blocking::Client) {
    if client
        .states()
        .iter()
        .any(|(_, state)| matches!(state, State::Simulated(_)))
    {
        note("SIMULATED: this enclave proves nothing about hardware. Send nothing private.");
    }
}

/// One line a batch on a terminal, nothing in a pipe; and at the end what was cut, wherever standard error goes.
struct Progress {
    shown: bool,
    start: std::time::Instant,
    /// Bytes of the input, where it is a file, and of the lines that are done.
    size: Option<u64>,
    done: u64,
    lines: u64,
    tokens: u64,
    truncated: u64,
}

impl Progress {
    fn new(size: Option<u64>) -> Self {
        Self {
            shown: std::io::stderr().is_terminal(),
            start: std::time::Instant::now(),
            size,
            done: 0,
            lines: 0,
            tokens: 0,
            truncated: 0,
        }
    }

    fn count(&mut self, bytes: usize, tokens: u64, truncated: bool) {
        self.lines += 1;
        // The line and its end.
        self.done = self.done.saturating_add(bytes as u64 + 1);
        self.tokens = self.tokens.saturating_add(tokens);
        self.truncated += u64::from(truncated);
    }

    fn show(&mut self) {
        if self.shown {
            let seconds = self.start.elapsed().as_secs_f64().max(1e-9);
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = self.lines as f64 / seconds;
            let (lines, tokens) = (self.lines, self.tokens);
            let left = match self.size {
                Some(size) if self.done > 0 => time_left(seconds, self.done, size),
                _ => String::new(),
            };
            // Progress is a courtesy: a closed standard error ends it, not the work.
            self.shown = write!(
                std::io::stderr(),
                "\r{lines} lines, {tokens} tokens, {rate:.0} lines a second{left}  "
            )
            .is_ok();
        }
    }

    fn end(&self) {
        if self.shown {
            note("");
        }
        if self.truncated > 0 {
            let (truncated, lines) = (self.truncated, self.lines);
            note(&format!(
                "{truncated} of {lines} lines are longer than the model reads; what comes after its limit is not in their vectors (`truncated`)"
            ));
        }
    }
}

/// Bytes of standard input, where it is a file.
fn input_size() -> Option<u64> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    let metadata = File::from(input).metadata().ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// How much longer it takes at the speed so far, for people.
fn time_left(seconds: f64, done: u64, size: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    let left = seconds * size.saturating_sub(done) as f64 / done as f64;
    match left {
        ..60.0 => format!(", {left:.0} s left"),
        ..3600.0 => format!(", {:.0} min left", left / 60.0),
        _ => format!(", {:.1} h left", left / 3600.0),
    }
}

fn note(text: &str) {
    // Nowhere else to say it where standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::{BATCH_BYTES, batches, patiently, time_left};
    use clearseal_client::Error;

    #[test]
    fn batches_are_cut_by_lines_and_by_bytes() {
        let long = "x".repeat(BATCH_BYTES / 2);
        let input = format!("a\n\nb\nc\n{long}\n{long}\n{long}{long}{long}\nd\n");
        let numbers = batches(input.as_bytes(), 2).map(|batch| match batch {
            Ok((numbers, _)) => numbers,
            Err(error) => panic!("{error}"),
        });
        let expected = [vec![0, 2], vec![3, 4], vec![5], vec![6], vec![7]];
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
        let broken = batches(&b"a\n\xff\n"[..], 8).next();
        assert!(broken.is_some_and(|batch| batch.is_err()));
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_text() {
        for (input, expected) in [
            ("\u{feff}a\n\u{feff}b\n", vec!["a", "\u{feff}b"]),
            ("\u{feff}\na\n", vec!["a"]),
            ("\u{feff}", vec![]),
        ] {
            let texts = batches(input.as_bytes(), 8).flat_map(|batch| match batch {
                Ok((_, texts)) => texts,
                Err(error) => panic!("{error}"),
            });
            assert_eq!(texts.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_busy_service_is_asked_again_and_any_other_refusal_is_final() {
        let refusal = |status| Error::Service {
            status,
            code: String::new(),
            message: String::new(),
            param: None,
        };
        let mut asked = 0;
        let answered = patiently(|| {
            asked += 1;
            if asked < 2 { Err(refusal(429)) } else { Ok(()) }
        });
        assert!(answered.is_ok());
        assert_eq!(asked, 2);
        let mut asked = 0;
        let answered = patiently(|| -> Result<(), Error> {
            asked += 1;
            Err(refusal(400))
        });
        assert!(answered.is_err());
        assert_eq!(asked, 1);
    }

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
