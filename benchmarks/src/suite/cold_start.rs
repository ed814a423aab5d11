//! Cold starts of the released enclave server: with a sealed model whose key comes from a simulated KMS through host-proxy, and
//! with a plain folder; and the peak memory of each.

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

/// Our stages by the subjects of the published table, where the load includes `pack`.
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
    let host = Host::start(&programs, &run.options.model, run.options.threads)?;
    let rounds = if run.options.quick { 2 } else { 10 };
    let mut stages: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let [mut sealed, mut folder, mut observed] = [const { Vec::new() }; 3];
    let [mut sealed_peak, mut folder_peak, mut idle_peak] = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        idle_peak.push(host.idle()?);
        let start = host.launch(&host.sealed_arguments())?;
        for (subject, parts) in STAGES {
            let parts = parts.iter().map(|part| start.stages.get(*part));
            let sum = parts.sum::<Option<f64>>();
            let sum = sum.with_context(|| format!("/readyz lacks a part of {subject}"))?;
            stages.entry(subject).or_default().push(sum);
        }
        sealed.push(start.total()?);
        observed.push(start.observed);
        sealed_peak.push(start.peak);
        let start = host.launch(&host.folder_arguments(&run.options.model))?;
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

/// Records the memory that a start needs beyond a server without a model, as a multiple of the weights.
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

/// The host: a simulated KMS with a key, the sealed model, and host-proxy.
struct Host {
    programs: PathBuf,
    /// Compute threads of the servers.
    threads: usize,
    arn: String,
    _kms: Server,
    _proxy: Server,
    folder: TempDir,
}

/// One start, up to readiness.
struct Start {
    /// Milliseconds by stage, as reported by `/readyz`.
    stages: BTreeMap<String, f64>,
    /// Milliseconds from `spawn` to the answer, with the resolution of the polling interval.
    observed: f64,
    /// Peak memory, MiB.
    peak: f64,
}

impl Start {
    fn total(&self) -> Result<f64> {
        let total = self.stages.get("total").copied();
        total.context("/readyz reports no total")
    }
}

impl Host {
    fn start(programs: &Path, model: &Path, threads: usize) -> Result<Self> {
        let folder = scratch()?;
        let path_of = |name| folder.path().join(name);
        let key = path_of("key");
        let made = Command::new(programs.join("kms-simulator"))
            .arg("new-key")
            .arg("--out")
            .arg(&key)
            .arg("--enclave")
            .arg(programs.join("enclave-server"))
            .args(["--model", pinned::all_minilm_l6_v2()?.name.short()])
            .arg("--seal")
            .arg(model)
            .stdin(Stdio::null())
            .status()
            .context("cannot start kms-simulator")?;
        ensure!(made.success(), "kms-simulator created no key");
        let log = path_of("kms.log");
        let kms = Server::start(
            Command::new(programs.join("kms-simulator"))
                .args(["serve", "--key"])
                .arg(&key),
            log.clone(),
        )?;
        let (arn, url) = wait_for_arn(&log)?;
        let proxy = Server::start(
            Command::new(programs.join("host-proxy"))
                .args(["--listen", "127.0.0.1:0", "--enclave", "unix:/nonexistent"])
                .args(["--simulate-kms", &url, "--parent-listen"])
                .arg(format!("unix:{}", path_of("parent").display()))
                .arg("--models")
                .arg(key.join("models")),
            path_of("proxy.log"),
        )?;
        Ok(Self {
            programs: programs.to_owned(),
            threads,
            arn,
            _kms: kms,
            _proxy: proxy,
            folder,
        })
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sealed_arguments(&self) -> Vec<String> {
        self.parent_arguments("parent")
    }

    fn parent_arguments(&self, socket: &str) -> Vec<String> {
        let path = |name| self.path_of(name).display().to_string();
        vec![
            format!("--parent=unix:{}", path(socket)),
            format!("--kms-key={}", self.arn),
            format!("--simulated-root={}", path("key/root.seed")),
        ]
    }

    fn folder_arguments(&self, model: &Path) -> Vec<String> {
        vec![format!("--model={}", model.display())]
    }

    fn enclave(&self, arguments: &[String]) -> Result<(Server, String)> {
        let address = free_address()?;
        let mut command = Command::new(self.programs.join("enclave-server"));
        command
            .env_remove("CLEARSEAL_MODEL")
            .args(["--simulate-nsm", "--listen", &format!("tcp:{address}")])
            .args(["--threads", &self.threads.to_string()])
            .args(arguments);
        let server = Server::start(&mut command, self.path_of("enclave.log"))?;
        Ok((server, format!("http://{address}/readyz")))
    }

    fn launch(&self, arguments: &[String]) -> Result<Start> {
        let begun = Instant::now();
        let (mut server, url) = self.enclave(arguments)?;
        let mut answer = ready(&url, Duration::from_millis(2), [&mut server])?;
        let observed = milliseconds(begun.elapsed());
        let ready: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        let stages = serde_json::from_value(ready["start_ms"].clone())?;
        let usage = server.usage().context("the kernel reports no peak")?;
        Ok(Start {
            stages,
            observed,
            peak: usage.peak_mib,
        })
    }

    /// Peak memory of a server without a model: its parent never answers.
    fn idle(&self) -> Result<f64> {
        let socket = self.path_of("silent");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        let (server, _) = self.enclave(&self.parent_arguments("silent"))?;
        let _connection = listener.accept()?;
        // Long enough for the server to generate its RSA key.
        std::thread::sleep(Duration::from_secs(2));
        let usage = server.usage().context("the kernel reports no peak")?;
        Ok(usage.peak_mib)
    }
}

/// Waits until the simulated KMS has logged its ARN and URL.
fn wait_for_arn(log: &Path) -> Result<(String, String)> {
    for _ in 0..1000 {
        let text = std::fs::read_to_string(log)?;
        let line = text.lines().find(|line| line.starts_with("arn:"));
        if let Some((arn, url)) = line.and_then(|line| line.split_once(' ')) {
            return Ok((arn.to_owned(), url.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("kms-simulator did not start")
}
