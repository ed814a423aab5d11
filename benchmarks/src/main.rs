//! The benchmark suite: `npm run bench`.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for a terminal"
)]

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use benchmarks::document::Style;
use benchmarks::reading::Contents;
use benchmarks::record::{Environment, Format, Machine, Record, RecordFile};
use benchmarks::report;
use benchmarks::suite::{BENCHMARKS, Benchmark, FAILED, Options, Run};
use benchmarks::{compare, cost, counts, machine, peer, reading, slo, typescript, worker};
use clap::Parser;
use enclave_server::config::default_model;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure Clearseal, compare runs, write reports
#[derive(Parser)]
#[command(name = "benchmarks", version, max_term_width = 100)]
struct Arguments {
    /// Print the benchmarks' names and what each measures
    #[arg(long)]
    list: bool,
    /// Run a tenth of the repetitions, with small sizes only
    #[arg(long)]
    quick: bool,
    /// Run only this benchmark; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Compare two result files, figure by figure, with the noise of the difference; FILE#ID is one record of a file
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    compare: Vec<PathBuf>,
    /// Check a result file (or a run made now) against the service levels; exits with 1 if one is missed
    #[arg(long)]
    slo: bool,
    /// Write a report of a result file (or of a run made now) to standard output
    #[arg(long, value_name = "STYLE")]
    report: Option<Style>,
    /// A result file, for --slo and --report
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// File for the result
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/benchmarks/result.json"
    )]
    out: PathBuf,
    /// Folder of the model
    #[arg(long, env = "CLEARSEAL_MODEL", default_value_os_t = default_model(), hide_default_value = true)]
    model: PathBuf,
    /// Compute threads
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Name of the machine, as its provider lists it
    #[arg(long)]
    hardware: Option<String>,
    /// Hourly price of this machine in US dollars, to compute the cost of inferences
    #[arg(long, value_name = "USD", value_parser = cost::parse_price)]
    price: Option<f64>,
    /// Print the page's types, generated from the record
    #[arg(long)]
    types: bool,
    /// Another build of this program to measure in turns with this one; its figures become a second record
    #[arg(long, value_name = "PROGRAM")]
    with: Option<PathBuf>,
    /// Include TLS 1.3, Noise and the published transport in `transport`; the first run compiles them and their C code for
    /// minutes
    #[arg(long)]
    contenders: bool,
    /// Continue the run in --out, skipping benchmarks that it already contains
    #[arg(long)]
    resume: bool,
    /// Count the instructions of the hot paths with valgrind and compare them with benchmarks/counts.json; exits with 1 if one
    /// grew
    #[arg(long)]
    counts: bool,
    /// With --counts: write the counts as the new baseline of this build
    #[arg(long, requires = "counts")]
    renew: bool,
    /// Run one of the paths that are counted
    #[arg(long, hide = true, value_name = "PATH")]
    count: Option<String>,
    /// Number of repetitions
    #[arg(long, hide = true, default_value_t = 1)]
    times: u64,
    /// Run as the simulated enclave of the aggregation workloads
    #[arg(long, hide = true)]
    worker: bool,
    /// Run as one of the implementations that take turns: candle or fused
    #[arg(long, hide = true, value_name = "ENGINE")]
    peer: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.worker {
        worker::serve(std::io::stdin().lock(), std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.count {
        counts::repeat(path, arguments.times)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.counts {
        return count(arguments.renew);
    }
    if let Some(engine) = &arguments.peer {
        let threads =
            NonZeroUsize::new(arguments.threads as usize).context("--threads takes 1 to 1024")?;
        let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
        peer::serve(engine, &arguments.model, threads, input, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.types {
        std::io::stdout().write_all(typescript::module().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        for benchmark in BENCHMARKS {
            println!("{:<18} {}", benchmark.name, benchmark.measures);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let [a, b] = arguments.compare.as_slice() {
        print!(
            "{}",
            compare::table(&chosen_record(a)?, &chosen_record(b)?)?
        );
        return Ok(ExitCode::SUCCESS);
    }
    let (records, failed) = match &arguments.from {
        Some(file) => (add_costs(records(file)?, arguments.price), Vec::new()),
        None => measure(arguments)?,
    };
    if let Some(style) = arguments.report {
        print!("{}", report::write(style, &records, &published()?));
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    if arguments.slo {
        let levels = slo::judge(&records);
        for level in &levels {
            println!("{level}");
        }
        let missing = slo::unjudged(&records);
        ensure!(
            missing.is_empty(),
            "the result has no figure for: {}",
            missing.join("; ")
        );
        if levels.iter().any(|level| !level.met) {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn count(renew: bool) -> Result<ExitCode> {
    let Some(judged) = counts::judge(renew)? else {
        println!("skipped: no valgrind");
        return Ok(ExitCode::SUCCESS);
    };
    for path in &judged {
        println!("{path}");
    }
    let failed = !renew && judged.iter().any(counts::CountedPath::failed);
    Ok(ExitCode::from(u8::from(failed)))
}

fn records(file: &Path) -> Result<Vec<Record>> {
    let contents = reading::read_file(file)?;
    for notice in &contents.notices {
        eprintln!("note: {}: {}", file.display(), notice);
    }
    Ok(contents.records)
}

/// Returns the records of a file, or the one named after `#`.
fn chosen_record(argument: &Path) -> Result<Vec<Record>> {
    let text = argument.to_string_lossy();
    let Some((file, id)) = text.rsplit_once('#').filter(|_| !argument.exists()) else {
        return records(argument);
    };
    let mut all = records(Path::new(file))?;
    all.retain(|record| record.id.as_deref() == Some(id));
    ensure!(!all.is_empty(), "{file} has no record `{id}`");
    Ok(all)
}

/// Reads the published reports from the checkout that this program was built in.
fn published() -> Result<Vec<Contents>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let read = |file: &PathBuf| Ok(reading::read_file(file)?);
    files.iter().map(read).collect()
}

/// Returns the records of a run, and the benchmarks that failed.
fn measure(arguments: &Arguments) -> Result<(Vec<Record>, Vec<&'static str>)> {
    let mut chosen = choose(&arguments.only)?;
    let mut run = Run::new(Options {
        quick: arguments.quick,
        model: arguments.model.clone(),
        threads: arguments.threads as usize,
        other: arguments.with.clone(),
        contenders: arguments.contenders,
    });
    let mut about = machine::machine();
    // Measured before anything computes: the load of other programs on this machine.
    about.busy_processors = machine::busy_processors(Duration::from_secs(1));
    if let Some(busy) = about.busy_processors.filter(|busy| *busy > 0.1) {
        eprintln!(
            "note: something else is running here and takes {busy} processors; figures will be worse and vary more"
        );
    }
    if cfg!(debug_assertions) {
        eprintln!(
            "note: this is a development build; build with --release for figures that mean something"
        );
    }
    let commit = machine::commit();
    let mut record = Record {
        environment: Environment::Simulated,
        id: Some("ours".to_owned()),
        title: Some(title(commit.as_deref(), &about)),
        model: Some("all-MiniLM-L6-v2".to_owned()),
        model_params: Some(22_713_216),
        hardware: arguments.hardware.clone(),
        timestamp: Some(now()?),
        commit,
        machine: Some(about),
        setup: Some(machine::setup(
            arguments.threads,
            run.repetitions(),
            run.warmups(),
        )),
        notes: vec![
            "Simulated: no Nitro hardware took part. Processes stand in for enclaves, sockets and pipes for vsock."
                .to_owned(),
        ],
        ..Record::default()
    };
    let mut further = Vec::new();
    if arguments.resume {
        (record, further) = load_record(&arguments.out, record)?;
        chosen.retain(|one| !record.benchmarks.iter().any(|done| done == one.name));
        // Measured again, so that the earlier failure no longer counts.
        record.absent.retain(|absent| {
            !absent.why.starts_with(FAILED) || chosen.iter().all(|one| one.name != absent.subject)
        });
    }
    let price = arguments.price.or_else(|| cost::stated_price(&record));
    let (mut index, total) = (0, chosen.len());
    let mut saved = Ok(());
    run.all(
        &chosen,
        |name, left| {
            index += 1;
            eprintln!(
                "[{index}/{total}] {name:<18} about {} left",
                format_duration(left)
            );
        },
        |run, name| {
            if !run.failed.contains(&name) {
                record.benchmarks.push(name.to_owned());
            }
            let records = all_records(&record, run, price, &further);
            let result = save(&arguments.out, &records);
            if saved.is_ok() {
                saved = result;
            }
        },
    );
    saved?;
    let records = all_records(&record, &run, price, &further);
    if total == 0 {
        // Everything was measured already, but the price may have changed.
        save(&arguments.out, &records)?;
    }
    for absent in records.iter().flat_map(|record| &record.absent) {
        eprintln!("{:<24} {}", absent.subject, absent.why);
    }
    let figures: usize = records.iter().map(|record| record.measurements.len()).sum();
    eprintln!("{figures} figures in {}", arguments.out.display());
    Ok((records, run.failed))
}

/// Names a run by its commit and by the widest vectors that its machine supports.
fn title(commit: Option<&str>, about: &Machine) -> String {
    let name = match commit {
        Some(commit) => format!("Clearseal {commit}"),
        None => "Clearseal".to_owned(),
    };
    let has = |name: &str| about.cpu_features.iter().any(|feature| feature == name);
    let vectors = [("avx512f", "AVX-512"), ("avx2", "AVX2")];
    match vectors.into_iter().find(|(feature, _)| has(feature)) {
        Some((_, vectors)) => format!("{name}, {vectors}"),
        None => name,
    }
}

/// Adds the cost of inferences at `price` to our records.
fn add_costs(mut records: Vec<Record>, price: Option<f64>) -> Vec<Record> {
    if let Some(price) = price {
        let ours = records
            .iter_mut()
            .filter(|record| !record.benchmarks.is_empty());
        ours.for_each(|record| cost::add(price, record));
    }
    records
}

/// Returns `record` with the results of `run`, the `further` records of its file, and the other build's figures as a separate
/// record.
fn all_records(record: &Record, run: &Run, price: Option<f64>, further: &[Record]) -> Vec<Record> {
    let mut ours = record.clone();
    for note in &run.notes {
        if !ours.notes.contains(note) {
            ours.notes.push(note.clone());
        }
    }
    ours.measurements.extend_from_slice(&run.measurements);
    ours.absent.extend_from_slice(&run.absent);
    for peer in &run.peers {
        if !ours.peers.iter().any(|there| there.name == peer.name) {
            ours.peers.push(peer.clone());
        }
    }
    let mut all = further.to_vec();
    let other = run.other.as_ref().map(|(build, measurements)| Record {
        title: Some(format!("Another build, in turns ({build})")),
        commit: None,
        measurements: measurements.clone(),
        absent: Vec::new(),
        peers: Vec::new(),
        ..record.clone()
    });
    if let Some(other) = other {
        match all.iter_mut().find(|there| there.title == other.title) {
            Some(there) => {
                there.benchmarks.clone_from(&record.benchmarks);
                there.measurements.extend(other.measurements);
            }
            None => all.push(Record {
                id: Some(free_id("other", &all)),
                ..other
            }),
        }
    }
    all.insert(0, ours);
    add_costs(all, price)
}

/// Returns `name`, with a number if one of `records` has it.
fn free_id(name: &str, records: &[Record]) -> String {
    let mut id = name.to_owned();
    let mut number = 1;
    while records.iter().any(|one| one.id.as_ref() == Some(&id)) {
        number += 1;
        id = format!("{name}-{number}");
    }
    id
}

/// Loads the record of `new` in `out`, if it has the same commit, machine and kind of run, and the file's further records.
fn load_record(out: &Path, new: Record) -> Result<(Record, Vec<Record>)> {
    if !out.exists() {
        return Ok((new, Vec::new()));
    }
    let mut further = records(out)?;
    ensure!(!further.is_empty(), "the file to go on with has no record");
    let place = further.iter().position(|record| record.id == new.id);
    let there = further.remove(place.unwrap_or(0));
    let cpu = |record: &Record| record.machine.clone().and_then(|machine| machine.cpu);
    ensure!(
        there.commit == new.commit && there.setup == new.setup && cpu(&there) == cpu(&new),
        "{} is of another commit, machine or kind of run; give another --out, or leave out --resume",
        out.display()
    );
    Ok((there, further))
}

fn choose(only: &[String]) -> Result<Vec<&'static Benchmark>> {
    for name in only {
        if !BENCHMARKS.iter().any(|benchmark| benchmark.name == name) {
            bail!("there is no benchmark `{name}`; --list names them");
        }
    }
    let chosen = BENCHMARKS
        .iter()
        .filter(|one| only.is_empty() || only.iter().any(|name| name == one.name));
    Ok(chosen.collect())
}

fn save(path: &Path, records: &[Record]) -> Result<()> {
    let file = RecordFile {
        format: Format::V1,
        report: None,
        tables: Vec::new(),
        records: records.to_vec(),
    };
    let text = serde_json::to_string_pretty(&file)?;
    // Never save a result that cannot be read back.
    reading::read("the result", text.as_bytes())?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// The current time in the published format: Unix seconds followed by `Z`.
fn now() -> Result<String> {
    Ok(format!(
        "{}Z",
        SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()
    ))
}

fn format_duration(left: Duration) -> String {
    match left.as_secs() {
        seconds if seconds < 90 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use benchmarks::record::Measurement;

    use super::*;

    fn record(id: &str, title: &str) -> Record {
        Record {
            id: Some(id.to_owned()),
            title: Some(title.to_owned()),
            commit: Some("abc".to_owned()),
            ..Record::default()
        }
    }

    fn ids(records: &[Record]) -> Vec<&str> {
        let all = records.iter();
        all.filter_map(|one| one.id.as_deref()).collect()
    }

    fn empty_run() -> Run {
        Run::new(Options {
            quick: true,
            model: PathBuf::new(),
            threads: 1,
            other: None,
            contenders: false,
        })
    }

    #[test]
    fn resuming_keeps_the_other_records_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("result.json");
        let ours = record("ours", "Ours");
        let all = [record("browser", "Chromium"), ours.clone()];
        save(&out, &all).unwrap();
        let (there, further) = load_record(&out, ours.clone()).unwrap();
        assert_eq!(there, ours);
        let written = all_records(&there, &empty_run(), None, &further);
        assert_eq!(ids(&written), ["ours", "browser"]);
        let another = Record {
            commit: Some("def".to_owned()),
            ..ours
        };
        assert!(load_record(&out, another).is_err());
    }

    #[test]
    fn another_build_goes_on_with_its_own_record() {
        let mut run = empty_run();
        let figure = |subject: &str| Measurement {
            subject: subject.to_owned(),
            ..Measurement::default()
        };
        run.other = Some(("build 1".to_owned(), vec![figure("a")]));
        let first = all_records(&record("ours", "Ours"), &run, None, &[]);
        assert_eq!(ids(&first), ["ours", "other"]);
        let again = all_records(&record("ours", "Ours"), &run, None, &first[1..]);
        assert_eq!(ids(&again), ["ours", "other"]);
        assert_eq!(again[1].measurements.len(), 2);
        run.other = Some(("build 2".to_owned(), vec![figure("a")]));
        let third = all_records(&record("ours", "Ours"), &run, None, &first[1..]);
        assert_eq!(ids(&third), ["ours", "other", "other-2"]);
    }
}
