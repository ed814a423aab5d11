//! The implementations that take turns: our engine in this process, others in separate processes.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::{Encoder, FusedEncoder, Precision};

use super::Run;
use super::engine::load;
use crate::peer::{Peer, python, rows, time};
use crate::{record, statistics};

/// Pause between two turns, so that spinning threads of one contender are idle before the next one computes.
const PAUSE: Duration = Duration::from_millis(3);

pub(super) enum Contender {
    Ours(Box<FusedEncoder>),
    Peer(Peer),
    /// Another build of ours: its figures become a separate record.
    Other(Peer),
}

impl Contender {
    pub(super) fn ours(run: &Run, precision: Precision, threads: usize) -> Result<Self> {
        let model = load(run)?;
        let count = NonZeroUsize::new(threads).context("no threads")?;
        let (shape, weights) = model.into_parts()?;
        let encoder = FusedEncoder::new(shape, weights, precision, count)?;
        Ok(Self::Ours(Box::new(encoder)))
    }

    /// Name in records.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ours(encoder) => encoder.name(),
            Self::Peer(peer) | Self::Other(peer) => &peer.hello.name,
        }
    }

    /// Milliseconds of a warm forward pass over `batch`.
    pub(super) fn time(&mut self, batch: &[Vec<u32>]) -> Result<f64> {
        match self {
            Self::Ours(encoder) => time(&**encoder, batch),
            Self::Peer(peer) | Self::Other(peer) => peer.time(batch),
        }
    }

    /// Embeds each sequence.
    pub(super) fn rows(&mut self, batch: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        match self {
            Self::Ours(encoder) => rows(&**encoder, batch),
            Self::Peer(peer) | Self::Other(peer) => peer.rows(batch),
        }
    }
}

/// Milliseconds of each contender's repetitions, with a pause before every turn.
pub(super) fn in_turns_at_rest(
    run: &Run,
    contenders: &mut [Contender],
    batch: &[Vec<u32>],
    repetitions: u64,
) -> Result<Vec<Vec<f64>>> {
    statistics::in_turns(run.warmups(), repetitions, contenders, |contender| {
        std::thread::sleep(PAUSE);
        contender.time(batch)
    })
}

/// Locations of the other implementations' programs.
pub(super) struct Peers {
    target: PathBuf,
    /// Python interpreter of an environment with their packages.
    python: Result<PathBuf>,
}

impl Peers {
    pub(super) fn find() -> Result<Self> {
        let target = target()?;
        std::fs::create_dir_all(target.join("benchmarks"))?;
        let python = python(&target);
        Ok(Self { target, python })
    }

    /// Starts a peer of this `kind` and adds its version to the record. If it is not available, the record states why.
    pub(super) fn start(&self, run: &mut Run, kind: &str, threads: usize) -> Option<Contender> {
        let started = self
            .command(run, kind, threads)
            .and_then(|command| Peer::start(command, &self.log(kind)));
        let subject = format!("peers.{kind}");
        let peer = match run.absent.iter().any(|absent| absent.subject == subject) {
            true => started.ok()?,
            false => run.or_absent(&subject, started)?,
        };
        if !run.peers.iter().any(|known| known.name == peer.hello.name) {
            run.peers.push(record::Peer {
                name: peer.hello.name.clone(),
                version: peer.hello.version.clone(),
            });
        }
        Some(Contender::Peer(peer))
    }

    /// Starts another build of ours, and records its commit.
    pub(super) fn other_build(
        &self,
        run: &Run,
        program: &Path,
        threads: usize,
    ) -> Result<(Contender, String)> {
        let command = Peer::of_ours(program, "fused", &run.options.model, threads);
        let peer = Peer::start(command, &self.log("other"))
            .with_context(|| format!("the other build, {}", program.display()))?;
        let version = peer.hello.version.clone();
        Ok((Contender::Other(peer), version))
    }

    fn log(&self, kind: &str) -> PathBuf {
        self.target.join(format!("benchmarks/{kind}.log"))
    }

    fn command(&self, run: &Run, kind: &str, threads: usize) -> Result<Command> {
        let model = &run.options.model;
        if kind == "candle" {
            let program = std::env::current_exe()?;
            return Ok(Peer::of_ours(&program, kind, model, threads));
        }
        let python = match &self.python {
            Ok(python) => python,
            Err(error) => anyhow::bail!("{error:#}"),
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/peer.py");
        let mut command = Command::new(python);
        command
            .arg(script)
            .arg(kind)
            .arg(model)
            .arg(threads.to_string())
            .arg(self.target.join("benchmarks/graphs"))
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("HF_HUB_OFFLINE", "1")
            .env("TRANSFORMERS_OFFLINE", "1");
        Ok(command)
    }
}

/// Build folder that contains this program.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program
        .ancestors()
        .find(|folder| folder.ends_with("target"));
    Ok(folder.map_or_else(|| PathBuf::from("target"), Path::to_path_buf))
}
