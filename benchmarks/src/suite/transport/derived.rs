//! Figures that the channel reports derive from others, computed from our medians of one run in turns.

use crate::record::{Measurement, Parameter, Qualifier, Statistics, Unit};
use crate::suite::{number, text};

const CHANNEL: &str = "secure channel in process";
const PLAINTEXT: &str = "plaintext in process";
const TLS: &str = "TLS 1.3";
const EMBEDDING: f64 = 1_536.0;

/// Ratios, overheads and throughputs derived from `measured`.
pub(super) fn all(measured: &[Measurement]) -> Vec<Measurement> {
    let mut out = Vec::new();
    for figure in measured {
        out.extend(against_plaintext(figure, measured));
        out.extend(rate(figure));
    }
    out.extend(establishment(measured));
    out.extend(per_message(measured));
    out
}

/// The cost of protection in a round trip and in a burst. Both ends run on one thread: with two threads, the median would be
/// dominated by waking a thread up, which varies with the machine's load and would hide the cost.
fn against_plaintext(figure: &Measurement, measured: &[Measurement]) -> Vec<Measurement> {
    let one_thread = figure.parameters.get("threads") == Some(&number(1));
    if !has_parameter(figure, "transport", CHANNEL) || !one_thread {
        return Vec::new();
    }
    let plaintext = measured.iter().find(|one| {
        let same = |name: &str| one.parameters.get(name) == figure.parameters.get(name);
        one.subject == figure.subject
            && has_parameter(one, "transport", PLAINTEXT)
            && same("payload_bytes")
            && same("threads")
            && turns_id(one) == turns_id(figure)
    });
    let Some(ratio) = plaintext.and_then(|one| ratio(figure, one)) else {
        return Vec::new();
    };
    let rate = figure.subject == "transport.throughput";
    if !rate && figure.subject != "transport.rtt" {
        return Vec::new();
    }
    let percent = 100.0 * if rate { 1.0 - ratio } else { ratio - 1.0 };
    let mut conditions = conditions(figure, &["payload_bytes", "threads", "cipher"]);
    conditions.push(("against", text(PLAINTEXT)));
    let mut overhead = conditions.clone();
    overhead.push(("of", text(&figure.subject)));
    let mut found = vec![derived("overhead", &overhead, Unit::Percent, percent)];
    if !rate {
        found.push(derived(
            "transport.rtt_ratio",
            &conditions,
            Unit::Ratio,
            ratio,
        ));
    }
    found
}

const CODED: &[&str] = &["operation", "codec", "engine", "cipher", "payload_bytes"];
const CARRIED: &[&str] = &["transport", "engine", "payload_bytes", "threads", "cipher"];

/// A time, the throughput that follows from it, and what that depends on.
const RATES: &[(&str, &str, &[&str])] = &[
    ("transport.rtt", "transport.throughput", CARRIED),
    ("frame.latency", "frame.throughput", CODED),
    ("crypto.aead_seal", "crypto.aead_throughput", CODED),
];

/// Bytes of a codec or cipher over its time, or a payload over its round trip, as counted by the published comparison.
fn rate(figure: &Measurement) -> Option<Measurement> {
    let (of, subject, names) = RATES.iter().find(|(of, ..)| figure.subject == *of)?;
    let Some(Parameter::Number(bytes)) = figure.parameters.get("payload_bytes") else {
        return None;
    };
    let mut conditions = conditions(figure, names);
    if *of == "transport.rtt" {
        conditions.push(("pattern", text("round trip")));
    }
    let rate = bytes / figure.statistics.p50? / 1e3;
    Some(derived(
        subject,
        &conditions,
        Unit::MegabytesPerSecond,
        rate,
    ))
}

/// Handshakes relative to TLS 1.3, and reconnecting relative to connecting, with the clients' default key exchange.
fn establishment(measured: &[Measurement]) -> Vec<Measurement> {
    let of = |subject: &str, transport: &str| {
        measured.iter().find(|one| {
            let default = !one.parameters.contains_key("kind")
                || has_parameter(one, "kind", "X-Wing")
                    && has_parameter(one, "attestation", "endorsed key");
            one.subject == subject && has_parameter(one, "transport", transport) && default
        })
    };
    let own = |name, value| (name, text(value));
    let proof = || vec![own("attestation", "endorsed key"), own("kind", "X-Wing")];
    let mut found = Vec::new();
    let handshake = of("transport.handshake", CHANNEL);
    if let (Some(ours), Some(tls)) = (handshake, of("transport.handshake", TLS)) {
        let mut faster = |transport, mut conditions: Vec<_>, ratio: Option<f64>| {
            conditions.push(own("transport", transport));
            let engine = tls.parameters.get("engine").cloned();
            conditions.extend(engine.map(|engine| ("against", engine)));
            let subject = "transport.handshake_ratio";
            found.extend(ratio.map(|ratio| derived(subject, &conditions, Unit::Ratio, ratio)));
        };
        faster(TLS, Vec::new(), Some(1.0));
        faster(CHANNEL, proof(), ratio(tls, ours));
    }
    let first = of("transport.first_message", CHANNEL);
    let again = of("transport.reconnect", CHANNEL);
    let steady = measured.iter().find(|one| is_embedding(one));
    if let (Some(first), Some(again), Some(steady)) = (first, again, steady) {
        for (subject, direction, ratio) in [
            ("transport.first_message", "baseline", Some(1.0)),
            ("transport.rtt", "faster", ratio(first, steady)),
            ("transport.reconnect", "slower", ratio(again, first)),
        ] {
            let mut conditions = proof();
            conditions.extend([own("of", subject), own("direction", direction)]);
            let subject = "transport.reconnect_ratio";
            found.extend(ratio.map(|ratio| derived(subject, &conditions, Unit::Ratio, ratio)));
        }
    }
    found
}

/// The transport's cost per request, and a handshake spread over a hundred requests.
fn per_message(measured: &[Measurement]) -> Vec<Measurement> {
    let socket = "secure channel over unix";
    let mut found = Vec::new();
    for one in measured {
        let (Some(mean), Some(median)) = (one.statistics.mean, one.statistics.p50) else {
            continue;
        };
        let unit = Unit::Milliseconds;
        if is_embedding(one) {
            let conditions = conditions(one, &["transport", "payload_bytes", "threads", "cipher"]);
            let subject = "transport.steady_state_overhead";
            found.push(derived(subject, &conditions, unit, median));
        }
        if !has_parameter(one, "transport", socket) {
            continue;
        }
        let bytes = one.parameters.get("payload_bytes");
        if one.subject == "transport.rtt" && bytes == Some(&number(64)) {
            let conditions = conditions(one, &["transport", "payload_bytes", "cipher"]);
            found.push(derived("transport.per_message", &conditions, unit, mean));
        }
        if one.subject == "transport.handshake"
            && has_parameter(one, "attestation", "document, simulated")
        {
            let names = ["transport", "attestation", "certificates", "kind"];
            let mut conditions = conditions(one, &names);
            conditions.push(("requests", number(100)));
            let subject = "transport.handshake_amortised";
            found.push(derived(subject, &conditions, unit, median / 100.0));
        }
    }
    found
}

/// A round trip of an embedding as in the published benchmark, where the peer may run on another thread.
fn is_embedding(figure: &Measurement) -> bool {
    let number =
        |name: &str, value: f64| figure.parameters.get(name) == Some(&Parameter::Number(value));
    figure.subject == "transport.rtt"
        && has_parameter(figure, "transport", CHANNEL)
        && number("payload_bytes", EMBEDDING)
        && number("threads", 2.0)
}

fn has_parameter(figure: &Measurement, name: &str, value: &str) -> bool {
    figure.parameters.get(name) == Some(&text(value))
}

fn turns_id(figure: &Measurement) -> Option<&str> {
    Some(figure.turns.as_ref()?.id.as_str())
}

fn ratio(a: &Measurement, b: &Measurement) -> Option<f64> {
    let (a, b) = (a.statistics.p50?, b.statistics.p50?);
    (b > 0.0).then_some(a / b)
}

fn conditions<'a>(figure: &Measurement, names: &[&'a str]) -> Vec<(&'a str, Parameter)> {
    names
        .iter()
        .filter_map(|name| Some((*name, figure.parameters.get(*name)?.clone())))
        .collect()
}

fn derived(subject: &str, conditions: &[(&str, Parameter)], unit: Unit, value: f64) -> Measurement {
    let statistics = Statistics::of_one(value);
    Measurement {
        qualifier: Some(Qualifier::Derived),
        ..Measurement::new(subject, conditions, unit, statistics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Turns;

    fn figure(
        subject: &str,
        transport: &str,
        bytes: usize,
        threads: usize,
        p50: f64,
    ) -> Measurement {
        let parameters = [
            ("transport", text(transport)),
            ("payload_bytes", number(bytes)),
            ("threads", number(threads)),
        ];
        Measurement {
            subject: subject.to_owned(),
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            statistics: Statistics {
                mean: Some(p50),
                p50: Some(p50),
                ..Statistics::default()
            },
            turns: Some(Turns {
                id: format!("{subject} {bytes} {threads}"),
                sample: Vec::new(),
            }),
            ..Measurement::default()
        }
    }

    #[test]
    fn overheads_follow_from_figures_of_the_same_turns() {
        let (rtt, burst) = ("transport.rtt", "transport.throughput");
        let measured = [
            figure(rtt, PLAINTEXT, 1_536, 1, 0.010),
            figure(rtt, PLAINTEXT, 1_536, 2, 0.060),
            figure(rtt, PLAINTEXT, 4_096, 1, 0.020),
            figure(rtt, CHANNEL, 1_536, 1, 0.016),
            figure(rtt, CHANNEL, 1_536, 2, 0.030),
            figure(burst, PLAINTEXT, 4_096, 1, 4_000.0),
            figure(burst, CHANNEL, 4_096, 1, 1_000.0),
            figure("frame.latency", CHANNEL, 4_096, 1, 0.001),
        ];
        let found = all(&measured);
        let value = |subject: &str, name: &str, word: &str| {
            let fits =
                |one: &&Measurement| one.subject == subject && has_parameter(one, name, word);
            let mut fitting = found.iter().filter(fits);
            let first = fitting.next().and_then(|one| one.statistics.value);
            (first.map(|value| (value * 1e3).round()), fitting.count())
        };
        let table = [
            ("overhead", "of", "transport.rtt", 60_000.0, 0),
            ("overhead", "of", "transport.throughput", 75_000.0, 0),
            ("transport.rtt_ratio", "against", PLAINTEXT, 1_600.0, 0),
            (
                "transport.throughput",
                "pattern",
                "round trip",
                153_600.0,
                4,
            ),
            (
                "transport.steady_state_overhead",
                "transport",
                CHANNEL,
                30.0,
                0,
            ),
        ];
        for (subject, name, word, expected, more) in table {
            assert_eq!(
                value(subject, name, word),
                (Some(expected), more),
                "{subject}"
            );
        }
        assert!(
            all(&measured[..3])
                .iter()
                .all(|one| one.subject != "overhead")
        );
    }
}
