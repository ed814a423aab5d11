//! Cold starts of the enclave's process as it ships: sealed model, key from a simulated KMS, through the host's process; beside
//! it a plain folder, and what the process needs in memory for each.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use enclave_server::model::pinned;
use tempfile::TempDir;

use super::system::{Server, free_address, programs, ready, scratch};
use super::{Run, text};
use crate::record::Unit;
use crate::statistics::milliseconds;

/// Our stages by the subjects of the published table. `pack` is a part of the load there.
const STAGES: [(&str, &[&str]); 7] = [
    ("stage.launch", &["launch"]),
    ("stage.attestation", &["attestation"]),
    ("stage.key_release", &["key_release"]),
    ("stage.model_fetch", &["fetch"]),
    ("stage.model_decrypt", &["decrypt"]),
    ("stage.tokenizer_setup", &["tokenizer"]),
    ("stage.model_load", &["layout", "pack"]),
];

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let Some(programs) = programs(run, "stage.cold_start_total") else {
        return Ok(());
    };
    let scene = Scene::start(&programs, &run.options.model)?;
    let rounds = if run.options.quick { 2 } else { 10 };
    let mut stages: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let [mut sealed, mut folder, mut observed] = [const { Vec::new() }; 3];
    let [mut sealed_peak, mut folder_peak, mut idle_peak] = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        idle_peak.push(scene.idle()?);
        let start = scene.launch(&scene.sealed())?;
        for (subject, parts) in STAGES {
            let parts = parts.iter().map(|part| start.stages.get(*part));
            let sum = parts.sum::<Option<f64>>();
            let sum = sum.with_context(|| format!("/readyz lacks a part of {subject}"))?;
            stages.entry(subject).or_default().push(sum);
        }
        sealed.push(start.total()?);
        observed.push(start.observed);
        sealed_peak.push(start.peak);
        let start = scene.launch(&scene.folder(&run.options.model))?;
        folder.push(start.total()?);
        folder_peak.push(start.peak);
    }
    let process = ("process", text(SEALED));
    for (subject, sample) in &stages {
        run.times(subject, std::slice::from_ref(&process), sample);
    }
    let ours = |by| [process.clone(), ("clock", text(by))];
    let total = "stage.cold_start_total";
    run.times(total, &ours(OWN), &sealed);
    run.times(total, &ours(WATCHED), &observed);
    let plain = [("process", text(FOLDER)), ("clock", text(OWN))];
    run.times(total, &plain, &folder);
    peaks(run, &sealed_peak, &folder_peak, &idle_peak)
}

const SEALED: &str = "enclave-server, sealed model, key from a simulated KMS";
const FOLDER: &str = "enclave-server, model in a folder";
const IDLE: &str = "enclave-server, waiting for its parent";
const OWN: &str = "the process's own";
const WATCHED: &str = "from outside, spawn to ready";

/// What a start needs in memory above a server without a model, as a multiple of the weights.
fn peaks(run: &mut Run, sealed: &[f64], folder: &[f64], idle: &[f64]) -> Result<()> {
    let weights = std::fs::metadata(run.options.model.join("model.safetensors"))?.len();
    let weights = weights as f64 / 1_048_576.0;
    for (process, sample) in [(SEALED, sealed), (FOLDER, folder), (IDLE, idle)] {
        let process = [("process", text(process)), ("when", text("start"))];
        run.sample("memory.start_peak", &process, Unit::Mebibytes, sample);
        if !std::ptr::eq(sample, idle) {
            let ratios = sample
                .iter()
                .zip(idle)
                .map(|(own, idle)| (own - idle) / weights);
            let ratios: Vec<f64> = ratios.collect();
            run.sample("memory.start_ratio", &process, Unit::Ratio, &ratios);
        }
    }
    Ok(())
}

/// The host: a simulated KMS with its key, the sealed model, and host-proxy.
struct Scene {
    programs: PathBuf,
    arn: String,
    _kms: Server,
    _proxy: Server,
    folder: TempDir,
}

/// One start, up to readiness.
struct Start {
    /// Milliseconds by stage, as `/readyz` says them.
    stages: BTreeMap<String, f64>,
    /// Milliseconds from `spawn` to the answer, in steps of the polling.
    observed: f64,
    /// MiB.
    peak: f64,
}

impl Start {
    fn total(&self) -> Result<f64> {
        let total = self.stages.get("total").copied();
        total.context("/readyz says no total")
    }
}

impl Scene {
    fn start(programs: &Path, model: &Path) -> Result<Self> {
        let folder = scratch()?;
        let within = |name| folder.path().join(name);
        let key = within("key");
        let made = Command::new(programs.join("kms-simulator"))
            .arg("new-key")
            .arg("--out")
            .arg(&key)
            .arg("--enclave")
            .arg(programs.join("enclave-server"))
            .args(["--model", pinned::MODEL_ID, "--seal"])
            .arg(model)
            .stdin(Stdio::null())
            .status()
            .context("cannot start kms-simulator")?;
        ensure!(made.success(), "kms-simulator made no key");
        let log = within("kms.log");
        let kms = Server::start(
            Command::new(programs.join("kms-simulator"))
                .args(["serve", "--key"])
                .arg(&key),
            log.clone(),
        )?;
        let (arn, url) = said(&log)?;
        let proxy = Server::start(
            Command::new(programs.join("host-proxy"))
                .args(["--listen", "127.0.0.1:0", "--enclave", "unix:/nonexistent"])
                .args(["--simulate-kms", &url, "--parent-listen"])
                .arg(format!("unix:{}", within("parent").display()))
                .arg("--models")
                .arg(key.join("models")),
            within("proxy.log"),
        )?;
        Ok(Self {
            programs: programs.to_owned(),
            arn,
            _kms: kms,
            _proxy: proxy,
            folder,
        })
    }

    fn within(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sealed(&self) -> Vec<String> {
        self.parent("parent")
    }

    fn parent(&self, socket: &str) -> Vec<String> {
        let path = |name| self.within(name).display().to_string();
        vec![
            format!("--parent=unix:{}", path(socket)),
            format!("--kms-key={}", self.arn),
            format!("--simulated-root={}", path("key/root.seed")),
        ]
    }

    fn folder(&self, model: &Path) -> Vec<String> {
        vec![format!("--model={}", model.display())]
    }

    fn enclave(&self, arguments: &[String]) -> Result<(Server, String)> {
        let address = free_address()?;
        let mut command = Command::new(self.programs.join("enclave-server"));
        command
            .env_remove("CLEARSEAL_MODEL")
            .args(["--simulate-nsm", "--listen", &format!("tcp:{address}")])
            .args(arguments);
        let server = Server::start(&mut command, self.within("enclave.log"))?;
        Ok((server, format!("http://{address}/readyz")))
    }

    fn launch(&self, arguments: &[String]) -> Result<Start> {
        let begun = Instant::now();
        let (mut server, url) = self.enclave(arguments)?;
        let mut answer = ready(&url, Duration::from_millis(2), [&mut server])?;
        let observed = milliseconds(begun.elapsed());
        let ready: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        let stages = serde_json::from_value(ready["start_ms"].clone())?;
        let usage = server.usage().context("the kernel tells no peak")?;
        Ok(Start {
            stages,
            observed,
            peak: usage.peak_mib,
        })
    }

    /// Peak of a server that has everything but a model: its parent does not answer.
    fn idle(&self) -> Result<f64> {
        let socket = self.within("silent");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        let (server, _) = self.enclave(&self.parent("silent"))?;
        let _connection = listener.accept()?;
        // The RSA key is being made meanwhile.
        std::thread::sleep(Duration::from_secs(2));
        let usage = server.usage().context("the kernel tells no peak")?;
        Ok(usage.peak_mib)
    }
}

/// ARN and URL, once the simulated KMS has printed them.
fn said(log: &Path) -> Result<(String, String)> {
    for _ in 0..1000 {
        let said = std::fs::read_to_string(log)?;
        let line = said.lines().find(|line| line.starts_with("arn:"));
        if let Some((arn, url)) = line.and_then(|line| line.split_once(' ')) {
            return Ok((arn.to_owned(), url.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("kms-simulator did not start")
}
