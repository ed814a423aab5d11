//! Sealed requests through both servers, turn by turn with the bare engine in this process.
//!
//! The servers are the programs that ship, from the same build, with a simulated NSM and sockets instead of vsock. A
//! request is timed from the moment a client has its text to the moment it holds the opened answer with a checked
//! receipt: tokenizing, sealing, both HTTP hops, inference, receipt and opening are all in it. The bare engine gets the
//! word pieces of the same text.
//!
//! Beside it stand a client that encapsulated its key ahead, as the page does while it has nothing else to do, and a sealed
//! request that needs no inference: what sealing, HTTP and waking threads take.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use attestation::{
    Evidence, Freshness, MAX_EVIDENCE, MAX_POLICY, Policy, PolicySource, UnixMillis,
    VerifiedAttestation,
};
use data_encoding::BASE64URL_NOPAD;
use enclave_server::engine::{Encoder, Tokenizer};
use protocol::exchange::PreparedExchange;
use protocol::inner::{InnerRequest, MAX_MESSAGE};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::engine::{encoders, load};
use super::{Run, at_once, number, text};
use crate::machine::{self, Usage};
use crate::peer::time;
use crate::record::{Statistics, Unit};
use crate::statistics::{self, milliseconds, paired};

/// The reports' sentence and their padded length.
const TOKENS: [usize; 2] = [9, 128];
const CLIENTS: [usize; 4] = [1, 2, 4, 8];

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let programs = match programs() {
        Ok(programs) => programs,
        Err(error) => {
            run.absent("whole-path", &format!("not measured: {error:#}"));
            return Ok(());
        }
    };
    let engine = encoders(run)?
        .into_iter()
        .next()
        .context("there is no engine")?;
    let model = load(run)?;
    let words = Tokenizer::from_json(&model.tokenizer, model.max_tokens)?;
    drop(model);
    let begun = Instant::now();
    let system = System::start(&programs, &run.options.model, run.options.threads)?;
    let start = milliseconds(begun.elapsed());
    let path = ("path", text("both servers"));
    run.value(
        "stage.cold_start_total",
        std::slice::from_ref(&path),
        Unit::Milliseconds,
        start,
    );
    let repetitions = if run.options.quick { 5 } else { 50 };
    let sample = statistics::timed(3, repetitions, || Client::attest(&system.url))?;
    let attested = [path, ("kind", text("attestation fetched and verified"))];
    run.add(
        "request.session_setup",
        &attested,
        Unit::Milliseconds,
        statistics::of(&sample),
    );
    let mut client = Client::attest(&system.url)?;
    for tokens in TOKENS {
        let sentence = text_of(&words, tokens)?;
        let ids = words.encode(&sentence)?.ids;
        let conditions = [("tokens", number(tokens))];
        alone(
            run,
            &*engine,
            &mut client,
            &sentence,
            &ids,
            &conditions,
            &system,
        )?;
        if tokens == 128 {
            under_load(run, &*engine, &system, &sentence, &ids)?;
        }
    }
    memory(run, &system);
    run.absent(
        "process.allocations",
        "not counted in the servers that ship; enclave-server/tests/allocations.rs holds the engine to none",
    );
    Ok(())
}

/// A client whose key encapsulation is not in the request's time.
const AHEAD: &str = "sealed, its key encapsulated ahead";

/// One client and the bare engine, a turn each.
fn alone(
    run: &mut Run,
    engine: &dyn Encoder,
    client: &mut Client,
    sentence: &str,
    ids: &[u32],
    conditions: &[(&'static str, crate::record::Parameter)],
    system: &System,
) -> Result<()> {
    let (warmups, repetitions) = (run.warmups(), run.repetitions());
    let [mut bare, mut sealed, mut ahead, mut empty] = [const { Vec::new() }; 4];
    let mut used = [Usage::default(); 2];
    let batch = [ids.to_vec()];
    for turn in 0..warmups + repetitions {
        // Each follows another pass of the same engine, as in a client's loop: the other engine's weights have left the
        // caches then, and the processor is up to speed.
        let one = time(engine, &batch)?;
        client.embed(sentence)?;
        let before = system.usage();
        let two = elapsed(|| client.embed(sentence))?;
        let after = system.usage();
        client.prepare()?;
        let three = elapsed(|| client.embed(sentence))?;
        client.prepare()?;
        let four = elapsed(|| client.models())?;
        if turn < warmups {
            continue;
        }
        bare.push(one);
        sealed.push(two);
        ahead.push(three);
        empty.push(four);
        for ((used, before), after) in used.iter_mut().zip(before).zip(after) {
            used.cpu_ms += after.cpu_ms - before.cpu_ms;
            used.minor_faults += after.minor_faults - before.minor_faults;
            used.switches += after.switches - before.switches;
        }
    }
    for (name, sample) in [("sealed", &sealed), (AHEAD, &ahead)] {
        let (percent, half) = paired(&bare, sample).context("too few repetitions")?;
        let added: Vec<f64> = bare.iter().zip(sample).map(|(a, b)| b - a).collect();
        let path = ("path", text(name));
        run.add(
            "overhead",
            &[
                conditions,
                &[
                    path.clone(),
                    ("of", text("sealed request over bare engine")),
                ],
            ]
            .concat(),
            Unit::Percent,
            Statistics {
                mean: Some(percent),
                ci95: Some([percent - half, percent + half]),
                samples: Some(repetitions),
                ..Statistics::default()
            },
        );
        run.add(
            "request.crypto_overhead",
            &[
                conditions,
                &[
                    path,
                    ("of", text("everything but the engine, pair by pair")),
                ],
            ]
            .concat(),
            Unit::Milliseconds,
            statistics::of(&added),
        );
    }
    let rows = [
        ("bare engine", bare),
        ("sealed", sealed),
        (AHEAD, ahead),
        ("sealed, no inference", empty),
    ];
    let rows = rows.map(|(path, sample)| (vec![("path", text(path))], sample));
    run.turns("request.end_to_end", conditions, &rows);
    for (name, used) in System::NAMES.into_iter().zip(used) {
        #[allow(clippy::cast_precision_loss, reason = "at most a hundred")]
        let requests = repetitions as f64;
        let parameters = [conditions, &[("process", text(name))]].concat();
        let figures = [
            ("process.cpu_time", Unit::Milliseconds, used.cpu_ms),
            ("process.page_faults", Unit::Count, used.minor_faults),
            ("process.context_switches", Unit::Count, used.switches),
        ];
        for (subject, unit, all) in figures {
            run.value(subject, &parameters, unit, all / requests);
        }
    }
    Ok(())
}

/// Milliseconds that `work` takes.
fn elapsed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(milliseconds(begun.elapsed()))
}

/// Clients in a closed loop, against as many callers of the engine in this process, block by block.
fn under_load(
    run: &mut Run,
    engine: &dyn Encoder,
    system: &System,
    sentence: &str,
    ids: &[u32],
) -> Result<()> {
    let (blocks, each) = if run.options.quick { (2, 4) } else { (6, 10) };
    for count in CLIENTS {
        let mut clients = (0..count)
            .map(|_| Client::attest(&system.url))
            .collect::<Result<Vec<_>>>()?;
        let (mut bare, mut sealed, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
        // One block of each to warm up.
        for block in 0..=blocks {
            let callers: Vec<_> = (0..count)
                .map(|_| || engine.encode(&[ids]).map(|_| ()).map_err(Into::into))
                .collect();
            let (rate, _) = at_once(callers, each)?;
            let requests: Vec<_> = clients
                .iter_mut()
                .map(|client| || client.embed(sentence))
                .collect();
            let (through, latency) = at_once(requests, each)?;
            if block > 0 {
                bare.push(rate);
                sealed.push(through);
                latencies.extend(latency);
            }
        }
        let (percent, half) = paired(&bare, &sealed).context("too few blocks")?;
        let parameters = |path: &str| {
            [
                ("clients", number(count)),
                ("tokens", number(128)),
                ("path", text(path)),
            ]
        };
        for (path, rates) in [("in process", &bare), ("sealed", &sealed)] {
            run.add(
                "concurrency.throughput",
                &parameters(path),
                Unit::InferencesPerSecond,
                statistics::of(rates),
            );
        }
        run.add(
            "concurrency.latency",
            &parameters("sealed"),
            Unit::Milliseconds,
            statistics::of(&latencies),
        );
        run.add(
            "concurrency.efficiency",
            &parameters("sealed, of the figure in process"),
            Unit::Percent,
            Statistics {
                mean: Some(100.0 + percent),
                ci95: Some([100.0 + percent - half, 100.0 + percent + half]),
                samples: Some(blocks),
                ..Statistics::default()
            },
        );
    }
    Ok(())
}

fn memory(run: &mut Run, system: &System) {
    for (name, usage) in System::NAMES.into_iter().zip(system.usage()) {
        let parameters = [
            ("source", text("VmHWM")),
            ("process", text(&format!("{name}, after the load"))),
        ];
        run.value(
            "memory.peak_rss",
            &parameters,
            Unit::Mebibytes,
            usage.peak_mib,
        );
    }
}

/// A text of exactly `tokens` word pieces, the two special ones included.
fn text_of(words: &Tokenizer, tokens: usize) -> Result<String> {
    const WORDS: [&str; 8] = ["the", "city", "of", "light", "was", "built", "by", "people"];
    let sentence = WORDS
        .iter()
        .cycle()
        .take(tokens - 2)
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    let found = words.encode(&sentence)?.ids.len();
    ensure!(
        found == tokens,
        "a text of {tokens} word pieces has {found}"
    );
    Ok(sentence)
}

/// Both servers. Dropping them ends them.
struct System {
    enclave: Server,
    proxy: Server,
    url: String,
    /// Holds the socket between them.
    folder: PathBuf,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl System {
    const NAMES: [&str; 2] = ["enclave-server", "host-proxy"];

    fn start(programs: &Path, model: &Path, threads: usize) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("clearseal-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let socket = format!("unix:{}", folder.join("enclave").display());
        let enclave = spawn(
            Command::new(programs.join("enclave-server"))
                .args(["--simulate-nsm", "--listen", &socket, "--threads"])
                .arg(threads.to_string())
                .arg("--model")
                .arg(model),
            &folder.join("enclave.log"),
        )?;
        // A port that is free now; the proxy takes it at once.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let proxy = spawn(
            Command::new(programs.join("host-proxy")).args([
                "--listen",
                &format!("127.0.0.1:{port}"),
                "--enclave",
                &socket,
            ]),
            &folder.join("proxy.log"),
        )?;
        let mut system = Self {
            enclave,
            proxy,
            url: format!("http://127.0.0.1:{port}"),
            folder,
        };
        let ready = format!("{}/readyz", system.url);
        let deadline = Instant::now() + Duration::from_secs(60);
        while ureq::get(&ready).call().is_err() {
            for (server, name) in [
                (&mut system.enclave, "enclave"),
                (&mut system.proxy, "proxy"),
            ] {
                if server.0.try_wait()?.is_some() {
                    let log = system.folder.join(format!("{name}.log"));
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    bail!(
                        "the {name} ended: {}",
                        said.lines().last().unwrap_or_default()
                    );
                }
            }
            ensure!(
                Instant::now() < deadline,
                "the servers did not become ready"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(system)
    }

    fn usage(&self) -> [Usage; 2] {
        [&self.enclave, &self.proxy].map(|server| machine::usage(server.0.id()).unwrap_or_default())
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Server> {
    let log = std::fs::File::create(log)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok(Server(child))
}

/// Folder with both servers: where this program lies, so that all are of one build. They are built if they can be.
fn programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CLEARSEAL_BIN_DIR").filter(|value| !value.is_empty()) {
        return Ok(folder.into());
    }
    let folder = std::env::current_exe()?
        .parent()
        .context("this program lies nowhere")?
        .to_path_buf();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--quiet", "--bins"])
        .args(["--package", "enclave-server", "--package", "host-proxy"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command.stdin(Stdio::null()).status();
    let there = System::NAMES.iter().all(|name| folder.join(name).is_file());
    match built {
        Ok(status) if status.success() && there => Ok(folder),
        _ => bail!(
            "enclave-server and host-proxy could not be built beside this program; CLEARSEAL_BIN_DIR names a folder that has them"
        ),
    }
}

/// A client: it verifies first, seals each request, and checks each receipt.
struct Client {
    agent: ureq::Agent,
    url: String,
    attestation: VerifiedAttestation,
    prepared: Option<PreparedExchange>,
    rng: ChaCha20Rng,
}

impl Client {
    fn attest(url: &str) -> Result<Self> {
        // No limit on the whole: it would look the address up in a new thread for each request.
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_recv_response(Some(Duration::from_secs(120)))
            .timeout_recv_body(Some(Duration::from_secs(120)))
            .build()
            .into();
        let get = |path: &str, limit: usize| -> Result<Vec<u8>> {
            let answer = agent.get(format!("{url}{path}")).call()?;
            Ok(answer
                .into_body()
                .with_config()
                .limit(limit as u64)
                .read_to_vec()?)
        };
        let policy = Policy::from_json(
            &get("/v1/development-policy", MAX_POLICY)?,
            PolicySource::Server,
        )
        .context("the development policy is unusable")?;
        // Not secret here: it only has to be new.
        let mut rng = ChaCha20Rng::seed_from_u64(nanoseconds());
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let path = format!("/v1/attestation?nonce={}", BASE64URL_NOPAD.encode(&nonce));
        let answer = get(&path, MAX_EVIDENCE)?;
        let evidence = Evidence::parse(&answer).context("the answer is no evidence")?;
        let (report, verified) = attestation::verify(evidence.question(
            &policy,
            Freshness::Live {
                nonce: &nonce,
                now: now(),
            },
        ));
        Ok(Self {
            agent,
            url: format!("{url}/v1/gateway"),
            attestation: verified
                .with_context(|| format!("the evidence was refused: {:?}", report.code))?,
            prepared: None,
            rng,
        })
    }

    /// Encapsulates the key of the next request.
    fn prepare(&mut self) -> Result<()> {
        self.prepared = Some(PreparedExchange::new(&self.attestation, &mut self.rng)?);
        Ok(())
    }

    fn embed(&mut self, sentence: &str) -> Result<()> {
        let content = serde_json::to_vec(&serde_json::json!({
            "model": self.attestation.manifest().model.id,
            "input": [sentence],
            "encoding_format": "base64",
        }))?;
        let request = InnerRequest {
            method: "POST".to_owned(),
            path: "/v1/embeddings".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            content,
        };
        self.ask(request)
    }

    /// A request that costs the service nothing.
    fn models(&mut self) -> Result<()> {
        self.ask(InnerRequest {
            method: "GET".to_owned(),
            path: "/v1/models".to_owned(),
            headers: Vec::new(),
            content: Vec::new(),
        })
    }

    fn ask(&mut self, request: InnerRequest) -> Result<()> {
        let prepared = match self.prepared.take() {
            Some(prepared) => prepared,
            None => PreparedExchange::new(&self.attestation, &mut self.rng)?,
        };
        let (sealed, pending) = prepared.begin(request, now())?;
        let answer = self
            .agent
            .post(&self.url)
            .header("content-type", "message/ohttp-req")
            .send(&sealed[..])?
            .into_body()
            .with_config()
            .limit(MAX_MESSAGE as u64 + 4096)
            .read_to_vec()?;
        let answer = pending.finish(&answer, now())?;
        ensure!(
            answer.response.status == 200,
            "the service answered with status {}",
            answer.response.status
        );
        std::hint::black_box(&answer.response.content);
        Ok(())
    }
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the lower bits are the ones that differ"
    )]
    let nanoseconds = since.unwrap_or_default().as_nanos() as u64;
    nanoseconds
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "milliseconds of this age of the world"
)]
fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixMillis(since.unwrap_or_default().as_millis() as u64)
}
