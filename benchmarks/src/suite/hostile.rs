//! One hostile client against an honest one: the honest client's success and latency with and without each attack, and the peak
//! memory of both servers.
//!
//! The servers are the released programs, restarted for each attack so that a memory peak belongs to it. The honest client sends
//! requests at a steady rate from 127.0.0.1; the attack comes from 127.0.0.2, because host-proxy limits each address. Attacker,
//! servers and honest client share this machine's processors, so part of each slowdown is the attacker's own processor time.

mod attack;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::attack::{ATTACKS, Attack};
use super::client::Client;
use super::system::{System, programs};
use super::{Run, text};
use crate::record::{Parameter, Unit};
use crate::statistics::{self, milliseconds};

/// Interval between two requests of the honest client.
const PACE: Duration = Duration::from_millis(40);
/// Duration of an attack before the measurement starts.
const LEAD: Duration = Duration::from_secs(1);
/// Pause after an attack, before memory is read again.
const REST: Duration = Duration::from_secs(5);
const SENTENCE: &str = "The quick brown fox jumps over the lazy dog";

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let Some(programs) = programs(run, "hostile") else {
        return Ok(());
    };
    let (rounds, phase) = run.phases();
    for attack in ATTACKS {
        let system = System::start(run, &programs)?;
        let mut honest = Honest::meet(&system.url, attack.honest_attests)?;
        honest.ask_for(LEAD);
        let mut asked = Vec::with_capacity(rounds);
        let mut attempts = 0;
        for _ in 0..rounds {
            let quiet = honest.ask_for(phase);
            let attackers = attack.begin(&system, LEAD + phase)?;
            honest.ask_for(LEAD);
            let during = honest.ask_for(phase);
            attempts += attackers.end();
            // Let the queue drain, so that the attack does not affect the next round.
            std::thread::sleep(LEAD);
            asked.push([quiet, during]);
        }
        let peak = system.usage().map(|usage| usage.peak_mib);
        std::thread::sleep(REST);
        let after = system.resident();
        report(run, attack, &asked, attempts, peak, after)
            .with_context(|| format!("attack {}", attack.name))?;
    }
    Ok(())
}

/// Results of requests, in order.
struct Outcomes {
    /// Milliseconds of each answered request.
    answered: Vec<f64>,
    failed: u32,
}

/// A client that sends requests at a steady rate, each on a new connection.
struct Honest {
    client: Client,
    url: String,
    attests: bool,
}

impl Honest {
    fn meet(url: &str, attests: bool) -> Result<Self> {
        Ok(Self {
            client: Client::attest(url)?,
            url: url.to_owned(),
            attests,
        })
    }

    fn ask_for(&mut self, time: Duration) -> Outcomes {
        let mut asked = Outcomes {
            answered: Vec::new(),
            failed: 0,
        };
        let begun = Instant::now();
        while begun.elapsed() < time {
            let one = Instant::now();
            let outcome = match self.attests {
                true => Client::attest(&self.url).map(drop),
                false => self.client.embed(SENTENCE),
            };
            match outcome {
                Ok(()) => asked.answered.push(milliseconds(one.elapsed())),
                Err(_) => asked.failed += 1,
            }
            std::thread::sleep(PACE.saturating_sub(one.elapsed()));
        }
        asked
    }
}

fn report(
    run: &mut Run,
    attack: &Attack,
    rounds: &[[Outcomes; 2]],
    attempts: u64,
    peak: [f64; 2],
    after: [f64; 2],
) -> Result<()> {
    let with = |more: &[(&'static str, Parameter)]| {
        let mut parameters = vec![
            ("attack", text(attack.name)),
            ("honest", text(attack.honest())),
        ];
        parameters.extend_from_slice(more);
        parameters
    };
    for (place, phase) in ["without", "during"].into_iter().enumerate() {
        let parameters = with(&[("phase", text(phase))]);
        let asked = || rounds.iter().map(|round| &round[place]);
        let answered: Vec<f64> = asked().flat_map(|one| one.answered.clone()).collect();
        let all = answered.len() as f64 + asked().map(|one| f64::from(one.failed)).sum::<f64>();
        let share = 100.0 * answered.len() as f64 / all.max(1.0);
        run.value("hostile.success", &parameters, Unit::Percent, share);
        if !answered.is_empty() {
            run.times("hostile.latency", &parameters, &answered);
        }
    }
    // Computed round by round, so that the spread is that of the ratio.
    let slowdowns: Vec<f64> = rounds
        .iter()
        .filter_map(|[quiet, during]| Some(median(during)? / median(quiet)?))
        .collect();
    if !slowdowns.is_empty() {
        run.sample("hostile.slowdown", &with(&[]), Unit::Ratio, &slowdowns);
    }
    run.value("hostile.attempts", &with(&[]), Unit::Count, attempts as f64);
    for (when, memory) in [("peak", peak), ("5 s later", after)] {
        for (name, mebibytes) in System::NAMES.into_iter().zip(memory) {
            let parameters = with(&[("process", text(name)), ("when", text(when))]);
            run.value("hostile.memory", &parameters, Unit::Mebibytes, mebibytes);
        }
    }
    Ok(())
}

fn median(asked: &Outcomes) -> Option<f64> {
    statistics::of(&asked.answered).p50
}
