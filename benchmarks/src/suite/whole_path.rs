//! Sealed requests through both servers, in turns with the bare engine in this process.
//!
//! The servers are the released programs of the same build, with a simulated NSM and sockets instead of vsock. A request is timed
//! from the text to the opened answer with a checked receipt, so it includes tokenization, sealing, both HTTP hops, inference,
//! receipt and opening. The bare engine gets the tokens of the same text.
//!
//! Two further clients run in turns: one that encapsulated its key ahead of time, as the page does while idle, and one with a
//! sealed request that needs no inference, which measures sealing, HTTP and thread wake-ups.

use anyhow::{Context, Result};
use engine::Encoder;

use super::client::Client;
use super::engine::{encoders, start_alone, tokenizer};
use super::run::ContenderSample;
use super::system::{System, programs};
use super::texts::text_of;
use super::{Run, at_once, number, text};
use crate::machine::Usage;
use crate::peer::time;
use crate::record::{Statistics, Unit};
use crate::statistics::{self, elapsed, paired};

/// The reports' sentence, and their padded length.
const TOKENS: [usize; 2] = [9, 128];
const CLIENTS: [usize; 4] = [1, 2, 4, 8];

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let Some(programs) = programs(run, "whole-path") else {
        return Ok(());
    };
    let engine = encoders(run)?
        .into_iter()
        .next()
        .context("there is no engine")?;
    let words = tokenizer(run)?;
    let system = System::start(run, &programs)?;
    let path = ("path", text("both servers"));
    let repetitions = if run.options.quick { 5 } else { 50 };
    let sample = statistics::timed(3, repetitions, || Client::attest(&system.url))?;
    let attested = [path, ("kind", text("attestation fetched and verified"))];
    run.times("request.session_setup", &attested, &sample);
    let mut client = Client::attest(&system.url)?;
    for tokens in TOKENS {
        let sentence = text_of(&words, tokens)?;
        let ids = words.encode(&sentence)?.ids;
        single_client(run, &*engine, &system, &mut client, &sentence, &ids)?;
        if tokens == 128 {
            under_load(run, &*engine, &system, &sentence, &ids)?;
        }
    }
    memory(run, &system)?;
    run.absent(
        "process.allocations",
        "not counted in the servers that ship; enclave-server/tests/allocations.rs holds the engine to none",
    );
    Ok(())
}

/// A client whose key encapsulation happens before the timed request.
const AHEAD: &str = "sealed, its key encapsulated ahead";

/// One client and the bare engine, alternating.
fn single_client(
    run: &mut Run,
    engine: &dyn Encoder,
    system: &System,
    client: &mut Client,
    sentence: &str,
    ids: &[u32],
) -> Result<()> {
    let conditions = &[("tokens", number(ids.len()))][..];
    let (warmups, repetitions) = (run.warmups(), run.repetitions());
    let [mut bare, mut sealed, mut ahead, mut empty] = [const { Vec::new() }; 4];
    let mut used = [Usage::default(); 2];
    let batch = [ids.to_vec()];
    for turn in 0..warmups + repetitions {
        // Each follows another pass of the same engine, as in a client's loop, because the other engine's pass evicts its weights
        // from the caches.
        let one = time(engine, &batch)?;
        client.embed(sentence)?;
        let before = system.usage()?;
        let two = elapsed(|| client.embed(sentence))?;
        let after = system.usage()?;
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
        let of = |what| [conditions, &[("path", text(name)), ("of", text(what))]].concat();
        let percent = Statistics::of_mean(percent, half, repetitions);
        let overhead = of("sealed request over bare engine");
        run.add("overhead", &overhead, Unit::Percent, percent);
        let rest = of("everything but the engine, pair by pair");
        run.times("request.crypto_overhead", &rest, &added);
    }
    let rows = [
        ("bare engine", bare),
        ("sealed", sealed),
        (AHEAD, ahead),
        ("sealed, no inference", empty),
    ];
    let rows = rows.map(|(path, milliseconds)| ContenderSample {
        parameter: ("path", text(path)),
        milliseconds,
    });
    run.turns("request.end_to_end", conditions, &rows);
    for (name, used) in System::NAMES.into_iter().zip(used) {
        let requests = repetitions as f64;
        let parameters = [conditions, &[("process", text(name))]].concat();
        let figures = [
            ("process.cpu_time", Unit::Milliseconds, used.cpu_ms),
            ("process.page_faults", Unit::Count, used.minor_faults),
            ("process.context_switches", Unit::Count, used.switches),
        ];
        let each = figures.map(|(subject, unit, all)| (subject, unit, all / requests));
        run.values(&parameters, &each);
    }
    Ok(())
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
        // The first block of each is a warm-up.
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
        let rate = Unit::InferencesPerSecond;
        for (path, rates) in [("in process", &bare), ("sealed", &sealed)] {
            run.sample("concurrency.throughput", &parameters(path), rate, rates);
        }
        run.times("concurrency.latency", &parameters("sealed"), &latencies);
        let of_bare = parameters("sealed, of the figure in process");
        let percent = Statistics::of_mean(100.0 + percent, half, blocks);
        run.add("concurrency.efficiency", &of_bare, Unit::Percent, percent);
    }
    Ok(())
}

/// Peak memory of each server, and that of the enclave's relative to a process with only the engine.
fn memory(run: &mut Run, system: &System) -> Result<()> {
    let bare = start_alone(run)?
        .usage()
        .context("the kernel reports no memory")?
        .peak_mib;
    let [enclave, proxy] = system.usage()?.map(|usage| usage.peak_mib);
    for (process, peak) in [(ENCLAVE, enclave), (PROXY, proxy), (BARE, bare)] {
        let parameters = [("source", text("VmHWM")), ("process", text(process))];
        run.value("memory.peak_rss", &parameters, Unit::Mebibytes, peak);
    }
    let parameters = [
        ("of", text("memory.peak_rss")),
        ("statistic", text("value")),
        ("process", text(ENCLAVE)),
        ("over", text(BARE)),
    ];
    let percent = 100.0 * (enclave / bare - 1.0);
    run.value("overhead", &parameters, Unit::Percent, percent);
    Ok(())
}

const ENCLAVE: &str = "enclave-server, after the load";
const PROXY: &str = "host-proxy, after the load";
/// The counterpart of the reports' bare metal.
const BARE: &str = "the engine alone, after one inference";
