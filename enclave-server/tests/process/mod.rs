//! The built server as a separate process, and a minimal HTTP client.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary uses a part of it, and a test fails by panicking"
)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use attestation::{Evidence, Freshness, Policy, VerifiedAttestation};
use base64ct::{Base64UrlUnpadded, Encoding};
use getrandom::SysRng;
use rand_core::{Rng, UnwrapErr};

pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts the server on a port that was just free, and waits until it answers.
    pub fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = port.unwrap().to_string();
        let binary = std::env::var("CLEARSEAL_SOAK_SERVER")
            .unwrap_or(env!("CARGO_BIN_EXE_enclave-server").to_owned());
        let child = Command::new(binary)
            .args(["--simulate-nsm", "--listen", &format!("tcp:{address}")])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, address };
        while TcpStream::connect(&server.address).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// A value of the server's `/proc/PID/status`, in MiB.
    pub fn memory(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: f64 = line
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        kib / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A minimal HTTP client on one kept connection.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(server: &Server) -> Self {
        Self::try_connect(&server.address).unwrap()
    }

    pub fn try_connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request and returns the body of the answer, whose status must be 200.
    pub fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let (status, body) = self.ask(method, path, body);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        body
    }

    /// Sends a request and returns status and body.
    pub fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.try_ask(method, path, body).unwrap()
    }

    /// Sends a request and returns status and body; fails where the connection ends before the answer.
    pub fn try_ask(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: enclave\r\ncontent-type: message/ohttp-req\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0
            .get_mut()
            .write_all(&[head.as_bytes(), body].concat())?;
        let (mut line, mut length, mut status) = (String::new(), 0, 0);
        while line != "\r\n" {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if status == 0 {
                status = line.split(' ').nth(1).unwrap().parse().unwrap();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, body))
    }

    pub fn attest(&mut self) -> VerifiedAttestation {
        let mut nonce = [0; 32];
        UnwrapErr(SysRng).fill_bytes(&mut nonce);
        let path = Base64UrlUnpadded::encode_string(&nonce);
        let evidence = self.send("GET", &format!("/v1/attestation?nonce={path}"), &[]);
        let evidence = Evidence::parse(&evidence).unwrap();
        let policy = self.send("GET", "/v1/development-policy", &[]);
        let policy = Policy::with_evidence(&policy).unwrap();
        let (report, verified) = evidence.appraisal().verify(
            &policy,
            Freshness::Live {
                nonce: &nonce,
                now: fixtures::system_time(),
            },
        );
        verified
            .including_simulated()
            .unwrap_or_else(|| panic!("{report:#?}"))
    }
}
