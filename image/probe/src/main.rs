//! Runs in an emulated enclave instead of the server, for the tests in `image/emulator/tests` and the benchmark `sockets`. Sends
//! the module all requests of the server, and requests that it must refuse; prints each answer as a line `probe {"question": …,
//! "answer": …}`; then serves unsigned evidence, and an answer larger than one write over vsock; and echoes payloads on another
//! port for the benchmark.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the console is its report")]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use attestation::Evidence;
use aws_nitro_enclaves_nsm_api::api::{Request, Response};
use aws_nitro_enclaves_nsm_api::driver::{nsm_exit, nsm_init, nsm_process_request};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::Listener as _;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};
use enclave_server::config::ListenAddress;
use enclave_server::listener::Listener;
use enclave_server::nsm::{AttestRequest, DeviceNsm, Nsm};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn main() -> ExitCode {
    before_the_server_opens_it();
    let nsm = match DeviceNsm::open() {
        Ok(nsm) => nsm,
        Err(error) => {
            say("open", &json!(error.code()));
            return ExitCode::FAILURE;
        }
    };
    as_the_server_asks(&nsm);
    after_the_server_opened_it();
    match serve(nsm) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say("serve", &json!(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn say(question: &str, answer: &Value) {
    println!(
        "probe {}",
        json!({ "question": question, "answer": answer })
    );
}

/// A register that is not locked accepts a measurement, once the device exists.
fn before_the_server_opens_it() {
    let device = nsm_init();
    say("device", &json!(device >= 0));
    say("describe", &raw(device, Request::DescribeNSM));
    let extend = |data: &[u8]| Request::ExtendPCR {
        index: 20,
        data: data.to_vec(),
    };
    say("extend", &raw(device, extend(b"one")));
    say("extend again", &raw(device, extend(b"two")));
    say("extended", &raw(device, Request::DescribePCR { index: 20 }));
    say(
        "extend the image's",
        &raw(
            device,
            Request::ExtendPCR {
                index: 0,
                data: b"x".to_vec(),
            },
        ),
    );
    say(
        "no such register",
        &raw(device, Request::DescribePCR { index: 32 }),
    );
    nsm_exit(device);
}

/// Asks through the server's own code.
fn as_the_server_asks(nsm: &DeviceNsm) {
    let pcrs: serde_json::Map<_, _> = nsm
        .pcrs()
        .iter()
        .map(|(index, value)| (index.to_string(), json!(hex(value))))
        .collect();
    say("pcrs", &Value::Object(pcrs));
    let random: BTreeSet<_> = (0..4).filter_map(|_| nsm.random().ok()).collect();
    say("distinct random answers", &json!(random.len()));
    say("simulated", &json!(nsm.is_simulated()));
    for (question, nonce, user_data, public_key) in [
        ("attest the least", 16, 1, 1),
        ("attest the most", 512, 512, 1024),
        ("nonce too short", 15, 1, 1),
        ("nonce too long", 513, 1, 1),
        ("user_data too long", 16, 513, 1),
        ("public_key too long", 16, 1, 1025),
        ("user_data empty", 16, 0, 1),
    ] {
        let (nonce, user_data, public_key) =
            (vec![1; nonce], vec![2; user_data], vec![3; public_key]);
        let answer = nsm.attest(&AttestRequest {
            nonce: &nonce,
            user_data: &user_data,
            public_key: &public_key,
        });
        let answer = match answer {
            Ok(document) => json!(!document.is_empty()),
            Err(error) => json!(error.code()),
        };
        say(question, &answer);
    }
    // The document's time: it cannot be verified, because the document is unsigned.
    say(
        "time",
        &nsm.time()
            .map_or_else(|error| json!(error.code()), |time| json!(time.0)),
    );
}

/// Programs that run later cannot write to any register.
fn after_the_server_opened_it() {
    let device = nsm_init();
    let refused = (0..32).filter(|&index| {
        let extend = Request::ExtendPCR {
            index,
            data: b"later".to_vec(),
        };
        raw(device, extend) == json!("ReadOnlyIndex")
    });
    say("registers that refuse", &json!(refused.count()));
    say("lock again", &raw(device, Request::LockPCR { index: 20 }));
    nsm_exit(device);
}

/// An answer of the module, limited to what a test can predict.
fn raw(device: i32, request: Request) -> Value {
    match nsm_process_request(device, request) {
        Response::Error(code) => json!(format!("{code:?}")),
        Response::DescribeNSM {
            module_id,
            max_pcrs,
            locked_pcrs,
            digest,
            ..
        } => json!({
            "module": module_id,
            "registers": max_pcrs,
            "locked": locked_pcrs.len(),
            "digest": format!("{digest:?}"),
        }),
        Response::DescribePCR { lock, data } => json!([lock, hex(&data)]),
        Response::ExtendPCR { data } => json!(hex(&data)),
        Response::LockPCR => json!("locked"),
        _ => json!("something else"),
    }
}

#[derive(Deserialize)]
struct Parameters {
    nonce: String,
}

fn serve(nsm: DeviceNsm) -> std::io::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = Listener::bind(&ListenAddress::Vsock(5005), 64)
                .await
                .map_err(std::io::Error::other)?;
            let router = Router::new()
                .route("/readyz", get(|| async { "ready\n" }))
                .route("/v1/attestation", get(evidence))
                .route("/large", get(|| async { vec![b'x'; LARGE] }))
                .with_state(Arc::new(nsm));
            let echo_listener = Listener::bind(&ListenAddress::Vsock(5006), 4)
                .await
                .map_err(std::io::Error::other)?;
            tokio::spawn(echo(echo_listener));
            say("serving", &json!(true));
            axum::serve(listener, router).await
        })
}

/// Much larger than one write over vsock can carry without stalling.
const LARGE: usize = 1 << 20;

/// Longest payload that is echoed.
const ECHO_MAX: u64 = 1 << 20;

/// Echoes each payload, which follows its length in eight little-endian bytes.
async fn echo(mut listener: Listener) {
    loop {
        let (mut stream, _) = listener.accept().await;
        tokio::spawn(async move {
            let mut payload = Vec::new();
            while let Ok(length @ 0..=ECHO_MAX) = stream.read_u64_le().await {
                payload.resize(usize::try_from(length).unwrap_or(0), 0);
                if stream.read_exact(&mut payload).await.is_err()
                    || stream.write_all(&payload).await.is_err()
                    || stream.flush().await.is_err()
                {
                    return;
                }
            }
        });
    }
}

/// Evidence with a meaningless manifest: its document is refused before the manifest is read.
async fn evidence(
    State(nsm): State<Arc<DeviceNsm>>,
    Query(Parameters { nonce }): Query<Parameters>,
) -> Result<Vec<u8>, StatusCode> {
    let nonce = Base64UrlUnpadded::decode_vec(&nonce).map_err(|_| StatusCode::BAD_REQUEST)?;
    let document = nsm
        .attest(&AttestRequest {
            nonce: &nonce,
            user_data: b"probe",
            public_key: &[9; 32],
        })
        .map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(Evidence {
        document: &document,
        manifest: b"probe",
    }
    .encode())
}
