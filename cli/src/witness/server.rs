//! The witness's HTTP server: `POST /add-checkpoint`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::witness::key::{Signer, Verifier};
use ::witness::request::{AddCheckpoint, MAX_REQUEST, Refusal};
use anyhow::{Context, Result};
use bytes::Bytes;
use error_codes::ErrorLine;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use merkle::verify::ProofError;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use super::config::Config;
use super::store::{Store, StoreError};
use crate::moment;
use crate::notice::notice;

/// Connections at once; above it new ones wait.
const MAX_CONNECTIONS: usize = 256;
/// For a request's head, and for all of its body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

struct Witness {
    logs: Vec<Verifier>,
    signer: Signer,
    store: Store,
}

/// Serves until SIGINT or SIGTERM.
pub(super) async fn serve(config: Config, signer: Signer, store: Store) -> Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("no signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("no signals")?;
    notice(&format!(
        "{} witnesses on http://{address}",
        signer.verifier()
    ));
    let witness = Arc::new(Witness {
        logs: config.logs,
        signer,
        store,
    });
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        // A request that is cut off here is stored or not, and its log asks again: nothing has to end first.
        let (accepted, place) = tokio::select! {
            next = next => next,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely: some come back when connections end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let witness = Arc::clone(&witness);
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(|request| {
                let witness = Arc::clone(&witness);
                async move { Ok::<_, Infallible>(answer(witness, request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(READ_TIMEOUT);
            // An error is that of a client which left or sent no HTTP.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Answer = Response<Full<Bytes>>;

fn reply(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

const TEXT: &str = "text/plain; charset=utf-8";

async fn answer(witness: Arc<Witness>, request: Request<Incoming>) -> Answer {
    if request.uri().path() != "/add-checkpoint" {
        return reply(
            StatusCode::NOT_FOUND,
            TEXT,
            "There is only /add-checkpoint\n".to_owned(),
        );
    }
    if request.method() != Method::POST {
        let mut answer = reply(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "Send POST\n".to_owned(),
        );
        let allowed = http::HeaderValue::from_static("POST");
        answer.headers_mut().insert(header::ALLOW, allowed);
        return answer;
    }
    let body = Limited::new(request.into_body(), MAX_REQUEST).collect();
    let Ok(Ok(body)) = tokio::time::timeout(READ_TIMEOUT, body).await else {
        return refuse(&Refusal::Malformed);
    };
    let body = body.to_bytes();
    match tokio::task::spawn_blocking(move || witness.cosign(&body)).await {
        Ok(Ok(line)) => reply(StatusCode::OK, TEXT, line),
        Ok(Err(StoreError::Refused(refusal))) => refuse(&refusal),
        Ok(Err(error @ StoreError::Clock { .. })) => {
            notice(&error.to_string());
            let told = "The clock of the witness is wrong\n";
            reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, told.to_owned())
        }
        Ok(Err(error)) => fail(&error.to_string()),
        Err(_) => fail("the request panicked"),
    }
}

fn fail(reason: &str) -> Answer {
    notice(&format!("the database failed: {reason}"));
    reply(
        StatusCode::SERVICE_UNAVAILABLE,
        TEXT,
        "The witness cannot use its database\n".to_owned(),
    )
}

fn refuse(refusal: &Refusal) -> Answer {
    let status = match refusal {
        Refusal::UnknownLog => StatusCode::NOT_FOUND,
        Refusal::Unsigned => StatusCode::FORBIDDEN,
        Refusal::Conflict { size } => {
            return reply(
                StatusCode::CONFLICT,
                "text/x.tlog.size",
                format!("{size}\n"),
            );
        }
        Refusal::Inconsistent(ProofError::Forked) => StatusCode::CONFLICT,
        Refusal::Inconsistent(_) => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_REQUEST,
    };
    reply(status, TEXT, format!("{}\n", ErrorLine(refusal)))
}

impl Witness {
    /// Stores the tree, then cosigns it. A crash between the two loses a cosignature, never a tree.
    fn cosign(&self, body: &[u8]) -> Result<String, StoreError> {
        let request = AddCheckpoint::parse(body)?;
        let checkpoint = request.authenticate(&self.logs)?;
        let stored = self
            .store
            .advance(&request, &checkpoint, || moment::now().0 / 1000);
        if let Err(StoreError::Refused(refusal @ Refusal::Inconsistent(_))) = &stored {
            notice(&format!("{}: {}", checkpoint.origin, ErrorLine(refusal)));
        }
        Ok(self.signer.sign(request.note.text(), stored?).to_string())
    }
}
