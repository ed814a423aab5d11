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

/// Interval between the due times of two requests of the honest client.
const PACE: Duration = Duration::from_millis(40);
/// Multiple of a phase's duration after which its requests that were not sent yet count as failed.
const OVERTIME: u32 = 4;
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
        let mut system = System::start(run, &programs)?;
        let mut honest = Honest::meet(&system.url, attack.honest_attests)?;
        honest.ask_for(LEAD);
        let mut asked = Vec::with_capacity(rounds);
        let mut attempts = [0; 2];
        for _ in 0..rounds {
            let quiet = honest.ask_for(phase);
            let attackers = attack.begin(&system)?;
            honest.ask_for(LEAD);
            let during = honest.ask_for(phase);
            for (sum, count) in attempts.iter_mut().zip(attackers.end()) {
                *sum += count;
            }
            system
                .check_running()
                .with_context(|| format!("during the attack {}", attack.name))?;
            // Let the queue drain, so that the attack does not affect the next round.
            std::thread::sleep(LEAD);
            asked.push([quiet, during]);
        }
        let peak = system.usage()?.map(|usage| usage.peak_mib);
        std::thread::sleep(REST);
        let after = system.resident()?;
        report(run, attack, &asked, attempts, peak, after)
            .with_context(|| format!("attack {}", attack.name))?;
    }
    Ok(())
}

/// Results of requests, in order.
#[derive(Default)]
struct Outcomes {
    /// Milliseconds of each answered request, from the time when it was due.
    answered: Vec<f64>,
    failed: u32,
}

/// The time, and how to wait for another.
trait Clock {
    /// Time since a fixed moment.
    fn elapsed(&self) -> Duration;
    fn wait(&self, time: Duration);
}

impl Clock for Instant {
    fn elapsed(&self) -> Duration {
        Self::elapsed(self)
    }

    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Sends one request each [`PACE`] for `time`. A request that has to wait for a slow one before it is timed from when it was due:
/// timed from when it was sent, one stall would hide all requests that a steady rate would have sent meanwhile.
fn ask_at_pace(
    clock: &impl Clock,
    time: Duration,
    mut ask: impl FnMut() -> Result<()>,
) -> Outcomes {
    let mut asked = Outcomes::default();
    let mut due = Duration::ZERO;
    while due < time {
        clock.wait(due.saturating_sub(clock.elapsed()));
        let sent = clock.elapsed() < time * OVERTIME;
        if sent && ask().is_ok() {
            let waited = clock.elapsed().saturating_sub(due);
            asked.answered.push(milliseconds(waited));
        } else {
            asked.failed += 1;
        }
        due += PACE;
    }
    asked
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
        ask_at_pace(&Instant::now(), time, || match self.attests {
            true => Client::attest(&self.url).map(drop),
            false => self.client.embed(SENTENCE),
        })
    }
}

fn report(
    run: &mut Run,
    attack: &Attack,
    rounds: &[[Outcomes; 2]],
    [attempts, answered]: [u64; 2],
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
    let mut slowdowns = Vec::with_capacity(rounds.len());
    for [quiet, during] in rounds {
        let quiet = median(quiet).context("no request was answered without the attack")?;
        slowdowns.extend(median(during).map(|during| during / quiet));
    }
    // Without the rounds in which nothing was answered, the ratio would be that of the mild ones.
    if slowdowns.len() == rounds.len() {
        run.sample("hostile.slowdown", &with(&[]), Unit::Ratio, &slowdowns);
    } else {
        let silent = rounds.len() - slowdowns.len();
        let why = format!(
            "no honest request was answered in {silent} of {} rounds of the attack {}",
            rounds.len(),
            attack.name
        );
        run.absent("hostile.slowdown", &why);
    }
    for (subject, count) in [
        ("hostile.attempts", attempts),
        ("hostile.answered", answered),
    ] {
        run.value(subject, &with(&[]), Unit::Count, count as f64);
    }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::run::empty;
    use super::*;

    /// A clock that only waits and requests advance.
    #[derive(Default)]
    struct Fake(Cell<Duration>);

    impl Clock for Fake {
        fn elapsed(&self) -> Duration {
            self.0.get()
        }

        fn wait(&self, time: Duration) {
            self.0.set(self.0.get() + time);
        }
    }

    /// Milliseconds of each request of a phase of 240 ms.
    fn phase(durations: &[u64]) -> Outcomes {
        let clock = Fake::default();
        let mut durations = durations.iter();
        ask_at_pace(&clock, Duration::from_millis(240), || {
            let duration = durations.next().context("no further request")?;
            clock.wait(Duration::from_millis(*duration));
            Ok(())
        })
    }

    #[test]
    fn a_request_is_timed_from_when_it_was_due() {
        let steady = phase(&[3; 6]);
        assert_eq!((steady.answered, steady.failed), (vec![3.0; 6], 0));
        let stalled = phase(&[100, 3, 3, 3, 3, 3]);
        assert_eq!(stalled.answered, [100.0, 63.0, 26.0, 3.0, 3.0, 3.0]);
    }

    #[test]
    fn requests_that_fail_or_are_never_sent_count() {
        let some = phase(&[3; 4]);
        assert_eq!((some.answered.len(), some.failed), (4, 2));
        let stuck = phase(&[2_000, 3, 3, 3, 3, 3]);
        assert_eq!((stuck.answered, stuck.failed), (vec![2_000.0], 5));
    }

    #[test]
    fn a_round_without_answers_does_not_vanish() {
        let round = |during: &[f64]| {
            let of = |answered: &[f64]| Outcomes {
                answered: answered.to_vec(),
                failed: u32::from(answered.is_empty()),
            };
            [of(&[4.0]), of(during)]
        };
        let report = |rounds: &[[Outcomes; 2]]| {
            let mut run = empty();
            let attack = &ATTACKS[0];
            report(&mut run, attack, rounds, [7, 5], [1.0; 2], [1.0; 2]).unwrap();
            run
        };
        let has =
            |run: &Run, subject: &str| run.measurements.iter().any(|one| one.subject == subject);
        let all = report(&[round(&[8.0]), round(&[8.0])]);
        assert!(has(&all, "hostile.slowdown") && all.absent.is_empty());
        let one_silent = report(&[round(&[8.0]), round(&[])]);
        assert!(!has(&one_silent, "hostile.slowdown"));
        assert_eq!(one_silent.absent[0].subject, "hostile.slowdown");
    }
}
