//! Output of `clearseal embed`: rows, receipts, proofs, progress and the exit status.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use clearseal_client::{Embeddings, Error};
use protocol::items::prove;

use super::output::{Output, Row};
use super::progress::{Progress, input_size};
use crate::args::EmbedArgs;
use crate::failure::describe;
use crate::index::Identity;
use crate::notice::notice;

/// Effect of an empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EmptyLines {
    /// The line has no row.
    Omit,
    /// The line has a row with an empty text and no vector: null in JSON lines and Parquet, empty cells in CSV, NaN in npy.
    Skip,
    /// The line is treated like one that the service refuses.
    Refuse,
}

/// Destination of rows, receipts, proofs and progress.
pub(crate) struct Sink {
    out: Output,
    receipts: Option<BufWriter<File>>,
    proofs: Option<BufWriter<File>>,
    /// The statements that the evidence of all rows must make, where the rows are of one index.
    identity: Option<Identity>,
    progress: Progress,
    /// Number of lines that the service refused.
    refused_lines: u64,
    on_empty: EmptyLines,
    /// Number of lines that were read, with the empty ones.
    lines: Arc<AtomicUsize>,
    /// Number of the next line. Lines between it and the next one with a text are empty.
    next: usize,
    /// Number of empty lines with a row.
    skipped_lines: u64,
    /// Whether the user was told that the model has prompts.
    is_told_of_prompts: bool,
}

/// Exit status if the service refused some lines; all others are written.
const LINES_REFUSED: u8 = 3;

impl Sink {
    pub(super) fn new(args: &EmbedArgs, dimension: usize) -> Result<Self> {
        // Created first: an invalid argument must not replace the files of an earlier run.
        let out = Output::new(args, dimension)?;
        Ok(Self {
            receipts: args.receipts.as_deref().map(create_file).transpose()?,
            proofs: args.proofs.as_deref().map(create_file).transpose()?,
            out,
            identity: None,
            progress: Progress::new(input_size()),
            refused_lines: 0,
            on_empty: args.empty,
            lines: Arc::default(),
            next: 0,
            skipped_lines: 0,
            is_told_of_prompts: false,
        })
    }

    /// Appends rows and proofs of one index to files. Rows of another identity than `identity` end the run before they are written.
    pub(crate) fn append(vectors: File, proofs: File, identity: Identity) -> Self {
        Self {
            out: Output::append(vectors, identity.dimension),
            receipts: None,
            proofs: Some(BufWriter::new(proofs)),
            identity: Some(identity),
            progress: Progress::new(None),
            refused_lines: 0,
            on_empty: EmptyLines::Omit,
            lines: Arc::default(),
            next: 0,
            skipped_lines: 0,
            is_told_of_prompts: false,
        }
    }

    /// Counts the lines that a reader has read.
    pub(super) fn line_counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.lines)
    }

    /// Handles the empty lines before line `number`.
    fn advance_to(&mut self, number: usize) -> Result<()> {
        let empty = match self.on_empty {
            EmptyLines::Omit => 0..0,
            EmptyLines::Skip | EmptyLines::Refuse => self.next..number,
        };
        for number in empty {
            match self.on_empty {
                EmptyLines::Omit => {}
                EmptyLines::Skip => {
                    self.skipped_lines += 1;
                    self.out.write(&Row {
                        index: number,
                        text: "",
                        tokens: 0,
                        truncated: false,
                        embedding: None,
                    })?;
                }
                EmptyLines::Refuse => self.leave_out(number, "the line is empty")?,
            }
        }
        Ok(())
    }

    /// Writes the rows of one answer, receipts and proofs first: without them, a published row could never be proved.
    pub(super) fn write(
        &mut self,
        numbers: &[usize],
        texts: &[String],
        embedded: &Embeddings,
    ) -> Result<()> {
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
            let (evidence, proofs) = prove(&bundle.context("the answer has no receipt")?)?;
            if let Some(identity) = &mut self.identity {
                let dimension = embedded.items.first().map_or(0, |item| item.vector.len());
                identity.check_answer(&evidence, dimension)?;
            }
            crate::vector::write_proofs(file, &evidence, &proofs)?;
            file.flush().context("cannot write the proofs")?;
        }
        for ((index, text), item) in numbers.iter().zip(texts).zip(&embedded.items) {
            self.advance_to(*index)?;
            self.next = index + 1;
            self.progress.count(text.len(), item.tokens, item.truncated);
            self.out.write(&Row {
                index: *index,
                text,
                tokens: item.tokens,
                truncated: item.truncated,
                embedding: Some(&item.vector),
            })?;
        }
        self.out.flush()?;
        let names = &embedded.prompts_available;
        if !names.is_empty() && !std::mem::replace(&mut self.is_told_of_prompts, true) {
            notice(&format!(
                "the model has prompts ({}), and none was read before these lines; vectors with and without one are not comparable",
                names.join(", ")
            ));
        }
        self.progress.show();
        Ok(())
    }

    /// Counts and reports lines that the service refused.
    ///
    /// # Errors
    /// The rows have no numbers. A missing row would then shift all later ones without a trace.
    pub(super) fn report_refused(&mut self, numbers: &[usize], error: &Error) -> Result<()> {
        for number in numbers {
            self.advance_to(*number)?;
            self.next = number + 1;
            self.leave_out(*number, &describe(error).to_string())?;
        }
        Ok(())
    }

    fn leave_out(&mut self, number: usize, reason: &str) -> Result<()> {
        if !self.out.numbers_rows() {
            bail!(
                "index {number} is refused: {reason}. Without `index` among the fields, no line can be left out"
            );
        }
        self.refused_lines += 1;
        notice(&format!("index {number} is left out: {reason}"));
        Ok(())
    }

    /// Handles the empty lines at the end of the input, and returns the exit status.
    pub(super) fn end(&mut self) -> Result<ExitCode> {
        self.advance_to(self.lines.load(Ordering::Relaxed))?;
        Ok(match self.refused_lines {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(LINES_REFUSED),
        })
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.out.finish()?;
        self.progress.end();
        match self.skipped_lines {
            0 => {}
            1 => notice("1 line is empty; its row has no vector"),
            lines => notice(&format!(
                "{lines} lines are empty; their rows have no vectors"
            )),
        }
        match self.refused_lines {
            0 => {}
            1 => notice("1 line was refused and has no row"),
            lines => notice(&format!("{lines} lines were refused and have no rows")),
        }
        Ok(())
    }
}

/// Creates a file that only the user can read: a proof contains the salt of its text, which allows guesses of the text to be tested.
fn create_file(path: &Path) -> Result<BufWriter<File>> {
    let mut options = crate::private::options();
    let file = options.write(true).create(true).truncate(true).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}
