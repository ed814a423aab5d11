//! Other implementations as separate processes with a line protocol, which `benchmarks/peers/peer.py` documents.
//!
//! This program speaks it too, so that candle and other builds of ours are driven in the same way.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use enclave_server::model::{Model, pinned};
use engine::{CandleEncoder, Encoder, FusedEncoder, Precision};
use serde::{Deserialize, Serialize};

use crate::machine::{self, Usage};
use crate::statistics::elapsed;

/// The hidden flag that turns this program into a peer.
pub const FLAG: &str = "--peer";

/// First line of a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Name in records.
    pub name: String,
    /// Versions of the implementation.
    pub version: String,
}

#[derive(Serialize)]
struct Texts<'a> {
    texts: &'a [String],
}

#[derive(Serialize, Deserialize)]
struct Question {
    sequences: Vec<Vec<u32>>,
    #[serde(default)]
    rows: bool,
}

/// `{"ms": 1.93}`, `{"rows": [[0.1, ...], ...]}` or `{"sequences": [[101, ...], ...]}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ms(f64),
    Rows(Vec<Vec<f32>>),
    Sequences(Vec<Vec<u32>>),
}

/// A running peer. Dropping it ends it.
pub struct Peer {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// The peer's description of itself.
    pub hello: Hello,
}

impl Peer {
    /// Starts `command` and waits for its first line. Standard error goes to the file `log`.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it answers; includes the last line of its log.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let to = child.stdin.take();
        let mut from = BufReader::new(child.stdout.take().context("the peer has no output")?);
        let mut line = String::new();
        from.read_line(&mut line)?;
        if line.is_empty() {
            let _ = child.wait();
            bail!("{}", last_line(log));
        }
        let hello =
            serde_json::from_str(&line).context("the peer's first line is not a greeting")?;
        Ok(Self {
            child,
            to,
            from,
            hello,
        })
    }

    /// The command that runs this program, or another build of it, as a peer with `engine` on `threads`.
    pub fn of_ours(program: &Path, engine: &str, model: &Path, threads: usize) -> Command {
        let mut command = Command::new(program);
        command
            .args([FLAG, engine, "--threads", &threads.to_string(), "--model"])
            .arg(model)
            // Candle's number of threads.
            .env("RAYON_NUM_THREADS", threads.to_string());
        command
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resources that its process has used so far; `None` if the kernel does not report them.
    pub fn usage(&self) -> Option<Usage> {
        machine::usage(self.child.id())
    }

    /// Measures a warm forward pass over `sequences`; milliseconds, as timed by the peer itself.
    ///
    /// # Errors
    /// If the peer ended.
    pub fn time(&mut self, sequences: &[Vec<u32>]) -> Result<f64> {
        match self.embed(sequences, false)? {
            Answer::Ms(time) => Ok(time),
            _ => bail!("the peer sent no time"),
        }
    }

    /// Returns the embeddings of `sequences`.
    ///
    /// # Errors
    /// If the peer ended.
    pub fn rows(&mut self, sequences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        match self.embed(sequences, true)? {
            Answer::Rows(rows) => Ok(rows),
            _ => bail!("the peer sent no embeddings"),
        }
    }

    /// Tokenizes `texts` with the peer's tokenizer, truncated to the model's length.
    ///
    /// # Errors
    /// If the peer has no tokenizer, or ended.
    pub fn word_pieces(&mut self, texts: &[String]) -> Result<Vec<Vec<u32>>> {
        match self.ask(&Texts { texts })? {
            Answer::Sequences(sequences) => Ok(sequences),
            _ => bail!("the peer sent no tokens"),
        }
    }

    fn embed(&mut self, sequences: &[Vec<u32>], rows: bool) -> Result<Answer> {
        self.ask(&Question {
            sequences: sequences.to_vec(),
            rows,
        })
    }

    fn ask(&mut self, question: &impl Serialize) -> Result<Answer> {
        let mut line = serde_json::to_string(question)?;
        line.push('\n');
        let to = self.to.as_mut().context("the peer is gone")?;
        to.write_all(line.as_bytes())?;
        to.flush()?;
        line.clear();
        self.from.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the peer ended");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Closing its input asks the peer to end.
        self.to = None;
        let _ = self.child.wait();
    }
}

/// Times the second of two forward passes over `sequences`, in milliseconds. The first loads the weights into the caches and
/// raises the processor's clock.
///
/// # Errors
/// If `sequences` is empty, or the encoder refuses it.
pub fn time(encoder: &dyn Encoder, sequences: &[Vec<u32>]) -> Result<f64> {
    ensure!(!sequences.is_empty(), "an empty batch");
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    std::hint::black_box(encoder.encode(&sequences)?);
    Ok(elapsed(|| encoder.encode(&sequences))?)
}

/// Embeds each of `sequences`.
///
/// # Errors
/// If `sequences` is empty, or the encoder refuses it.
pub fn rows(encoder: &dyn Encoder, sequences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
    ensure!(!sequences.is_empty(), "an empty batch");
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let rows = encoder.encode(&sequences)?;
    Ok(rows
        .chunks(encoder.dimension())
        .map(<[f32]>::to_vec)
        .collect())
}

/// Returns the last non-empty line of a log.
pub(crate) fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.unwrap_or("the log is empty").to_owned()
}

/// Serves as a peer until the input ends.
///
/// # Errors
/// If the model is missing, or `engine` is neither `candle` nor `fused`.
pub fn serve(
    engine: &str,
    model: &Path,
    threads: NonZeroUsize,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<()> {
    let model = Model::load(model, &pinned::all_minilm_l6_v2()?.files)?;
    let (shape, weights) = model.into_parts()?;
    let (encoder, version): (Box<dyn Encoder>, _) = match engine {
        "candle" => {
            let version = "candle-transformers 0.11, its BertModel as it is".to_owned();
            (Box::new(CandleEncoder::new(shape, weights)?), version)
        }
        "fused" => (
            Box::new(FusedEncoder::new(shape, weights, Precision::F32, threads)?),
            machine::build(),
        ),
        other => bail!("there is no engine `{other}`"),
    };
    let name = match engine {
        "fused" => encoder.name(),
        other => other,
    };
    let mut say = |value: String| -> Result<()> {
        writeln!(output, "{value}")?;
        Ok(output.flush()?)
    };
    say(serde_json::to_string(&Hello {
        name: name.to_owned(),
        version,
    })?)?;
    for line in input.lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let answer = if question.rows {
            Answer::Rows(rows(&*encoder, &question.sequences)?)
        } else {
            Answer::Ms(time(&*encoder, &question.sequences)?)
        };
        say(serde_json::to_string(&answer)?)?;
    }
    Ok(())
}

/// Returns the virtual environment of the Python peers, creating it if it is missing.
///
/// # Errors
/// If it cannot be created.
pub fn python(target: &Path) -> Result<PathBuf> {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)?;
    let folder = target.join("benchmarks/peers");
    let (python, stamp) = (folder.join("bin/python3"), folder.join("requirements.txt"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    eprintln!(
        "note: making the peers' virtual environment in {}",
        folder.display()
    );
    std::fs::create_dir_all(&folder)?;
    let log = target.join("benchmarks/peers.log");
    run(
        Command::new("python3").args(["-m", "venv"]).arg(&folder),
        &log,
    )?;
    run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&requirements),
        &log,
    )?;
    std::fs::write(stamp, wanted)?;
    Ok(python)
}

fn run(command: &mut Command, log: &Path) -> Result<()> {
    let file = std::fs::File::create(log)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("there is no {}", command.get_program().display()))?;
    ensure!(status.success(), "{}", last_line(log));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_thing() {
        let line = |answer: &str| serde_json::from_str::<Answer>(answer);
        assert!(matches!(line(r#"{"ms": 1.93}"#), Ok(Answer::Ms(ms)) if ms == 1.93));
        assert!(
            matches!(line(r#"{"rows": [[0.5, -1]]}"#), Ok(Answer::Rows(rows)) if rows == [[0.5, -1.0]])
        );
        assert!(
            matches!(line(r#"{"sequences": [[101, 102]]}"#), Ok(Answer::Sequences(ids)) if ids == [[101, 102]])
        );
        for neither in ["{}", r#"{"ms": null}"#, r#"{"ms": 1, "rows": []}"#] {
            assert!(line(neither).is_err(), "{neither}");
        }
    }
}
