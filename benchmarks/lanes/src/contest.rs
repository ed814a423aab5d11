//! What is measured, in which order, and who takes turns.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use crate::codec::{self, Work};
use crate::lane::{Contender, Lane};
use crate::ours::{Ours, Proof};
use crate::raw::Raw;
use crate::wire::Dock;
use crate::{Outcome, Series, Value};

/// Sizes of the published reports, bytes: a short message, an embedding, an activation, a hidden state, a megabyte.
const SIZES: [usize; 5] = [64, 1_536, 4_096, 384 << 10, 1 << 20];
/// Up to here a message takes microseconds, and needs more repetitions.
const SHORT: usize = 4_096;
/// The published embedding.
const EMBEDDING: usize = 1_536;
/// Bytes of a burst, as published.
const BURST: usize = 4 << 20;

/// How long a contest is.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// Turns that count; three times as many for short messages.
    pub repetitions: usize,
    /// Turns before them.
    pub warmups: usize,
}

/// The project's own lanes: framing alone, and the channel by each way to a session.
///
/// # Errors
/// Where evidence cannot be made.
pub fn own() -> Result<Vec<Box<dyn Contender>>> {
    Ok(vec![
        Box::new(Lane::new(Raw)),
        Box::new(Lane::new(Ours::new(Proof::Endorsement, false)?)),
        Box::new(Lane::new(Ours::new(Proof::Endorsement, true)?)),
        Box::new(Lane::new(Ours::new(Proof::Document(1), false)?)),
        Box::new(Lane::new(Ours::new(Proof::Document(4), false)?)),
    ])
}

/// Measures `contenders`, and the codecs of this project beside those of `works`.
///
/// # Errors
/// The first of any contender: a contest with one less would not be the same.
pub fn run(
    contest: Contest,
    contenders: &mut [Box<dyn Contender>],
    works: Vec<Work>,
    mut progress: impl FnMut(&str),
) -> Result<Outcome> {
    let one = Builder::new_current_thread().enable_all().build()?;
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut turns = Turns {
        contest,
        series: Vec::new(),
    };
    progress("sessions in process");
    turns.sessions(&one, &Dock::Pipe, contenders)?;
    progress("round trips in process");
    for size in SIZES {
        turns.round_trips(&one, 1, &Dock::Pipe, contenders, size)?;
    }
    // As published: the far end may run on another thread, and has to be woken up there.
    for size in [EMBEDDING, 4_096, 384 << 10] {
        turns.round_trips(&two, 2, &Dock::Pipe, contenders, size)?;
    }
    progress("bursts");
    for size in &SIZES[1..] {
        turns.bursts(&one, contenders, *size)?;
    }
    for dock in [
        one.block_on(async { Dock::unix() })?,
        one.block_on(Dock::tcp())?,
    ] {
        progress(dock.name());
        turns.sessions(&one, &dock, contenders)?;
        for size in [64, EMBEDDING] {
            turns.round_trips(&one, 1, &dock, contenders, size)?;
        }
    }
    progress("codecs");
    let works = codec::own()?.into_iter().chain(works).collect();
    turns.series.extend(codec::turns(contest, works)?);
    Ok(Outcome {
        peers: Vec::new(),
        series: turns.series,
    })
}

struct Turns {
    contest: Contest,
    series: Vec<Series>,
}

type Rival = Box<dyn Contender>;

impl Turns {
    /// Sessions over fresh connections: opened, used once, ended and opened again.
    fn sessions(&mut self, runtime: &Runtime, dock: &Dock, rivals: &mut [Rival]) -> Result<()> {
        let payload = message(match dock {
            Dock::Pipe => EMBEDDING,
            _ => 64,
        });
        let size = [("payload_bytes", payload.len().into())];
        let count = self.contest.repetitions;
        self.in_turns("transport.handshake", dock, &[], count, rivals, |rival| {
            rival.establish(runtime, dock).map(Some)
        })?;
        let subject = "transport.first_message";
        self.in_turns(subject, dock, &size, count, rivals, |rival| {
            rival.first_message(runtime, dock, &payload).map(Some)
        })?;
        if matches!(dock, Dock::Pipe) {
            // As published: the session that is torn down is opened within the time.
            let pattern = [("pattern", "open, close, open".into())];
            let subject = "transport.reconnect";
            self.in_turns(subject, dock, &pattern, count, rivals, |rival| {
                rival.reconnect(runtime, dock).map(Some)
            })?;
        }
        Ok(())
    }

    fn round_trips(
        &mut self,
        runtime: &Runtime,
        threads: usize,
        dock: &Dock,
        rivals: &mut [Rival],
        size: usize,
    ) -> Result<()> {
        for rival in rivals.iter_mut().filter(|rival| rival.about().carries) {
            rival.open(runtime, dock, true)?;
        }
        let payload = message(size);
        let (count, untimed) = match size <= SHORT {
            true => (self.contest.repetitions * 3, 4),
            false => (self.contest.repetitions, 1),
        };
        let conditions = [("payload_bytes", size.into()), ("threads", threads.into())];
        self.in_turns("transport.rtt", dock, &conditions, count, rivals, |rival| {
            if !rival.about().carries {
                return Ok(None);
            }
            rival.round_trip(runtime, &payload, untimed).map(Some)
        })
    }

    fn bursts(&mut self, runtime: &Runtime, rivals: &mut [Rival], size: usize) -> Result<()> {
        for rival in rivals.iter_mut().filter(|rival| rival.about().carries) {
            rival.open(runtime, &Dock::Pipe, false)?;
        }
        let payload = message(size);
        let messages = (BURST / size).max(1);
        let conditions = [
            ("payload_bytes", size.into()),
            ("pattern", "sustained".into()),
            ("threads", 1_usize.into()),
        ];
        let (subject, dock) = ("transport.throughput", Dock::Pipe);
        let count = self.contest.repetitions;
        let first = self.series.len();
        self.in_turns(subject, &dock, &conditions, count, rivals, |rival| {
            if !rival.about().carries {
                return Ok(None);
            }
            rival.burst(runtime, &payload, messages).map(Some)
        })?;
        let megabytes = (messages * size) as f64 / 1e6;
        for series in self.series.iter_mut().skip(first) {
            series.rate = true;
            for time in &mut series.sample {
                *time = megabytes * 1e3 / *time;
            }
        }
        Ok(())
    }

    /// One repetition each, again and again; a rival without a figure takes no part.
    fn in_turns(
        &mut self,
        subject: &str,
        dock: &Dock,
        conditions: &[(&str, Value)],
        repetitions: usize,
        rivals: &mut [Rival],
        mut measure: impl FnMut(&mut Rival) -> Result<Option<f64>>,
    ) -> Result<()> {
        let mut samples = vec![Vec::new(); rivals.len()];
        for round in 0..self.contest.warmups + repetitions {
            for (rival, sample) in rivals.iter_mut().zip(&mut samples) {
                let found = measure(rival)
                    .with_context(|| format!("{}, {subject}", rival.about().engine))?;
                sample.extend(found.filter(|_| round >= self.contest.warmups));
            }
        }
        let turns = conditions.iter().fold(
            format!("{subject} {}", dock.name()),
            |turns, (name, value)| format!("{turns} {name} {value:?}"),
        );
        for (rival, sample) in rivals.iter().zip(samples) {
            if sample.is_empty() {
                continue;
            }
            let own = parameters(rival.as_ref(), subject, dock);
            let conditions = conditions
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()));
            self.series.push(Series {
                subject: subject.to_owned(),
                parameters: conditions.chain(own).collect(),
                sample,
                rate: false,
                turns: turns.clone(),
            });
        }
        Ok(())
    }
}

fn message(size: usize) -> Bytes {
    Bytes::from(vec![0xab; size])
}

/// What a rival's figures of `subject` depend on.
fn parameters(rival: &dyn Contender, subject: &str, dock: &Dock) -> BTreeMap<String, Value> {
    let about = rival.about();
    let opens = !matches!(subject, "transport.rtt" | "transport.throughput");
    let transport = match dock {
        // The published report's label for a transport without a handshake.
        Dock::Pipe if about.establishment.is_empty() && subject == "transport.handshake" => {
            "none (object creation)".to_owned()
        }
        Dock::Pipe => about.in_process.to_owned(),
        _ => format!("{} {}", about.transport, dock.name()),
    };
    let mut all = BTreeMap::from([
        ("transport".to_owned(), Value::Text(transport)),
        ("engine".to_owned(), about.engine.into()),
    ]);
    let cipher = about.cipher.filter(|_| !opens);
    all.extend(cipher.map(|cipher| ("cipher".to_owned(), cipher.into())));
    if opens {
        let establishment = about.establishment.into_iter();
        all.extend(establishment.map(|(name, value)| (name.to_owned(), value)));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn a_contest_measures_every_row_of_every_lane_in_turns() {
        let contest = Contest {
            repetitions: 2,
            warmups: 0,
        };
        let mut rivals = own().unwrap();
        let outcome = run(contest, &mut rivals, Vec::new(), |_| {}).unwrap();
        let of = |subject: &str, transport: &str| {
            let fits = |series: &&Series| {
                let found = series.parameters.get("transport");
                series.subject == subject && found == Some(&Value::from(transport))
            };
            outcome.series.iter().filter(fits).count()
        };
        let table = [
            ("transport.handshake", "none (object creation)", 1),
            ("transport.handshake", "secure channel in process", 4),
            ("transport.reconnect", "secure channel in process", 4),
            ("transport.first_message", "secure channel over unix", 4),
            ("transport.rtt", "secure channel in process", 8),
            ("transport.rtt", "plaintext in process", 8),
            ("transport.rtt", "secure channel over tcp", 2),
            ("transport.throughput", "secure channel in process", 4),
        ];
        for (subject, transport, count) in table {
            assert_eq!(of(subject, transport), count, "{subject}, {transport}");
        }
        for series in &outcome.series {
            assert!(series.sample.iter().all(|one| *one > 0.0), "{series:?}");
            let together = |other: &&Series| other.turns == series.turns;
            let mut together = outcome.series.iter().filter(together);
            assert!(
                together.all(|other| other.sample.len() == series.sample.len()),
                "{series:?}"
            );
        }
    }
}
