//! Serves HTTP on a [`Listener`], with bounds on how long and how large a request's head may be.

use std::time::Duration;

use axum::Router;
use axum::response::Response;
use axum::serve::Listener as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::listener::{IDLE_TIMEOUT, Listener};

/// Longest time until the head of a request has arrived; on a kept connection, from the end of the previous answer. It equals
/// the idle timeout, because before the first byte a slow head looks like an idle connection.
pub const HEAD_TIMEOUT: Duration = IDLE_TIMEOUT;
/// Longest head in bytes; the relay sends a few hundred.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Accepts connections and serves `router` on each until `stop`. The listener stays open for the next caller.
pub async fn accept(
    listener: &mut Listener,
    router: &Router,
    head_timeout: Duration,
    stop: impl Future<Output = ()>,
) -> Connections {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(MAX_HEAD_BYTES);
    let (stopping, stopped) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, _) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let router = router.clone();
        let service = service_fn(move |request| answer(router.clone(), request));
        let connection = http
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut stopped = stopped.clone();
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = async { drop(stopped.wait_for(|stopping| *stopping).await) } => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(
                    timeout = error.is_timeout(),
                    incomplete = error.is_incomplete_message(),
                    parse = error.is_parse(),
                    "a connection ended early"
                );
            }
            drop(stopped);
        });
    }
    Connections { stopping }
}

/// Accepted connections that may still be open. Each holds a receiver, so the channel is closed once the last one has ended.
pub struct Connections {
    stopping: watch::Sender<bool>,
}

impl Connections {
    /// Finishes requests in flight, and closes connections that wait for a request.
    pub async fn finish(self) {
        self.stopping.send_replace(true);
        self.stopping.closed().await;
    }
}

/// Extension of a response that is not sent: the connection is closed instead, as if nothing listened.
#[derive(Clone, Copy)]
pub struct HangUp;

/// The connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("this request is not answered")]
struct Unanswered;

async fn answer(router: Router, request: Request<Incoming>) -> Result<Response, Unanswered> {
    let Ok(response) = router.oneshot(request).await;
    match response.extensions().get::<HangUp>() {
        Some(HangUp) => Err(Unanswered),
        None => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use axum::Extension;
    use axum::routing::get;
    use sockets::ListenAddress;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    /// Serves a router; it stops when the sender is used or dropped.
    async fn serve_router() -> (
        ListenAddress,
        oneshot::Sender<()>,
        tokio::task::JoinHandle<()>,
    ) {
        let mut listener = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap(), 4)
            .await
            .unwrap();
        let address = listener.address().clone();
        let router = Router::new()
            .route("/", get(async || "ok"))
            .route("/gone", get(async || Extension(HangUp)));
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            accept(&mut listener, &router, SOON, stopped)
                .await
                .finish()
                .await;
        });
        (address, stop, served)
    }

    async fn connect(address: &ListenAddress) -> TcpStream {
        let ListenAddress::Tcp(address) = address else {
            panic!("not a TCP address")
        };
        TcpStream::connect(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_head_that_arrives_byte_by_byte_is_cut_off() {
        let (address, _stop, _served) = serve_router().await;
        let mut stream = connect(&address).await;
        let (mut reader, mut writer) = stream.split();
        let trickle = async {
            for byte in b"GET / HTTP/1.1\r\nhost: "
                .iter()
                .chain([b'x'; 100_000].iter())
            {
                if writer.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut answer = Vec::new();
        tokio::select! {
            () = trickle => panic!("the whole head was accepted"),
            // The connection ends or is reset: either way the server closed it.
            _ = reader.read_to_end(&mut answer) => assert!(answer.is_empty()),
        }
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused() {
        let (address, _stop, _served) = serve_router().await;
        let mut stream = connect(&address).await;
        stream.write_all(b"GET / HTTP/1.1\r\nlong: ").await.unwrap();
        // The server may answer and close before all of it is written.
        stream.write_all(&[b'x'; 2 * MAX_HEAD_BYTES]).await.ok();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 431");
    }

    #[tokio::test]
    async fn requests_in_flight_finish_and_kept_connections_end() {
        let (address, stop, served) = serve_router().await;
        let mut stream = connect(&address).await;
        let mut answer = [0; 15];
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        stop.send(()).unwrap();
        served.await.unwrap();
        assert!(stream.read_to_end(&mut Vec::new()).await.is_ok());
    }

    #[tokio::test]
    async fn a_request_that_is_not_answered_ends_its_connection() {
        let (address, _stop, _served) = serve_router().await;
        let mut stream = connect(&address).await;
        stream
            .write_all(b"GET /gone HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        assert!(answer.is_empty());
    }
}
