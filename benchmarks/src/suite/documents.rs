//! Attestation documents under load: clients that each request one for their own nonce, and clients that may share one.
//!
//! The servers are the released programs with a simulated Nitro module, which signs in about the time that this machine's
//! processor needs for ECDSA P-384. Clients send the next request as soon as they have an answer, or when the time of a refusal's
//! `Retry-After` has passed, from many addresses, because host-proxy limits each address. They read answers without verifying them, because verification would run on other machines.
//! Clients and servers share this machine's processors.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use attestation::AttestationResponse;
use base64ct::{Base64UrlUnpadded, Encoding};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::Barrier;

use super::http::head;
use super::system::{System, programs};
use super::{Run, number, text};
use crate::record::Unit;
use crate::statistics::milliseconds;

/// Concurrent clients.
const CROWDS: [usize; 3] = [1, 100, 10_000];
/// Largest number in a quick run.
const QUICK: usize = 100;
/// Addresses of the clients.
const SOURCES: usize = 200;
/// Least share of successes, in per cent, for which latency and speed-up describe the service: below it, they would be those of
/// the few clients that were served.
const SERVED: f64 = 99.0;
/// Pause after a refusal that states none.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let Some(programs) = programs(run, "documents") else {
        return Ok(());
    };
    let (rounds, phase) = run.phases();
    let limits = ["--max-connections=12000"];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    for crowd in CROWDS {
        if run.options.quick && crowd > QUICK {
            continue;
        }
        let mut system = System::start_with(run, &programs, &limits)?;
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for (phases, sharing) in [(&mut own, false), (&mut shared, true)] {
                let asked = runtime.block_on(ask(system.address, crowd, sharing, phase));
                phases.push(asked.with_context(|| format!("{crowd} clients"))?);
            }
        }
        system.check_running()?;
        report(run, crowd, &own, &shared);
    }
    Ok(())
}

/// Answers of one phase.
#[derive(Default)]
struct Phase {
    /// Milliseconds from request to answer, per answer.
    waits: Vec<f64>,
    /// Answers that were refusals.
    refused: usize,
    /// Nonces of each answer's document.
    sharing: Vec<f64>,
    seconds: f64,
}

impl Phase {
    fn rate(&self) -> f64 {
        self.waits.len() as f64 / self.seconds
    }
}

/// Share of requests that were answered with a document, in per cent.
fn share_of_successes(phases: &[Phase]) -> f64 {
    let answered: usize = phases.iter().map(|phase| phase.waits.len()).sum();
    let refused: usize = phases.iter().map(|phase| phase.refused).sum();
    100.0 * answered as f64 / (answered + refused).max(1) as f64
}

/// Connects all clients, then repeats their requests for the duration of a phase.
async fn ask(proxy: SocketAddr, crowd: usize, sharing: bool, phase: Duration) -> Result<Phase> {
    let ready = Arc::new(Barrier::new(crowd + 1));
    let clients: Vec<_> = (0..crowd)
        .map(|number| tokio::spawn(client(proxy, number, sharing, phase, Arc::clone(&ready))))
        .collect();
    ready.wait().await;
    let begun = Instant::now();
    let mut all = Phase::default();
    for client in clients {
        let one = client.await??;
        all.waits.extend(one.waits);
        all.sharing.extend(one.sharing);
        all.refused += one.refused;
    }
    all.seconds = begun.elapsed().as_secs_f64();
    Ok(all)
}

async fn client(
    proxy: SocketAddr,
    number: usize,
    sharing: bool,
    phase: Duration,
    ready: Arc<Barrier>,
) -> Result<Phase> {
    let socket = TcpSocket::new_v4()?;
    let source = u8::try_from(number % SOURCES).unwrap_or_default();
    socket.bind((Ipv4Addr::new(127, 0, 1, source + 1), 0).into())?;
    let stream = socket.connect(proxy).await;
    // The other clients wait at this barrier, even if this connection failed.
    ready.wait().await;
    let mut stream = stream?;
    stream.set_nodelay(true)?;
    let mut rng = ChaCha20Rng::seed_from_u64(number as u64);
    let (mut asked, mut buffer) = (Phase::default(), Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < phase {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let shared = if sharing { "&shared=1" } else { "" };
        let nonce = Base64UrlUnpadded::encode_string(&nonce);
        let request =
            format!("GET /v1/attestation?nonce={nonce}{shared} HTTP/1.1\r\nhost: x\r\n\r\n");
        let one = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let (success, body) = answer(&mut stream, &mut buffer).await?;
        match success {
            true => {
                asked.waits.push(milliseconds(one.elapsed()));
                let answered = AttestationResponse::parse(&buffer[body..])?;
                asked.sharing.push(f64::from(answered.sharing()));
            }
            false => {
                asked.refused += 1;
                let left = phase.saturating_sub(begun.elapsed());
                let head = buffer.get(..body).unwrap_or_default();
                tokio::time::sleep(retry_after(head).min(left)).await;
            }
        }
    }
    Ok(asked)
}

/// Pause that the head of a refusal asks for.
fn retry_after(head: &[u8]) -> Duration {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let seconds = head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after:")?.trim().parse().ok());
    seconds.map_or(PAUSE, Duration::from_secs)
}

/// Reads one answer by its length; returns whether it is a success, and where its body begins in `buffer`.
async fn answer(stream: &mut tokio::net::TcpStream, buffer: &mut Vec<u8>) -> Result<(bool, usize)> {
    let (body, length) = head(stream, buffer).await?;
    while buffer.len() < body + length {
        let read = stream.read_buf(buffer).await?;
        ensure!(read > 0, "the proxy closed a connection");
    }
    Ok((buffer.starts_with(b"HTTP/1.1 200"), body))
}

fn report(run: &mut Run, crowd: usize, own: &[Phase], shared: &[Phase]) {
    for (name, phases) in [("own", own), ("shared", shared)] {
        let parameters = [("clients", number(crowd)), ("document", text(name))];
        let rates: Vec<f64> = phases.iter().map(Phase::rate).collect();
        run.sample("documents.rate", &parameters, Unit::Count, &rates);
        let share = share_of_successes(phases);
        run.value("documents.success", &parameters, Unit::Percent, share);
        if share < SERVED {
            let why =
                format!("{share:.1} % of the requests of {crowd} clients ({name}) were answered");
            run.absent("documents.latency", &why);
            continue;
        }
        let gather = |of: fn(&Phase) -> &Vec<f64>| -> Vec<f64> {
            phases.iter().flat_map(|phase| of(phase).clone()).collect()
        };
        let waits = gather(|phase| &phase.waits);
        let sharing = gather(|phase| &phase.sharing);
        for (subject, unit, values) in [
            ("documents.latency", Unit::Milliseconds, waits),
            ("documents.sharing", Unit::Count, sharing),
        ] {
            if !values.is_empty() {
                run.sample(subject, &parameters, unit, &values);
            }
        }
    }
    if [own, shared]
        .map(share_of_successes)
        .iter()
        .any(|share| *share < SERVED)
    {
        let why = format!("too few requests of {crowd} clients were answered");
        run.absent("documents.speedup", &why);
        return;
    }
    // Computed turn by turn, so that the spread is that of the ratio.
    let speedups: Vec<f64> = own
        .iter()
        .zip(shared)
        .map(|(own, shared)| shared.rate() / own.rate())
        .collect();
    let clients = [("clients", number(crowd))];
    run.sample("documents.speedup", &clients, Unit::Ratio, &speedups);
}

#[cfg(test)]
mod tests {
    use super::super::run::empty;
    use super::*;

    fn phase(answered: usize, refused: usize) -> Phase {
        Phase {
            waits: vec![1.0; answered],
            refused,
            sharing: vec![1.0; answered],
            seconds: 4.0,
        }
    }

    fn subjects(run: &Run) -> Vec<&str> {
        let all = run.measurements.iter();
        all.map(|one| one.subject.as_str()).collect()
    }

    #[test]
    fn a_phase_that_was_refused_has_no_latency_and_no_speedup() {
        let mut run = empty();
        report(&mut run, 100, &[phase(15, 985)], &[phase(1000, 0)]);
        assert_eq!(
            subjects(&run),
            [
                "documents.rate",
                "documents.success",
                "documents.rate",
                "documents.success",
                "documents.latency",
                "documents.sharing"
            ]
        );
        assert_eq!(run.measurements[1].statistics.value, Some(1.5));
        let absent: Vec<_> = run.absent.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(absent, ["documents.latency", "documents.speedup"]);
    }

    #[test]
    fn a_served_phase_has_all_figures() {
        let mut run = empty();
        report(&mut run, 100, &[phase(99, 1)], &[phase(396, 4)]);
        let speedup = run.measurements.last().unwrap();
        assert_eq!(speedup.subject, "documents.speedup");
        assert_eq!(speedup.statistics.mean, Some(4.0));
        assert!(run.absent.is_empty());
        // No answer at all: a ratio of nothing.
        let mut run = empty();
        report(&mut run, 1, &[phase(0, 0)], &[phase(0, 0)]);
        assert!(!subjects(&run).contains(&"documents.speedup"));
    }

    #[test]
    fn a_refused_client_waits_as_it_was_told() {
        let head = |line: &str| format!("HTTP/1.1 503 Busy\r\n{line}\r\n\r\n").into_bytes();
        assert_eq!(retry_after(&head("Retry-After: 3")), Duration::from_secs(3));
        for unstated in ["x: 3", "retry-after: soon"] {
            assert_eq!(retry_after(&head(unstated)), PAUSE);
        }
    }
}
