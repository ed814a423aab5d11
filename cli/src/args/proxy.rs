//! Arguments of `clearseal proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::shared::PolicyFlags;
use crate::proxy::{HostName, OnEmpty};

#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Address of the service; may be repeated. A later service is asked if those before it fail. Each is verified separately.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: Vec<String>,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development. Its operator can read everything that is sent to it.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Number of verified enclaves, behind one or several addresses, to seal each request to; one that has capacity answers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) candidates: u8,
    /// Address to listen on; port 0 chooses a free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8788")]
    pub(crate) listen: SocketAddr,
    /// Allow --listen on an address that other machines can reach; needs --api-key. Their requests to this proxy are not sealed.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Also answer requests for this host name, such as host.docker.internal for containers; may be repeated. Requests for loopback
    /// names and for the address of --listen are always answered; all other names are refused, because a web page could use one.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<HostName>,
    /// Serve TLS with this certificate, PEM, followed by those of its issuers if there are any. For clients that send a key only over
    /// TLS, and for requests of other machines.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, PEM, without a password.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve TLS with a certificate that the proxy makes for this run and signs itself, and print its SHA-256 fingerprint. It is for
    /// loopback names, the address of --listen and the names of --allow-host. With FILE, also write the certificate there, PEM, for
    /// clients to trust.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "tls_cert")]
    pub(crate) tls_self_signed: Option<Option<PathBuf>>,
    /// Require this key from clients, as `authorization: Bearer KEY` or `api-key: KEY`; others get status 401. With --allow-remote, the status page
    /// and /healthz need it too.
    #[arg(
        long,
        value_name = "KEY",
        env = "CLEARSEAL_API_KEY",
        hide_env_values = true
    )]
    pub(crate) api_key: Option<String>,
    /// Append the audit bundle of each answer to this file, JSON lines. If the bundle cannot be written, the answer is withheld.
    ///
    /// Sends an answer once its line is on disk (fdatasync, one for all lines that wait at that time). Only one process can write to
    /// a file: FILE.lock excludes others. After a crash, the next start moves an incomplete last line to FILE.torn.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipts: Option<PathBuf>,
    /// Size at which --receipts begins a new file, in bytes; full files are kept as FILE.1, FILE.2 and so on.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) receipts_size: u64,
    /// Maximum number of concurrent sealed requests; further requests wait. A host also limits the requests of one address.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) concurrency: u16,
    /// Maximum time that a request waits for memory and for --concurrency, in seconds; then it gets status 429.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) queue_timeout: u16,
    /// Time for which a request is held while the service is away, in seconds; then the client gets an error. The proxy
    /// connects again meanwhile. 0 returns errors at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub(crate) wait: u16,
    /// Refuse texts that are longer than the model reads (INPUT_TOO_LONG) instead of embedding their beginning. For clients
    /// that return only vectors, and so hide that a text was truncated.
    #[arg(long)]
    pub(crate) refuse_long: bool,
    /// Effect of an empty text in a request.
    #[arg(long, value_enum, default_value = "refuse")]
    pub(crate) empty: OnEmpty,
}
