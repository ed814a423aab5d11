//! Command line and environment, parsed once. Every flag has an environment variable; unknown flags are refused.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use attestation::SecurityMode;
use clap::{Parser, Subcommand, ValueEnum};
use engine::{EngineChoice, Precision};
use protocol::ohttp::MAX_ENCAPSULATED;
pub use sockets::ListenAddress;
use sockets::{ParentAddress, parse_duration};

use crate::check::CheckModel;
use crate::release::KeyArn;

/// The command line: without a command the server starts.
#[derive(Clone, Debug, Parser)]
#[command(name = "enclave-server", version, about, long_about = None, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// A command instead of the server.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// How the server runs.
    #[command(flatten)]
    pub config: Config,
}

/// Commands other than to serve.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List what is wrong with a model's folder: files that differ from the lock, what no engine supports, and wrong vectors. Exit
    /// status: 0 if the server accepts the folder, 1 if not.
    CheckModel(CheckModel),
}

/// How this process runs.
#[derive(Clone, Debug, Parser)]
#[command(name = "enclave-server", version, about, long_about = None, max_term_width = 110)]
pub struct Config {
    /// Where to accept connections: `vsock:PORT`, `unix:PATH` or `tcp:IP:PORT`.
    #[arg(
        long,
        env = "CLEARSEAL_LISTEN",
        value_name = "ADDRESS",
        default_value = "tcp:127.0.0.1:5005"
    )]
    pub listen: ListenAddress,

    /// Where to answer `GET /metrics`, in the forms of --listen; nowhere by default. Its readers learn how many requests there are
    /// and, by powers of ten, how long they take.
    #[arg(long, env = "CLEARSEAL_METRICS", value_name = "ADDRESS")]
    pub metrics: Option<ListenAddress>,

    /// Folder of the model; every file that the server reads is compared with the model's lock. Repeat it, and --model-lock in the
    /// same order, to serve several models.
    #[arg(long, env = "CLEARSEAL_MODEL", value_name = "DIR", default_values_os_t = [default_model()])]
    pub model: Vec<PathBuf>,

    /// Lock of the model: its name, the SHA-256 of its files and a self-test, as `clearseal model lock` writes them [default: the
    /// lock of all-MiniLM-L6-v2, which is compiled in]. The first of several models is the first in the manifest.
    #[arg(long, env = "CLEARSEAL_MODEL_LOCK", value_name = "FILE")]
    pub model_lock: Vec<PathBuf>,

    /// The host's service for this enclave, `vsock:CID:PORT`, `unix:PATH` or `tcp:IP:PORT` (--parent-listen of host-proxy): the
    /// model comes sealed from there, and its key from KMS. Without it the model is read from --model.
    #[arg(
        long,
        env = "CLEARSEAL_PARENT",
        value_name = "ADDRESS",
        requires = "kms_key",
        conflicts_with = "model"
    )]
    pub parent: Option<ParentAddress>,

    /// Full ARN of the KMS key that wraps the model's data key; no alias.
    #[arg(
        long,
        env = "CLEARSEAL_KMS_KEY",
        value_name = "ARN",
        requires = "parent"
    )]
    pub kms_key: Option<KeyArn>,

    /// Name of the sealed model at the parent [default: the name in the lock, without organisation]. Repeat it for several models,
    /// in the order of their locks.
    #[arg(long, env = "CLEARSEAL_MODEL_CONTAINER", value_name = "NAME", value_parser = parse_container)]
    pub model_container: Vec<String>,

    /// Where the sealed indexes of clients are stored: the host's service for this enclave, in the forms of --parent
    /// (--parent-listen of host-proxy, which has --indexes). Without it requests about indexes are refused.
    #[arg(long, env = "CLEARSEAL_INDEXES", value_name = "ADDRESS")]
    pub indexes: Option<ParentAddress>,

    /// Memory in bytes for opened indexes; the one that was not used for longest is dropped first. While an index is opened or
    /// changed, it takes as much again.
    #[arg(
        long,
        env = "CLEARSEAL_INDEX_MEMORY",
        value_name = "BYTES",
        default_value = "268435456",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1_048_576..=1 << 42)
    )]
    pub index_memory: usize,

    /// The start fails after this long without key and model from the parent; 1 second to 1 hour.
    #[arg(long, env = "CLEARSEAL_PROVISION_DEADLINE", value_name = "TIME", default_value = "10m", value_parser = parse_deadline)]
    pub provision_deadline: Duration,

    /// Sign attestation documents in this process instead of asking /dev/nsm; with `=sign`, over the measurements of the
    /// machine's /dev/nsm. For development: proves nothing.
    #[arg(long, env = "CLEARSEAL_SIMULATE_NSM", value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true, value_parser = parse_simulation)]
    pub simulate_nsm: Simulation,

    /// File with the seed of the simulated NSM's root, 64 hex digits, which a simulated KMS knows too [default: a fresh root].
    #[arg(
        long,
        env = "CLEARSEAL_SIMULATED_ROOT",
        value_name = "FILE",
        requires = "simulate_nsm"
    )]
    pub simulated_root: Option<PathBuf>,

    /// Engine that runs the model, which the manifest and every receipt state.
    #[arg(
        long,
        env = "CLEARSEAL_ENGINE",
        value_name = "ENGINE",
        default_value = "auto"
    )]
    pub engine: EngineChoice,

    /// Weight precision, which the manifest and every receipt state. Any but `f32` needs the fused engine.
    #[arg(
        long,
        env = "CLEARSEAL_PRECISION",
        value_name = "PRECISION",
        default_value = "f32"
    )]
    pub precision: Precision,

    /// Inference threads [default: the number of CPUs].
    #[arg(long, env = "CLEARSEAL_THREADS", value_name = "N")]
    pub threads: Option<NonZeroUsize>,

    /// Policy version that the manifest and every receipt state.
    #[arg(long, env = "CLEARSEAL_POLICY_VERSION", value_name = "TEXT", default_value = "1", value_parser = parse_policy_version)]
    pub policy_version: String,

    /// Security mode that the manifest and every receipt state, `production` or `evaluation`; a simulated NSM forces `evaluation`.
    #[arg(
        long,
        env = "CLEARSEAL_SECURITY_MODE",
        value_name = "MODE",
        default_value = "production",
        value_parser = parse_mode
    )]
    pub security_mode: SecurityMode,

    /// How often fresh keys are made, as `90s`, `30m` or `1h`; 10 seconds to 24 hours.
    #[arg(long, env = "CLEARSEAL_ROTATE_EVERY", value_name = "TIME", default_value = "1h", value_parser = parse_rotation)]
    pub rotate_every: Duration,

    /// Largest sealed request in bytes.
    #[arg(long, env = "CLEARSEAL_MAX_REQUEST_BYTES", value_name = "BYTES", default_value_t = MAX_ENCAPSULATED,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1024..=MAX_ENCAPSULATED as u64))]
    pub max_request_bytes: usize,

    /// Most sealed requests processed at once; further ones wait for up to 10 seconds and then get a 503. Set it no lower than the
    /// relay's limit (--max-concurrent of host-proxy): the relay shares its slots fairly among addresses, this queue does not.
    #[arg(
        long,
        env = "CLEARSEAL_MAX_IN_FLIGHT",
        value_name = "N",
        default_value = "256"
    )]
    pub max_in_flight: NonZeroUsize,

    /// Memory in bytes for requests and answers over 64 KiB: a quarter to receive them, three eighths to open them, three eighths
    /// for answers. Beyond it they are refused or wait for up to 10 seconds, and get a 503 or a sealed 429.
    #[arg(
        long,
        env = "CLEARSEAL_LARGE_REQUEST_BYTES",
        value_name = "BYTES",
        default_value = "134217728",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(67_108_864..=1 << 40)
    )]
    pub large_request_bytes: usize,

    /// Most open connections; further ones wait to be accepted.
    #[arg(
        long,
        env = "CLEARSEAL_MAX_CONNECTIONS",
        value_name = "N",
        default_value = "512"
    )]
    pub max_connections: NonZeroUsize,

    /// Cost of all requests that may wait for one model, in tokens; a long text costs more than its length. Beyond it a request of more than one slice is refused with a sealed 429.
    #[arg(
        long,
        env = "CLEARSEAL_QUEUE_TOKENS",
        value_name = "N",
        default_value = "65536"
    )]
    pub queue_tokens: NonZeroUsize,

    /// Request timeout.
    #[arg(long, env = "CLEARSEAL_DEADLINE", value_name = "TIME", default_value = "30s", value_parser = parse_deadline)]
    pub deadline: Duration,

    /// Send sealed answers and refusals only at steps after their requests arrived: TIME, twice TIME and so on to a second, then
    /// every multiple of that. The host then sees no exact duration. 1 millisecond to 1 second; off by default. Not with
    /// --metrics, which shows when a request is computed
    #[arg(long, env = "CLEARSEAL_ANSWER_STEPS", value_name = "TIME", conflicts_with = "metrics", value_parser = parse_step)]
    pub answer_steps: Option<Duration>,

    /// After a signal, how long requests may take to finish, and the host to store the rest of the log.
    #[arg(long, env = "CLEARSEAL_DRAIN", value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub drain: Duration,

    /// Format of the log on standard error.
    #[arg(
        long,
        env = "CLEARSEAL_LOG",
        value_name = "FORM",
        default_value = "text"
    )]
    pub log: LogForm,

    /// Log filter, as `info` or `enclave_server=debug,info`.
    #[arg(
        long,
        env = "CLEARSEAL_LOG_FILTER",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_filter: String,
}

impl Config {
    /// Number of inference threads.
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// The security mode in effect: a simulation is never production.
    pub fn effective_security_mode(&self) -> SecurityMode {
        if self.simulate_nsm != Simulation::Off {
            SecurityMode::Evaluation
        } else {
            self.security_mode
        }
    }
}

/// Simulation of the Nitro Secure Module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulation {
    /// None: the device signs.
    Off,
    /// This process signs over its own measurements; there is no device.
    Whole,
    /// This process signs over the measurements of an emulated device.
    Sign,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Default folder of the model: in the user's cache.
pub fn default_model() -> PathBuf {
    model_below(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir())
}

/// An empty `XDG_CACHE_HOME` counts as unset (XDG Base Directory Specification).
fn model_below(cache: Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    let cache = cache
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".cache")))
        .unwrap_or_default();
    cache.join("clearseal/models/all-MiniLM-L6-v2")
}

fn parse_simulation(text: &str) -> Result<Simulation, String> {
    match text {
        "sign" => Ok(Simulation::Sign),
        "true" | "yes" | "on" | "1" => Ok(Simulation::Whole),
        "false" | "no" | "off" | "0" | "" => Ok(Simulation::Off),
        _ => Err("expected `sign`, or nothing".to_owned()),
    }
}

fn parse_policy_version(text: &str) -> Result<String, String> {
    if (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 64 visible ASCII characters".to_owned())
    }
}

/// The form of host-proxy's folder names. Such a name cannot leave the path that it becomes a part of.
fn parse_container(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if (1..=64).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 64 letters, digits, `.`, `-` or `_`, no dot first".to_owned())
    }
}

fn parse_mode(text: &str) -> Result<SecurityMode, String> {
    SecurityMode::from_name(text).ok_or_else(|| "expected production or evaluation".to_owned())
}

fn parse_rotation(text: &str) -> Result<Duration, String> {
    parse_between(text, 10, 86_400, "10 seconds to 24 hours")
}

fn parse_deadline(text: &str) -> Result<Duration, String> {
    parse_between(text, 1, 3_600, "1 second to 1 hour")
}

fn parse_step(text: &str) -> Result<Duration, String> {
    let step = parse_duration(text)?;
    match (Duration::from_millis(1)..=Duration::from_secs(1)).contains(&step) {
        true => Ok(step),
        false => Err("expected 1 millisecond to 1 second".to_owned()),
    }
}

/// Parses a duration between two bounds in seconds, both included; `range` describes them in the error.
fn parse_between(text: &str, least: u64, most: u64, range: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("expected {range}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, clap::Error> {
        Config::try_parse_from(std::iter::once(&"enclave-server").chain(arguments))
    }

    #[test]
    fn the_command_is_consistent_and_documented() {
        let command = Config::command();
        command.clone().debug_assert();
        for argument in command
            .get_arguments()
            .filter(|argument| argument.get_id() != "help" && argument.get_id() != "version")
        {
            assert!(
                argument.get_help().is_some(),
                "{} has no help",
                argument.get_id()
            );
            assert!(
                argument.get_env().is_some(),
                "{} has no environment variable",
                argument.get_id()
            );
        }
    }

    #[test]
    fn unknown_flags_and_bad_values_are_refused() {
        for arguments in [
            &["--no-such-flag"][..],
            &["--threads", "0"],
            &["--engine", "onnx"],
            &["--simulate-nsm=maybe"],
            &["--rotate-every", "5s"],
            &["--rotate-every", "1"],
            &["--deadline", "é"],
            &["--deadline", "0s"],
            &["--deadline", "2h"],
            &["--deadline", "18446744073709551615s"],
            &["--policy-version", "a b"],
            &["--security-mode", "prod"],
            &["--max-request-bytes", "4200000"],
            &["--answer-steps", "0.5ms"],
            &["--answer-steps", "2s"],
            &["--answer-steps", "10ms", "--metrics", "tcp:127.0.0.1:9100"],
            &["extra"],
        ] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn a_command_needs_no_option_of_the_server() {
        Arguments::command().debug_assert();
        let parse = |arguments: &[&str]| {
            Arguments::try_parse_from(std::iter::once(&"enclave-server").chain(arguments))
        };
        let check = parse(&["check-model", "folder", "--model-lock", "lock"]).unwrap();
        let Some(Command::CheckModel(check)) = check.command else {
            panic!("no command")
        };
        assert_eq!(check.model_lock, Some("lock".into()));
        let served = parse(&["--model", "folder", "--model-lock", "lock"]).unwrap();
        assert!(served.command.is_none());
        assert_eq!(served.config.model_lock, [PathBuf::from("lock")]);
        let several = [
            "--model",
            "a",
            "--model-lock",
            "a.json",
            "--model",
            "b",
            "--model-lock",
            "b.json",
        ];
        let several = parse(&several).unwrap().config;
        assert_eq!(several.model, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(several.model_lock.len(), several.model.len());
        assert!(parse(&["check-model"]).is_err());
        assert!(parse(&["--threads", "1", "check-model", "folder"]).is_err());
    }

    #[test]
    fn simulation_is_never_production() {
        let config = parse(&["--simulate-nsm", "--security-mode", "production"]).unwrap();
        assert_eq!(config.effective_security_mode(), SecurityMode::Evaluation);
        let signing = parse(&["--simulate-nsm=sign"]).unwrap();
        assert_eq!(signing.simulate_nsm, Simulation::Sign);
        assert_eq!(signing.effective_security_mode(), SecurityMode::Evaluation);
        assert_eq!(parse(&[]).unwrap().simulate_nsm, Simulation::Off);
        assert_eq!(
            parse(&[]).unwrap().effective_security_mode(),
            SecurityMode::Production
        );
    }

    #[test]
    fn an_empty_cache_folder_counts_as_unset() {
        let home = || Some(PathBuf::from("/home/someone"));
        let expected = PathBuf::from("/home/someone/.cache/clearseal/models/all-MiniLM-L6-v2");
        for cache in [None, Some(OsString::new())] {
            assert_eq!(model_below(cache, home()), expected);
        }
        let named = model_below(Some("/var/cache".into()), home());
        assert_eq!(
            named,
            PathBuf::from("/var/cache/clearseal/models/all-MiniLM-L6-v2")
        );
    }
}
