//! The command line, all of it.

use crate::moment::Moment;
use crate::proxy::HostName;
use crate::render::Accepted;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Check what runs in an AWS Nitro Enclave, and embed text that only it can read.
///
/// Exit status: 0 verified; 1 refused, or a lesser verdict that no flag accepts; 2 could not judge. `inspect` ends with 0 on
/// `authentic`, and a command with --key on `signed`.
#[derive(Debug, Parser)]
#[command(name = "clearseal", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what evidence says, and whether it is genuine; judges no image.
    Inspect {
        #[command(subcommand)]
        what: Inspect,
    },
    /// Judge evidence against a policy.
    Verify {
        #[command(subcommand)]
        what: Verify,
    },
    /// Look at a trust policy.
    Policy {
        #[command(subcommand)]
        what: PolicyVerb,
    },
    /// Seal a model for enclaves, or look into a sealed one.
    Model {
        #[command(subcommand)]
        what: ModelVerb,
    },
    /// Judge a release, and what a service serves of it.
    Release {
        #[command(subcommand)]
        what: ReleaseVerb,
    },
    /// Embed the lines of standard input through a sealed channel; one JSON object a line on standard output.
    ///
    /// Empty lines are left out; `index` is the number of the line, from 0. A line that the service refuses, such as one of more than
    /// 64 KiB, is left out too and named on standard error.
    ///
    /// Exit status: 0 each line has its row; 1 the service was refused; 2 it could not be asked; 3 lines were refused, the
    /// others have their rows.
    Embed(EmbedArgs),
    /// Serve OpenAI's API on a local port, and seal every request to a verified enclave.
    ///
    /// Starts only on the verdict `verified` (or `simulated` with --accept-simulated), renews the proof before it ends, and sends
    /// nothing without one. Web pages are refused: a page verifies the enclave by itself. On SIGINT or SIGTERM it takes no further
    /// connections, and ends when the requests under way have ended, after 10 seconds at the latest.
    Proxy(ProxyArgs),
    /// Print completions for a shell.
    ///
    /// For bash: clearseal completions bash > ~/.local/share/bash-completion/completions/clearseal
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each command.
    Manual {
        /// Folder for the pages; made where it is not there.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Inspect {
    /// Checks 1 to 21 of an attestation document: authentic or not, and its contents.
    ///
    /// Debug mode is reported, and the image is not judged.
    Attestation(InspectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Attestation document, or the evidence that `GET /v1/attestation` answers; raw, base64 or hex; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Moment for which certificates are judged: `now`, `document` (its own timestamp) or RFC 3339.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Root certificate to trust in place of AWS's, DER or PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) crls: Crls,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verify {
    /// All checks of an attestation document against a trust policy.
    Attestation(VerifyAttestationArgs),
    /// A receipt: parse, signature, claims, policy.
    Receipt(VerifyReceiptArgs),
    /// An audit bundle: attestation and receipt as one chain, at the receipt's time.
    Bundle(VerifyBundleArgs),
    /// The transparency log: whether a receipt is in the signed tree, and whether two heads are of one history.
    Log(VerifyLogArgs),
    /// Keys that a client was given: do hosts show their log, and hand out the same keys to a stranger?
    Keys(VerifyKeysArgs),
    /// Vectors: whether each was computed from its text, by the model and in the image that its receipt names.
    ///
    /// Reads the proofs that `clearseal embed --proofs` wrote, and rows as it wrote them, in the same order. To show one row alone,
    /// give its line of the vectors, and of the proofs the line of evidence before it and its own.
    Vector(VerifyVectorArgs),
    /// The policy of a KMS key: whether anybody can decrypt without being an accepted release in an enclave.
    ///
    /// Generates every kind of request that must fail (docs/KEY-RELEASE.md), and refuses a policy that may let one succeed.
    ///
    /// Exit status: 0 no statement allows it; 1 some statement does, or is not understood; 2 unreadable.
    KmsPolicy(VerifyKmsPolicyArgs),
}

/// Revocation lists that a judgement takes into account.
#[derive(Debug, Args)]
pub(crate) struct Crls {
    /// Certificate revocation list of an issuer in the chain, DER or PEM; may be given several times. Without any, revocation
    /// is not judged, which a policy may refuse.
    #[arg(long = "crl", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// How a judgement is shown, and what the command ends with.
#[derive(Debug, Args)]
pub(crate) struct Outcome {
    /// Exit with 0 on the verdict `simulated` too (a development root proves nothing about hardware).
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Outcome {
    pub(crate) fn accepted(&self) -> Accepted {
        Accepted {
            simulated: self.accept_simulated,
            authentic: false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct VerifyVectorArgs {
    /// Proofs, JSON lines; `-` is standard input.
    pub(crate) proofs: PathBuf,
    /// Rows with `text` and `embedding`, JSON lines as `clearseal embed` writes them.
    pub(crate) vectors: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyKmsPolicyArgs {
    /// Key policy, JSON, or what `aws kms get-key-policy` prints; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Measurements of an EC2 instance that is accepted too, JSON as `nitro-tpm-pcr-compute` prints it; may be given more than once.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance: Vec<PathBuf>,
    /// ARN of the key, where statements name it instead of `*`.
    #[arg(long, value_name = "ARN")]
    pub(crate) key_arn: Option<String>,
    /// Moment for which releases count as ended: `now` or RFC 3339.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyAttestationArgs {
    /// Attestation document, or the evidence that `GET /v1/attestation` answers; raw, base64 or hex; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Service manifest that the document must bind; not needed where FILE is evidence, which contains it.
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Nonce that the document must carry; without it the verdict is `authentic` at best, for the document may be old.
    #[arg(long, value_name = "HEX")]
    pub(crate) nonce: Option<String>,
    /// Moment for which everything is judged: `now`, `document` (its own timestamp) or RFC 3339.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Exit with 0 on the verdict `authentic` too: the image is as the policy says; whether the document is an old one, or
    /// whose keys it names, was not asked.
    #[arg(long)]
    pub(crate) accept_authentic: bool,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyReceiptArgs {
    /// Receipt, raw, hex, base64 or base64url, or an audit bundle (JSON); `-` is standard input.
    pub(crate) file: PathBuf,
    /// Ed25519 receipt key, where it is known from elsewhere; the verdict is then `signed` at best.
    #[arg(long, value_name = "HEX", conflicts_with = "bundle")]
    pub(crate) key: Option<String>,
    /// Nonce that the receipt must carry; with --key.
    #[arg(long, value_name = "HEX", requires = "key")]
    pub(crate) nonce: Option<String>,
    /// How old a receipt may be at the moment of --at, in seconds; with --key.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) max_age: u64,
    /// Audit bundle that holds the attestation of the receipt's key.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Trust policy, JSON; without one the image behind the key is not judged.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Moment for which everything is judged: `now`, `document` (the receipt's own time) or RFC 3339.
    #[arg(long, default_value = "document")]
    pub(crate) at: Moment,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Explain a trust policy in plain words: what it accepts, until when, and what its owner should look at.
    ///
    /// Exit status: 0 it accepts something, 1 refused (no policy, or it accepts nothing at that moment), 2 unreadable.
    Check(PolicyCheckArgs),
    /// Print the policy of a KMS key that releases a model's key to the accepted releases alone (see docs/KEY-RELEASE.md).
    Kms(PolicyKmsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyKmsArgs {
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Measurements of an EC2 instance that is accepted too, JSON as `nitro-tpm-pcr-compute` prints it; may be given more than once.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance: Vec<PathBuf>,
    /// Role of the enclave's parent, and of accepted instances: decrypts, for attested code.
    #[arg(long, value_name = "ARN")]
    pub(crate) role: String,
    /// Role that makes data keys to seal models with.
    #[arg(long, value_name = "ARN")]
    pub(crate) sealer: Option<String>,
    /// Role that looks at the key and deletes it; it cannot change the policy.
    #[arg(long, value_name = "ARN")]
    pub(crate) keeper: Option<String>,
    /// Moment for which releases count as ended: `now` or RFC 3339.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArgs {
    /// Trust policy, JSON (see docs/POLICY.md); `-` is standard input.
    pub(crate) file: PathBuf,
    /// Moment for which it is explained: `now` or RFC 3339.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Print the explanation as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyBundleArgs {
    /// Audit bundle (JSON); `-` is standard input.
    pub(crate) file: PathBuf,
    /// Trust policy, JSON (see docs/PROTOCOL.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyLogArgs {
    /// Receipt or audit bundle that should be in the log; `-` is standard input. Without it, heads alone are judged.
    #[arg(required_unless_present = "head")]
    pub(crate) file: Option<PathBuf>,
    /// Proof that the receipt is in the log (JSON, as `GET /v1/log/{id}/inclusion` answers).
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) proof: Option<PathBuf>,
    /// Host to ask for what is not given as a file.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Signed head with its evidence (JSON, as `GET /v1/log/{id}/head` answers).
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) head: Option<PathBuf>,
    /// Head that was kept from before: is its history the start of this one?
    #[arg(long, value_name = "FILE")]
    pub(crate) earlier: Option<PathBuf>,
    /// Proof from the earlier head to this one (JSON, as `GET /v1/log/{id}/consistency` answers).
    #[arg(long, value_name = "FILE", requires = "earlier")]
    pub(crate) consistency: Option<PathBuf>,
    /// Write the head that was judged here, unless it is refused, to be the earlier one next time.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) keep_head: Option<PathBuf>,
    /// Ed25519 receipt key, where it is known from elsewhere; the verdict is then `signed` at best.
    #[arg(long, value_name = "HEX", conflicts_with = "policy")]
    pub(crate) key: Option<String>,
    /// Trust policy, JSON: judges the attestation of the key, out of the bundle or beside the head.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyKeysArgs {
    /// Evidence of the keys: what `GET /v1/attestation` answered, or an audit bundle; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Host to ask, as a stranger, for evidence and then for the log of the keys; may be given several times. Ask from another place
    /// than the one that was given the keys: a host that knows who asks answers as it likes (see docs/THREATS.md).
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) url: Vec<String>,
    /// Requests for evidence that each host gets at most. 1 is the strictest, for a host that has one enclave; behind a balancer each
    /// answer may be another enclave's.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) requests: u8,
    /// Trust policy, JSON. The evidence is judged at the time that it states itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

/// The trust policy of a command that sends something.
#[derive(Debug, Args)]
pub(crate) struct PolicyFlags {
    /// Trust policy, JSON (see docs/POLICY.md). Nothing is sent to an enclave that it does not verify. A change of the file
    /// counts within two seconds; for `proxy` at once on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Address of a trust policy that its publisher signs with minisign; the signature is at URL.minisig. Asked for again and
    /// again: a release that a later policy does not accept is used no more. An older policy is refused.
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "policy",
        requires = "policy_key"
    )]
    pub(crate) policy_url: Option<String>,
    /// The publisher's minisign key: a file, or its second line, `RW…`.
    #[arg(long, value_name = "KEY", requires = "policy_url")]
    pub(crate) policy_key: Option<PathBuf>,
    /// File for the highest number of a signed policy. Without it, an older policy is accepted after a restart, until that ends.
    #[arg(long, value_name = "FILE", requires = "policy_url")]
    pub(crate) policy_state: Option<PathBuf>,
    /// Seconds between two questions for the signed policy.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400), requires = "policy_url")]
    pub(crate) policy_every: u32,
}

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// Where the service is.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development; without --policy judged by the service's own development policy.
    /// The operator of a simulated enclave reads what is sent to it.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Form of the output. `npy` holds the vectors alone, and is written at the end; `parquet` can be
    /// read when it has ended.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: Format,
    /// What each row holds, in this order; all of it unless told otherwise.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FIELD,...")]
    pub(crate) fields: Option<Vec<Field>>,
    /// Send everything over one attested channel, for many lines: the answer is not waited for before the next batch leaves, and
    /// a connection that breaks is made again without losing or repeating a line.
    #[arg(long)]
    pub(crate) bulk: bool,
    /// Seal each request to so many verified enclaves behind the address; whichever has room answers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8), conflicts_with = "bulk")]
    pub(crate) candidates: u8,
    /// Lines that travel in one request.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) batch: u16,
    /// Write each batch's audit bundle to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipts: Option<PathBuf>,
    /// Write a proof of each row to this file, JSON lines: which vector was computed from which text (see `verify vector`).
    #[arg(long, value_name = "FILE")]
    pub(crate) proofs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Where the service is. Given several times: the next one is asked where those before it fail, each verified by itself.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: Vec<String>,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development. Its operator reads what is sent to it.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Seal each request to so many verified enclaves, behind one address or several; whichever has room answers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) candidates: u8,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8788")]
    pub(crate) listen: SocketAddr,
    /// Allow an address that other machines reach; needs --api-key. What they send to this proxy is not sealed on its way here.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Answer requests that name this host, too, such as host.docker.internal for containers; may be given several times. Names of
    /// this machine's loopback and the address of --listen are answered always, other names never: a web page could have such a name.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<HostName>,
    /// Key that clients have to send as `authorization: Bearer KEY`; others get 401. With --allow-remote the status page and /healthz
    /// need it too.
    #[arg(
        long,
        value_name = "KEY",
        env = "CLEARSEAL_API_KEY",
        hide_env_values = true
    )]
    pub(crate) api_key: Option<String>,
    /// Append each answer's audit bundle to this file, one JSON object a line. Without the bundle there is no answer.
    ///
    /// An answer is given when its line is on the disk (fdatasync, one for all lines that wait at that time). One process writes a
    /// file: FILE.lock keeps others out. A last line that a crash broke off is moved to FILE.torn at the next start.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipts: Option<PathBuf>,
    /// Bytes after which --receipts begins a new file; full ones are kept as FILE.1, FILE.2 and so on.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) receipts_size: u64,
    /// Sealed requests at once; above it requests wait. A host gives one address a part of its places.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) concurrency: u16,
    /// Longest that a request waits for memory and then for one of --concurrency places; after it, it gets 429.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) queue_timeout: u16,
}

/// Form of the output of `embed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line.
    Jsonl,
    /// RFC 4180, with a header; one column a component of the vector.
    Csv,
    /// NumPy: float32, one row a line.
    Npy,
    /// Apache Parquet: a column a field, the vector as a list of floats.
    Parquet,
}

/// A member or column of the output of `embed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Field {
    /// Number of the line in the input, from 0.
    Index,
    /// The line.
    Text,
    /// Tokens that the model read.
    Tokens,
    /// Whether the line is longer than the model reads.
    Truncated,
    /// The vector.
    Embedding,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelVerb {
    /// Seal a sentence-transformers folder (safetensors) into one container, model.sealed.
    ///
    /// Every file below the folder goes into it. Prints the model hash that receipts will state.
    Seal(ModelSealArgs),
    /// Show what a container holds; with its key, open all of it and compare every file with its digest.
    ///
    /// Exit status: 0 well-formed, and genuine where a key was given; 1 refused; 2 unreadable.
    Inspect(ModelInspectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ModelSealArgs {
    /// The model's folder.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Container to write; an existing one is replaced when the new one is complete.
    #[arg(long, value_name = "FILE", default_value = "model.sealed")]
    pub(crate) out: PathBuf,
    /// Data key: a file of 32 bytes that only its owner can read.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// Make the data key; fails where the file exists.
    #[arg(long)]
    pub(crate) new_key: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ModelInspectArgs {
    /// The container.
    pub(crate) file: PathBuf,
    /// Data key: a file of 32 bytes that only its owner can read.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseVerb {
    /// Whether the publisher says today that this is the release, and whether image and page are as it lists them.
    ///
    /// Exit status: 0 genuine; 1 refused; 2 could not judge.
    Verify(ReleaseVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseVerifyArgs {
    /// The release manifest.
    pub(crate) manifest: PathBuf,
    /// The publisher's minisign key: a file, or its second line, `RW…`.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: PathBuf,
    /// The signature [default: MANIFEST.minisig].
    #[arg(long, value_name = "FILE")]
    pub(crate) signature: Option<PathBuf>,
    /// Compare this enclave image with the release.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// Compare every file of the page that this service serves with the release.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Moment for which it is judged: `now` or RFC 3339.
    #[arg(long, value_name = "AT", default_value = "now")]
    pub(crate) at: Moment,
    /// Accept a signature that is older than seven days. A withdrawn release looks like that.
    #[arg(long)]
    pub(crate) accept_old: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
