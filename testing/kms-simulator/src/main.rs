//! `kms-simulator`: makes a simulated key, and serves `Decrypt` with it.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use attestation::UnixMillis;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use clap::{Args, Parser, Subcommand};
use getrandom::SysRng;
use kms_simulator::{Enclave, Model, Simulator, create, put_policy};
use rand_chacha::ChaCha20Rng;
use rand_core::{SeedableRng, TryRng};

/// Simulates AWS KMS for development. Anyone who runs it has the key, so it proves nothing.
#[derive(Debug, Parser)]
#[command(name = "kms-simulator", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key, a data key under it, a development root and the policies, in a folder.
    NewKey(NewKey),
    /// Release the key to a built image instead. The image names the key, so make the key first.
    PutPolicy(PutPolicy),
    /// Answer `Decrypt` over HTTP, in the form in which host-proxy asks KMS.
    Serve(Serve),
}

#[derive(Debug, Args)]
struct PutPolicy {
    /// Folder that `new-key` made.
    #[arg(long, value_name = "DIR")]
    key: PathBuf,
    /// The image's measurements.json, which its builder writes.
    #[arg(long, value_name = "FILE")]
    measurements: PathBuf,
}

#[derive(Debug, Args)]
struct NewKey {
    /// Folder for the files.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The enclave-server that will run: its hash determines the registers of the simulated enclave.
    #[arg(long, value_name = "FILE")]
    enclave: PathBuf,
    /// Name of the model.
    #[arg(long, value_name = "NAME")]
    model: String,
    /// SHA-256 of the model's artifact set.
    #[arg(
        long,
        value_name = "HEX",
        required_unless_present = "seal",
        conflicts_with = "seal"
    )]
    model_sha256: Option<String>,
    /// Folder of the model: uses its SHA-256, and seals it with the data key as OUT/models/NAME/model.sealed, next to the
    /// wrapped key.
    #[arg(long, value_name = "DIR")]
    seal: Option<PathBuf>,
    /// Seal the files of this lock alone, and refuse those that differ from it.
    #[arg(long, value_name = "FILE", requires = "seal")]
    model_lock: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Serve {
    /// Folder that `new-key` made.
    #[arg(long, value_name = "DIR")]
    key: PathBuf,
    /// Loopback address to listen on. The program prints it, with the port that the system chose.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::NewKey(args) => new_key(&args),
        Command::PutPolicy(args) => put_policy(&args.key, &args.measurements, now()),
        Command::Serve(args) => serve(&args),
    }
}

fn new_key(args: &NewKey) -> Result<()> {
    let lock = args.model_lock.as_deref();
    let folder = args.seal.as_deref();
    let model = folder.map(|folder| Model::read(folder, lock)).transpose()?;
    let sha256 = match &model {
        Some(model) => model.sha256(),
        None => base16ct::mixed::decode_vec(args.model_sha256.as_deref().unwrap_or_default())
            .ok()
            .and_then(|digest| digest.try_into().ok())
            .ok_or_else(|| anyhow!("--model-sha256 is not 64 hex digits"))?,
    };
    let enclave = Enclave {
        binary: &args.enclave,
        model: &args.model,
        sha256: &sha256,
    };
    let mut rng = rng()?;
    create(&args.out, &enclave, now(), &mut rng)?;
    match model {
        Some(model) => model.seal(&args.out, &args.model, &mut rng),
        None => Ok(()),
    }
}

fn serve(args: &Serve) -> Result<()> {
    anyhow::ensure!(
        args.listen.ip().is_loopback(),
        "--listen is not a loopback address; a simulated KMS is for this machine only"
    );
    let simulator = Arc::new(Simulator::open(&args.key)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}", args.listen))?;
        let address = listener.local_addr()?;
        writeln!(
            std::io::stderr(),
            "KMS_SIMULATED: this KMS is simulated: anyone who runs it has the key, and it proves nothing"
        )?;
        writeln!(std::io::stdout(), "{} http://{address}", simulator.arn)?;
        let router = axum::Router::new()
            .route("/", post(decrypt))
            .layer(DefaultBodyLimit::max(MAX_REQUEST))
            .with_state(simulator);
        axum::serve(listener, router).await?;
        Ok(())
    })
}

/// Largest request in bytes: a document of 16 KiB and a wrapped key of 6 KiB, in base64.
const MAX_REQUEST: usize = 64 * 1024;

async fn decrypt(
    State(simulator): State<Arc<Simulator>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = headers.get("x-amz-target").map(|target| target.as_bytes());
    if target != Some(b"TrentService.Decrypt") {
        let body = serde_json::json!({ "__type": "UnknownOperationException", "message": "only Decrypt is simulated" });
        return answer(StatusCode::BAD_REQUEST, &body);
    }
    let Ok(mut rng) = rng() else {
        let body =
            serde_json::json!({ "__type": "KMSInternalException", "message": "no random bytes" });
        return answer(StatusCode::INTERNAL_SERVER_ERROR, &body);
    };
    match simulator.decrypt(&body, now(), &mut rng) {
        Ok(body) => answer(StatusCode::OK, &body),
        Err(refusal) => answer(StatusCode::BAD_REQUEST, &refusal.body()),
    }
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/x-amz-json-1.1")];
    (status, kind, body.to_string()).into_response()
}

fn rng() -> Result<ChaCha20Rng> {
    let mut seed = [0; 32];
    SysRng
        .try_fill_bytes(&mut seed)
        .map_err(|error| anyhow!("the kernel gives no random bytes: {error}"))?;
    Ok(ChaCha20Rng::from_seed(seed))
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixMillis(since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }))
}
