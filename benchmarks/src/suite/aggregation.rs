//! The workloads of the aggregation report: sums over the records of many devices, round by round.
//!
//! A round takes one record from each device, so there are as many rounds as a device has records. *Native* computes in this
//! process; *enclave* (simulated) computes in a separate process that receives its data through a pipe; *hybrid* sums here and
//! looks values up there. The records of a round, or of a group of devices, are generated just before use and not timed, so that
//! they never have to fit into memory as a whole.

use anyhow::{Context, Result, ensure};

use super::{Run, number, text};
use crate::machine;
use crate::record::{Parameter, Unit};
use crate::statistics;
use crate::worker::Worker;
use crate::workload::{
    Executor, Mode, Round, TABLE, aes_keys, aes_records, expected_value, terse_values,
};

/// Devices and records per device, from the report.
const AES_SIZES: [(usize, usize); 5] = [
    (1_000, 1_000),
    (10_000, 1_000),
    (10_000, 50),
    (100_000, 1_000),
    (1_000_000, 50),
];
const TERSE_SIZES: [(usize, usize); 6] = [
    (1_000, 1_000),
    (10_000, 1_000),
    (10_000, 50),
    (100_000, 1_000),
    (1_000_000, 50),
    (100_000_000, 50),
];
/// Values that are generated, transferred and summed at once: 256 MiB.
const CHUNK_VALUES: usize = 32 << 20;

/// Where the computation runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Platform {
    Native,
    Enclave,
    Hybrid,
}

impl Platform {
    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Enclave => "enclave (simulated)",
            Self::Hybrid => "hybrid (simulated)",
        }
    }
}

pub(super) fn aes(run: &mut Run) -> Result<()> {
    for mode in [Mode::Compatible, Mode::Sound] {
        for platform in [Platform::Native, Platform::Enclave] {
            for (devices, records) in AES_SIZES {
                // Quick runs keep the first and third size of the report.
                if run.options.quick && devices * records > 1_000_000 {
                    continue;
                }
                aes_size(run, platform, mode, devices, records)?;
            }
        }
    }
    Ok(())
}

fn aes_size(
    run: &mut Run,
    platform: Platform,
    mode: Mode,
    devices: usize,
    records: usize,
) -> Result<()> {
    let parameters = parameters("aes", platform, mode, devices, records);
    if !fits(run, "aes", devices, devices * (mode.record_len() + 64)) {
        return Ok(());
    }
    let mut executor = executor(platform)?;
    let blob = aes_keys(devices)?;
    let setup = executor.setup(&blob)?;
    let (mut reads, mut work, mut totals) = (Vec::new(), Vec::new(), Vec::new());
    let mut sums = Vec::with_capacity(records);
    for round in 0..records {
        let data = aes_records(devices, round, mode)?;
        let Round {
            read_ms,
            work_ms,
            sum,
        } = executor.aes_round(&data, round, mode)?;
        let expected = (0..devices).fold(0u64, |sum, device| {
            sum.wrapping_add(expected_value(device, round))
        });
        ensure!(
            sum == expected,
            "{devices} devices, round {round}: the sum is wrong"
        );
        sums.push(sum);
        reads.push(read_ms);
        work.push(work_ms);
        totals.push(read_ms + work_ms);
    }
    let begun = std::time::Instant::now();
    std::hint::black_box(sums.iter().fold(0u64, |all, sum| all.wrapping_add(*sum)));
    let last = statistics::milliseconds(begun.elapsed());
    run.value("aggregation.setup", &parameters, Unit::Milliseconds, setup);
    if platform != Platform::Native {
        run.times("aggregation.read", &parameters, &reads);
    }
    run.times("aggregation.decrypt_sum", &parameters, &work);
    let last = last / records as f64;
    run.value("aggregation.final", &parameters, Unit::Milliseconds, last);
    run.times("aggregation.total", &parameters, &totals);
    Ok(())
}

pub(super) fn terse(run: &mut Run) -> Result<()> {
    for mode in [Mode::Compatible, Mode::Sound] {
        for platform in [Platform::Native, Platform::Enclave, Platform::Hybrid] {
            for (devices, records) in TERSE_SIZES {
                if run.options.quick && devices * records > 10_000_000 {
                    continue;
                }
                // The largest once, as published: sending 40 GB through a pipe would measure the pipe.
                let largest = devices == 100_000_000;
                if largest && (mode == Mode::Sound || platform == Platform::Enclave) {
                    continue;
                }
                terse_size(run, platform, mode, devices, records)?;
            }
        }
    }
    if !run.options.quick {
        run.absent("aggregation.terse", "100,000,000 devices inside the simulated enclave: 40 GB through a pipe would measure the pipe");
    }
    Ok(())
}

fn terse_size(
    run: &mut Run,
    platform: Platform,
    mode: Mode,
    devices: usize,
    records: usize,
) -> Result<()> {
    let parameters = parameters("terse", platform, mode, devices, records);
    let chunk = (CHUNK_VALUES / records).min(devices).max(1);
    if !fits(run, "terse", devices, 3 * chunk * records * 8) {
        return Ok(());
    }
    let mut adder = executor(if platform == Platform::Hybrid {
        Platform::Native
    } else {
        platform
    })?;
    let mut looker = executor(if platform == Platform::Hybrid {
        Platform::Enclave
    } else {
        Platform::Native
    })?;
    let mut rounds = vec![Round::default(); records];
    for first in (0..devices).step_by(chunk) {
        let some = chunk.min(devices - first);
        let values = terse_values(first, some, records);
        for (round, part) in rounds
            .iter_mut()
            .zip(adder.terse_sums(&values, records, mode)?)
        {
            round.read_ms += part.read_ms;
            round.work_ms += part.work_ms;
            round.sum = round.sum.wrapping_add(part.sum);
        }
    }
    let mut lookups = Vec::with_capacity(records);
    for round in &rounds {
        // In the enclave, the process that summed also performs the look-up.
        let executor = if platform == Platform::Enclave {
            &mut adder
        } else {
            &mut looker
        };
        let (ms, found) = executor.lookup(round.sum)?;
        let expected = round
            .sum
            .wrapping_add(crate::workload::table()[(round.sum % TABLE as u64) as usize]);
        ensure!(found == expected, "the look-up is wrong");
        lookups.push(ms);
    }
    let reads: Vec<f64> = rounds.iter().map(|round| round.read_ms).collect();
    let sums: Vec<f64> = rounds.iter().map(|round| round.work_ms).collect();
    let totals: Vec<f64> = rounds
        .iter()
        .zip(&lookups)
        .map(|(round, lookup)| round.read_ms + round.work_ms + lookup)
        .collect();
    run.times("aggregation.read", &parameters, &reads);
    run.times("aggregation.sum", &parameters, &sums);
    run.times("aggregation.lookup", &parameters, &lookups);
    run.times("aggregation.total", &parameters, &totals);
    Ok(())
}

fn executor(platform: Platform) -> Result<Box<dyn Executor>> {
    Ok(match platform {
        Platform::Native => Box::new(crate::workload::Native::default()),
        _ => Box::new(Worker::start().context("the simulated enclave did not start")?),
    })
}

fn parameters(
    workload: &str,
    platform: Platform,
    mode: Mode,
    devices: usize,
    records: usize,
) -> Vec<(&'static str, Parameter)> {
    vec![
        ("workload", text(workload)),
        ("platform", text(platform.name())),
        ("mode", text(mode.name())),
        ("devices", number(devices)),
        ("records_per_device", number(records)),
    ]
}

/// Whether `bytes` of memory are available; if not, the record states so.
fn fits(run: &mut Run, workload: &str, devices: usize, bytes: usize) -> bool {
    let available = machine::available_bytes();
    let fits = (bytes as u64).saturating_mul(5) / 4 <= available;
    if !fits {
        let why = format!(
            "{devices} devices need {} MiB, {} are free",
            bytes >> 20,
            available >> 20
        );
        run.absent(&format!("aggregation.{workload}"), &why);
    }
    fits
}
