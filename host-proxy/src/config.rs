//! The command line, parsed once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sockets::{EnclaveAddress, ListenAddress, parse_duration};

use crate::body::chargeable;
use crate::crls::CrlPlace;
use crate::deployment::WitnessPlace;

/// Relay sealed requests to an enclave and serve the page that makes them
///
/// The proxy holds no key that opens a request: what it relays it cannot read. It answers the web page (--web), the attestation and gateway
/// endpoints under /v1, /healthz and /readyz on one address, and metrics on another (--metrics).
///
/// `host-proxy log check FILE` checks a file of --receipt-log. `host-proxy deployment init` makes a file of --deployment-log, and
/// `host-proxy deployment check` checks it.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "host-proxy", version, max_term_width = 100)]
pub struct Config {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Address of the metrics, GET /metrics, for Prometheus; without it there are none. Keep it off public networks
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<SocketAddr>,
    /// The enclave: tcp:HOST:PORT, unix:/path, vsock:CID:PORT or hybrid:/path:PORT. Given several times: each request goes to
    /// the one whose keys it is sealed to; one that does not answer is left out, and tried again after 1 to 30 seconds
    #[arg(long = "enclave", value_name = "ADDRESS", required = true)]
    pub enclaves: Vec<EnclaveAddress>,
    /// Address of the service for the enclave, which gets sealed models there: vsock:PORT, unix:/path or tcp:IP:PORT with a
    /// loopback address; without it there is none
    #[arg(long, value_name = "ADDRESS", value_parser = ListenAddress::parse_local)]
    pub parent_listen: Option<ListenAddress>,
    /// Sealed models for the enclave, each as NAME/model.sealed and NAME/data-key.wrapped: a folder, or in a build with the
    /// feature `cloud` s3://BUCKET/PREFIX or the URL of a web server that serves ranges
    #[arg(long, value_name = "PLACE", requires = "parent_listen")]
    pub models: Option<String>,
    /// Ask AWS KMS in this region for the enclave's data key; needs the feature `cloud`
    #[arg(long, value_name = "REGION", requires = "parent_listen")]
    pub kms_region: Option<String>,
    /// Ask the simulated KMS at this loopback URL for the enclave's data key. For development: proves nothing
    #[arg(
        long,
        value_name = "URL",
        requires = "parent_listen",
        conflicts_with = "kms_region"
    )]
    pub simulate_kms: Option<String>,
    /// Folder for the sealed indexes of the enclave's clients, created where it is missing; without it none are kept. Only the enclave
    /// reads it, and holds no key of it without a client
    #[arg(long, value_name = "FOLDER", requires = "parent_listen")]
    pub indexes: Option<PathBuf>,
    /// Most bytes of all indexes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 30, requires = "indexes", value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 50))]
    pub indexes_max: u64,
    /// Folder with the built page; without it only the endpoints are served
    #[arg(long, value_name = "DIR")]
    pub web: Option<PathBuf>,
    /// File of the transparency log of receipts, created where it is missing; without it no log is kept. For one enclave only
    #[arg(long, value_name = "FILE")]
    pub receipt_log: Option<PathBuf>,
    /// File of the deployment's log, which `host-proxy deployment init` made: keys of enclaves, heads of their logs and the files of
    /// --deployment-records, in one tree that witnesses cosign (docs/WITNESS.md)
    #[arg(long, value_name = "FILE", requires = "deployment_key")]
    pub deployment_log: Option<PathBuf>,
    /// File of that log's key
    #[arg(long, value_name = "FILE", requires = "deployment_log")]
    pub deployment_key: Option<PathBuf>,
    /// Folder whose files become records of that log, each named NAME.KIND: release, page, withdrawn, policy, keys or head
    #[arg(long, value_name = "DIR", requires = "deployment_log")]
    pub deployment_records: Option<PathBuf>,
    /// Folder to write that log to as static files, for a web server or an object store
    #[arg(long, value_name = "DIR", requires = "deployment_log")]
    pub deployment_files: Option<PathBuf>,
    /// Witness that cosigns that log: its key, a space and its URL; may be given several times
    #[arg(long = "witness", value_name = "KEY URL", requires = "deployment_log")]
    pub witnesses: Vec<WitnessPlace>,
    /// Witnesses that must have cosigned a checkpoint before it is published; by default more than half of them
    #[arg(long, value_name = "K", requires = "witnesses")]
    pub witness_quorum: Option<usize>,
    /// Interval at which a document is made for the clients that may share one (`shared=1`), while any wait; 1ms to 5s. The median
    /// wait of a client is half as long. The time in a document, and so in a receipt's evidence, reveals no more exactly when its
    /// client came
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_document_interval)]
    pub document_interval: Duration,
    /// Certificate revocation lists to serve under /v1/crls: `chain` for the addresses that the enclave's certificates name, an
    /// http:// address, or a folder of *.crl files in DER; may be given several times. Without it no list is served
    #[arg(long = "crl", value_name = "PLACE")]
    pub crls: Vec<CrlPlace>,
    /// Host that may be asked for revocation lists, as HOST or HOST:PORT, next to AWS's own; may be given several times
    #[arg(long = "crl-host", value_name = "HOST", requires = "crls")]
    pub crl_hosts: Vec<String>,
    /// Interval at which new leaves of the log are published, 0.1s to 1h: readers learn how many requests came in it, and not when
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_publish_interval)]
    pub publish_every: Duration,
    /// Sealed requests that the enclave works on at once; above it an address that holds few of them waits for at
    /// most 5 seconds, and others get 503 BUSY
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_count)]
    pub max_concurrent: usize,
    /// Client connections held open at once; above it new ones wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = parse_count)]
    pub max_connections: usize,
    /// Attested channels open at once; above it the answer is 503 BUSY. The enclave serves 64
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_count)]
    pub max_channels: usize,
    /// Bytes of bodies in memory at once, beyond the first 16 KiB of each: those of requests until the enclave answers, those of
    /// answers until the client has read them. When they are used up, new bodies get 503 BUSY, and answers wait for memory
    #[arg(long, value_name = "BYTES", default_value_t = 128 << 20, value_parser = parse_count)]
    pub max_buffered_bytes: usize,
    /// Percent of the four limits above that one source address (IPv6: /64) can hold; above it the answer is 429 SOURCE_BUSY,
    /// or the connection is closed. Behind a load balancer, which has one address for all clients: 100
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub source_share: u8,
    /// Bytes a second that one source address (IPv6: /64) can send; bytes beyond are read later. Behind a load balancer, which has
    /// one address for all clients: the rate of all of them
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20, value_parser = clap::value_parser!(u64).range(4096..=1 << 40))]
    pub source_rate: u64,
    /// Largest request body that is relayed
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20)]
    pub max_request_bytes: u64,
    /// Largest answer that is relayed
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    pub max_answer_bytes: u64,
    /// Time for a connection to the enclave
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_timeout)]
    pub connect_timeout: Duration,
    /// Time until the enclave begins its answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
    pub first_byte_timeout: Duration,
    /// Time for a whole exchange, both bodies included; of it a slow sender leaves 5 seconds to the enclave, or a quarter
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_timeout)]
    pub total_timeout: Duration,
    /// Longest time for which a client may send or read nothing in the middle of a body, or less than 4 KiB a second on average
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    pub stall_timeout: Duration,
    /// Longest time for a client to send a request's head, and for which a connection may be idle
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = parse_timeout)]
    pub idle_timeout: Duration,
    /// Time for requests in flight to finish after SIGTERM or SIGINT; storing the rest of the log takes up to 5 seconds more
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    pub drain_timeout: Duration,
    /// Form of the log on standard error
    #[arg(long, value_name = "FORM", default_value = "json", value_enum)]
    pub log: LogForm,
}

impl Config {
    /// Refuses limits that exclude each other.
    ///
    /// # Errors
    /// Names the flags.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.receipt_log.is_none() || self.enclaves.len() == 1,
            "--receipt-log follows the log of one enclave, and --enclave names {}; leave out --receipt-log, or name one enclave",
            self.enclaves.len()
        );
        let share = self.max_buffered_bytes as u128 * u128::from(self.source_share) / 100;
        let largest = usize::try_from(self.max_request_bytes).unwrap_or(usize::MAX);
        anyhow::ensure!(
            chargeable(largest) as u128 <= share,
            "--max-request-bytes {largest} is more than one address can hold: --source-share {} percent of --max-buffered-bytes {} is {share}; raise one of these, or lower --max-request-bytes",
            self.source_share,
            self.max_buffered_bytes
        );
        Ok(())
    }
}

/// Format of log lines.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// One JSON object a line.
    Json,
    /// For a person.
    Text,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    // A timeout of centuries would overflow the clock.
    match time <= Duration::from_secs(86_400) {
        true => Ok(time),
        false => Err("write 24h at most".to_owned()),
    }
}

fn parse_document_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    // At a longer interval, clients that wait for a document would time out.
    match (Duration::from_millis(1)..=Duration::from_secs(5)).contains(&interval) {
        true => Ok(interval),
        false => Err("write 1ms to 5s".to_owned()),
    }
}

fn parse_publish_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    match (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        true => Ok(interval),
        false => Err("write 0.1s to 1h".to_owned()),
    }
}

fn parse_count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| (1..=1 << 40).contains(count))
        .ok_or_else(|| "write a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Config::command().debug_assert();
    }

    #[test]
    fn limits_that_exclude_each_other_are_refused() {
        let check = |rest: &[&str]| {
            let fixed = ["host-proxy", "--enclave=unix:/s"];
            Config::parse_from(fixed.iter().chain(rest)).check()
        };
        assert!(check(&[]).is_ok());
        assert!(check(&["--source-share=7"]).is_ok());
        for wrong in [
            &["--max-request-bytes=100000000"][..],
            &["--source-share=5"],
            &["--max-buffered-bytes=8000000", "--source-share=100"],
        ] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains("--max-request-bytes"), "{error}");
        }
        let log = ["--receipt-log=/l", "--enclave=unix:/t"];
        assert!(check(&log).is_err());
    }

    #[test]
    fn unknown_flags_and_impossible_limits_are_refused() {
        let parse = |rest: &[&str]| {
            Config::try_parse_from(["host-proxy", "--enclave=unix:/s"].iter().chain(rest))
        };
        assert!(parse(&[]).is_ok());
        for wrong in [
            "--trace",
            "--total-timeout=0s",
            "--total-timeout=30",
            "--total-timeout=25h",
            "--max-concurrent=0",
            "--document-interval=0.5ms",
            "--document-interval=6s",
            "--publish-every=0.05s",
            "--publish-every=2h",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }
}
