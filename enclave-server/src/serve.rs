//! Serves HTTP on a [`Listener`], with bounds on how long and how large a request's head may be.

use std::time::Duration;

use axum::Router;
use axum::serve::Listener as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;

use crate::listener::{IDLE_TIMEOUT, Listener};

/// How long a head may take to arrive; on a connection that is kept, from the end of the answer before. As long as a
/// connection may be idle, since the two cannot be told apart before a byte has come.
pub const HEAD_TIMEOUT: Duration = IDLE_TIMEOUT;
/// Longest head in bytes; the relay sends some hundred.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Accepts and serves until `stop`, then finishes what is in flight.
pub async fn serve(
    listener: Listener,
    router: Router,
    head_timeout: Duration,
    stop: impl Future<Output = ()>,
) {
    let mut listener = listener;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(MAX_HEAD_BYTES);
    // Each connection holds a receiver, so that the channel is closed when the last one has ended.
    let (stopping, stopped) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, _) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let service = TowerToHyperService::new(router.clone());
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
    // No new connections while those in flight finish.
    drop(listener);
    drop(stopped);
    // Fails where no connection is open.
    stopping.send(true).ok();
    stopping.closed().await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;
    use crate::config::ListenAddress;

    const SOON: Duration = Duration::from_millis(200);

    /// A served router with its address; it stops when the sender is used or dropped.
    async fn served() -> (
        ListenAddress,
        oneshot::Sender<()>,
        tokio::task::JoinHandle<()>,
    ) {
        let listener = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap(), 4)
            .await
            .unwrap();
        let address = listener.address().clone();
        let router = Router::new().route("/", get(async || "ok"));
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(serve(listener, router, SOON, async {
            stopped.await.ok();
        }));
        (address, stop, served)
    }

    async fn connect(address: &ListenAddress) -> TcpStream {
        let ListenAddress::Tcp(address) = address else {
            panic!("a TCP address was asked for")
        };
        TcpStream::connect(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_head_that_arrives_by_the_byte_is_cut_off() {
        let (address, _stop, _served) = served().await;
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
            () = trickle => panic!("all of it was taken"),
            // An end or a reset: either way the server let it go.
            _ = reader.read_to_end(&mut answer) => assert!(answer.is_empty()),
        }
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused() {
        let (address, _stop, _served) = served().await;
        let mut stream = connect(&address).await;
        stream.write_all(b"GET / HTTP/1.1\r\nlong: ").await.unwrap();
        // The server may answer and close before all of it is written.
        stream.write_all(&[b'x'; 2 * MAX_HEAD_BYTES]).await.ok();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 431");
    }

    #[tokio::test]
    async fn what_is_in_flight_is_finished_and_kept_connections_end() {
        let (address, stop, served) = served().await;
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
}
