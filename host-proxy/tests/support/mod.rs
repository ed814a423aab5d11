//! A proxy between a client and a fake enclave that the test controls.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part, and a helper that fails is a test that fails"
)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::Router;
use bytes::Bytes;
use clap::Parser as _;
use host_proxy::{Config, Proxy};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UnixListener};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An enclave that can be killed and restarted at the same address.
pub struct FakeEnclave {
    folder: TempDir,
    task: Option<JoinHandle<()>>,
}

impl FakeEnclave {
    pub fn absent() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            task: None,
        }
    }

    pub fn start(router: Router) -> Self {
        let mut enclave = Self::absent();
        enclave.restart(router);
        enclave
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("enclave.sock")
    }

    /// Binds the socket, for the test to serve.
    pub fn listen(&self) -> UnixListener {
        UnixListener::bind(self.path()).unwrap()
    }

    pub async fn kill(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        std::fs::remove_file(self.path()).unwrap();
    }

    /// Serves `router`. The connections belong to its task, so that they end with it like those of a process.
    pub fn restart(&mut self, router: Router) {
        let listener = self.listen();
        self.task = Some(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = hyper_util::service::TowerToHyperService::new(router.clone());
                connections.spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                        .with_upgrades(),
                );
            }
        }));
    }
}

/// The proxy under test, on a free port.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    pub task: JoinHandle<()>,
}

impl Running {
    pub async fn start(enclave: &Path, flags: &[&str]) -> Self {
        Self::start_at(&format!("unix:{}", enclave.display()), flags).await
    }

    pub async fn start_at(enclave: &str, flags: &[&str]) -> Self {
        let fixed = [
            "host-proxy",
            "--listen=127.0.0.1:0",
            "--metrics=127.0.0.1:0",
            "--enclave",
            enclave,
        ];
        let config = Config::try_parse_from(fixed.iter().chain(flags)).unwrap();
        let proxy = Proxy::bind(config).await.unwrap();
        let address = proxy.local_address().unwrap();
        let metrics = proxy.metrics_address().unwrap().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(proxy.run(async { stopped.await.unwrap_or(()) }));
        Self {
            address,
            metrics,
            stop: Some(stop),
            task,
        }
    }

    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Reads the metrics from the operator's address.
    pub async fn metrics(&self) -> Answer {
        let request = Request::get(format!("http://{}/metrics", self.metrics))
            .body(Full::default())
            .unwrap();
        Answer::read(client().request(request).await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(
            Method::POST,
            path,
            &[("content-type", "message/ohttp-req")],
            body.into(),
        )
        .await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = client()
            .request(request.body(Full::new(body)).unwrap())
            .await
            .unwrap();
        Answer::read(response).await
    }

    /// Writes raw bytes and reads until the proxy closes.
    pub async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Connects from 127.0.0.`last`, which is another address than the honest client's.
pub async fn from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::from(([127, 0, 0, last], 0)))
        .unwrap();
    socket.connect(to).await.unwrap()
}

/// Sends `request` over a connection from 127.0.0.`last`, and reads until the proxy closes or resets it.
pub async fn ask_from(last: u8, to: SocketAddr, request: &str) -> String {
    let mut stream = from(last, to).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&read_to_end(stream).await).into_owned()
}

/// Reads until the connection is closed or reset.
pub async fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..count]);
    }
    answer
}

pub fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    async fn read(response: Response<hyper::body::Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Checks the problem document, and returns its code.
    pub fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(document["status"], self.status.as_u16());
        for member in ["type", "title", "detail", "code"] {
            assert!(document[member].is_string(), "{member} in {document}");
        }
        document["code"].as_str().unwrap().to_owned()
    }
}
