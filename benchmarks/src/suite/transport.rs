//! The attested channel in turns with bare framing and, on request, with TLS 1.3, Noise and the published transport.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use transports::{Outcome, Repetitions, Series, Value};

use super::Run;
use crate::record::{Measurement, Parameter, Peer, Turns, Unit};
use crate::statistics;

mod derived;

pub(super) fn compare(run: &mut Run) -> Result<()> {
    let repetitions = Repetitions {
        counted: usize::try_from(run.repetitions())?,
        warmups: usize::try_from(run.warmups())?,
    };
    let others = match run.options.contenders {
        true => contenders(repetitions),
        false => Err(anyhow!(
            "TLS 1.3, Noise and the published transport need --contenders, which compiles C code"
        )),
    };
    let outcome = match run.or_absent("transport.contenders", others) {
        Some(outcome) => outcome,
        None => transports::run(
            repetitions,
            &mut transports::own_contenders()?,
            Vec::new(),
            |_| {},
        )?,
    };
    run.absent(
        "transport.vsock",
        "not measured: the channel runs over a pipe, Unix sockets and TCP here; `sockets` measures the vsock of an emulated enclave, where one is named",
    );
    for (name, version) in outcome.peers {
        run.peers.push(Peer { name, version });
    }
    let measured: Vec<_> = outcome
        .series
        .into_iter()
        .map(|series| measurement(&run.begun, series))
        .collect();
    run.measurements.extend(derived::all(&measured));
    run.measurements.extend(measured);
    Ok(())
}

/// Runs all contenders in one process, which is built first: `benchmarks/transport` has a separate lock file and compiles C code.
fn contenders(repetitions: Repetitions) -> Result<Outcome> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(folder.join("transport/Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.join("../target/contenders"))
        .arg("--")
        .args([repetitions.counted, repetitions.warmups].map(|number| number.to_string()))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the comparison ended with {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("the comparison's output is not valid JSON")
}

fn measurement(run: &str, series: Series) -> Measurement {
    let unit = match series.rate {
        true => Unit::MegabytesPerSecond,
        false => Unit::Milliseconds,
    };
    let parameters = series.parameters.into_iter().map(|(name, value)| {
        let value = match value {
            Value::Number(number) => Parameter::Number(number),
            Value::Text(text) => Parameter::Text(text),
        };
        (name, value)
    });
    Measurement {
        parameters: parameters.collect(),
        unit: Some(unit),
        statistics: statistics::of(&series.sample),
        turns: Some(Turns {
            id: format!("{run} {}", series.turns),
            sample: series.sample,
        }),
        subject: series.subject,
        ..Measurement::default()
    }
}
