//! The sizes and operations that are measured, and their order.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use crate::attested_channel::{AttestedChannel, Proof};
use crate::connection::Connector;
use crate::contender::{Contender, SessionContender};
use crate::operation::{self, Operation};
use crate::plaintext::Plaintext;
use crate::{Outcome, Series, Value};

/// Sizes in the published reports, bytes: a short message, an embedding, an activation, a hidden state, a megabyte.
const SIZES: [usize; 5] = [64, 1_536, 4_096, 384 << 10, 1 << 20];
/// Messages up to this size take microseconds and need more repetitions.
const SHORT: usize = 4_096;
/// Size of the published embedding.
const EMBEDDING: usize = 1_536;
/// Bytes of a burst, as published.
const BURST: usize = 4 << 20;

/// The length of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Repetitions {
    /// Measured repetitions; three times as many for short messages.
    pub counted: usize,
    /// Warm-up repetitions, which are discarded.
    pub warmups: usize,
}

/// The project's own transports: bare framing, and the channel with each way to open a session.
///
/// # Errors
/// If evidence cannot be created.
pub fn own_contenders() -> Result<Vec<Box<dyn Contender>>> {
    Ok(vec![
        Box::new(SessionContender::new(Plaintext)),
        Box::new(SessionContender::new(AttestedChannel::new(
            Proof::Endorsement,
            false,
        )?)),
        Box::new(SessionContender::new(AttestedChannel::new(
            Proof::Endorsement,
            true,
        )?)),
        Box::new(SessionContender::new(AttestedChannel::new(
            Proof::Document(1),
            false,
        )?)),
        Box::new(SessionContender::new(AttestedChannel::new(
            Proof::Document(4),
            false,
        )?)),
    ])
}

/// Measures `contenders`, and the channel's codecs in turns with `operations`.
///
/// # Errors
/// The first error of a contender: without it, the comparison would be a different one.
pub fn run(
    repetitions: Repetitions,
    contenders: &mut [Box<dyn Contender>],
    operations: Vec<Operation>,
    mut progress: impl FnMut(&str),
) -> Result<Outcome> {
    let one = Builder::new_current_thread().enable_all().build()?;
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut comparison = Comparison {
        repetitions,
        series: Vec::new(),
    };
    progress("sessions in process");
    comparison.sessions(&one, &Connector::Pipe, contenders)?;
    progress("round trips in process");
    for size in SIZES {
        comparison.round_trips(&one, 1, &Connector::Pipe, contenders, size)?;
    }
    // As published: the peer may run on another thread, which has to be woken up.
    for size in [EMBEDDING, 4_096, 384 << 10] {
        comparison.round_trips(&two, 2, &Connector::Pipe, contenders, size)?;
    }
    progress("bursts");
    for size in &SIZES[1..] {
        comparison.bursts(&one, contenders, *size)?;
    }
    for connector in [
        one.block_on(async { Connector::unix() })?,
        one.block_on(Connector::tcp())?,
    ] {
        progress(connector.name());
        comparison.sessions(&one, &connector, contenders)?;
        for size in [64, EMBEDDING] {
            comparison.round_trips(&one, 1, &connector, contenders, size)?;
        }
    }
    progress("codecs");
    let operations = operation::channel_operations()?
        .into_iter()
        .chain(operations)
        .collect();
    comparison
        .series
        .extend(operation::measure(repetitions, operations)?);
    Ok(Outcome {
        peers: Vec::new(),
        series: comparison.series,
    })
}

struct Comparison {
    repetitions: Repetitions,
    series: Vec<Series>,
}

type BoxedContender = Box<dyn Contender>;

impl Comparison {
    /// Measures sessions over fresh connections: opened, used once, closed and opened again.
    fn sessions(
        &mut self,
        runtime: &Runtime,
        connector: &Connector,
        contenders: &mut [BoxedContender],
    ) -> Result<()> {
        let payload = message(match connector {
            Connector::Pipe => EMBEDDING,
            _ => 64,
        });
        let size = [("payload_bytes", payload.len().into())];
        let count = self.repetitions.counted;
        self.measure(
            "transport.handshake",
            connector,
            &[],
            count,
            contenders,
            |contender| contender.establish(runtime, connector).map(Some),
        )?;
        let subject = "transport.first_message";
        self.measure(subject, connector, &size, count, contenders, |contender| {
            contender
                .first_message(runtime, connector, &payload)
                .map(Some)
        })?;
        if matches!(connector, Connector::Pipe) {
            // As published: the time includes opening the session that is closed.
            let pattern = [("pattern", "open, close, open".into())];
            let subject = "transport.reconnect";
            self.measure(
                subject,
                connector,
                &pattern,
                count,
                contenders,
                |contender| contender.reconnect(runtime, connector).map(Some),
            )?;
        }
        Ok(())
    }

    fn round_trips(
        &mut self,
        runtime: &Runtime,
        threads: usize,
        connector: &Connector,
        contenders: &mut [BoxedContender],
        size: usize,
    ) -> Result<()> {
        for contender in contenders
            .iter_mut()
            .filter(|contender| contender.info().carries_messages)
        {
            contender.open(runtime, connector, true)?;
        }
        let payload = message(size);
        let (count, untimed) = match size <= SHORT {
            true => (self.repetitions.counted * 3, 4),
            false => (self.repetitions.counted, 1),
        };
        let conditions = [("payload_bytes", size.into()), ("threads", threads.into())];
        self.measure(
            "transport.rtt",
            connector,
            &conditions,
            count,
            contenders,
            |contender| {
                if !contender.info().carries_messages {
                    return Ok(None);
                }
                contender.round_trip(runtime, &payload, untimed).map(Some)
            },
        )
    }

    fn bursts(
        &mut self,
        runtime: &Runtime,
        contenders: &mut [BoxedContender],
        size: usize,
    ) -> Result<()> {
        for contender in contenders
            .iter_mut()
            .filter(|contender| contender.info().carries_messages)
        {
            contender.open(runtime, &Connector::Pipe, false)?;
        }
        let payload = message(size);
        let messages = (BURST / size).max(1);
        let conditions = [
            ("payload_bytes", size.into()),
            ("pattern", "sustained".into()),
            ("threads", 1_usize.into()),
        ];
        let (subject, connector) = ("transport.throughput", Connector::Pipe);
        let count = self.repetitions.counted;
        let first = self.series.len();
        self.measure(
            subject,
            &connector,
            &conditions,
            count,
            contenders,
            |contender| {
                if !contender.info().carries_messages {
                    return Ok(None);
                }
                contender.burst(runtime, &payload, messages).map(Some)
            },
        )?;
        let megabytes = (messages * size) as f64 / 1e6;
        for series in self.series.iter_mut().skip(first) {
            series.rate = true;
            for time in &mut series.sample {
                *time = megabytes * 1e3 / *time;
            }
        }
        Ok(())
    }

    /// Measures one repetition of each contender per round; skips contenders without this figure.
    fn measure(
        &mut self,
        subject: &str,
        connector: &Connector,
        conditions: &[(&str, Value)],
        repetitions: usize,
        contenders: &mut [BoxedContender],
        mut measure: impl FnMut(&mut BoxedContender) -> Result<Option<f64>>,
    ) -> Result<()> {
        let mut samples = vec![Vec::new(); contenders.len()];
        for round in 0..self.repetitions.warmups + repetitions {
            for (contender, sample) in contenders.iter_mut().zip(&mut samples) {
                let found = measure(contender)
                    .with_context(|| format!("{}, {subject}", contender.info().engine))?;
                sample.extend(found.filter(|_| round >= self.repetitions.warmups));
            }
        }
        let turns = conditions.iter().fold(
            format!("{subject} {}", connector.name()),
            |turns, (name, value)| format!("{turns} {name} {value:?}"),
        );
        for (contender, sample) in contenders.iter().zip(samples) {
            if sample.is_empty() {
                continue;
            }
            let own = parameters(contender.as_ref(), subject, connector);
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

/// Parameters of a contender's figures of `subject`.
fn parameters(
    contender: &dyn Contender,
    subject: &str,
    connector: &Connector,
) -> BTreeMap<String, Value> {
    let about = contender.info();
    let opens = !matches!(subject, "transport.rtt" | "transport.throughput");
    let transport = match connector {
        // The published report's label for a transport without a handshake.
        Connector::Pipe if about.establishment.is_empty() && subject == "transport.handshake" => {
            "none (object creation)".to_owned()
        }
        Connector::Pipe => about.in_process.to_owned(),
        _ => format!("{} {}", about.transport, connector.name()),
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
    fn every_row_of_every_transport_is_measured_in_turns() {
        let repetitions = Repetitions {
            counted: 2,
            warmups: 0,
        };
        let mut contenders = own_contenders().unwrap();
        let outcome = run(repetitions, &mut contenders, Vec::new(), |_| {}).unwrap();
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
