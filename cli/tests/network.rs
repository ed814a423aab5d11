//! Networks between this machine and a host: forward proxies, and private authorities.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use fixtures::host::{Host, vector};
use fixtures::http::listen;

/// A forward proxy that leads every `CONNECT` to one address.
struct Forward {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Forward {
    fn start(target: &str) -> Self {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (noted, target) = (Arc::clone(&heads), target.to_owned());
        let address = listen(move |mut client| {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            noted.lock().unwrap().push(String::from_utf8(head).unwrap());
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let host = TcpStream::connect(&target).unwrap();
            copy(client.try_clone().unwrap(), host.try_clone().unwrap());
            copy(host, client);
        });
        Self { address, heads }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(Shutdown::Write).ok();
    });
}

fn embed(url: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearseal"));
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
    ] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    let mut child = command
        .args(["embed", "--accept-simulated", "--url", url])
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it reads.
    child.stdin.take().unwrap().write_all(b"one\n").ok();
    child.wait_with_output().unwrap()
}

#[test]
fn a_forward_proxy_leads_to_the_host() {
    let host = Host::start(51);
    let proxy = Forward::start(host.url.strip_prefix("http://").unwrap());
    let address = format!("http://name:secret@{}", proxy.address);
    let url = "http://enclave.invalid";
    let output = embed(url, &[], &[("HTTP_PROXY", &address)]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    let row: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row["embedding"], serde_json::json!(vector("one")));
    let heads = proxy.heads.lock().unwrap().clone();
    assert!(!heads.is_empty());
    for head in &heads {
        assert!(
            head.starts_with("CONNECT enclave.invalid:80 HTTP/1.1\r\n"),
            "{head}"
        );
        // RFC 7617: name:secret.
        assert!(head.contains("Basic bmFtZTpzZWNyZXQ="), "{head}");
    }

    // Neither an exception nor this machine itself is reached through it.
    let output = embed(
        url,
        &[],
        &[("ALL_PROXY", &address), ("NO_PROXY", "invalid")],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        embed(&host.url, &[], &[("ALL_PROXY", &address)])
            .status
            .success()
    );
    assert_eq!(proxy.heads.lock().unwrap().len(), heads.len());

    let output = embed(url, &[], &[("ALL_PROXY", "socks5://127.0.0.1:1")]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("PROXY_UNUSABLE"), "{told}");
    let output = embed(url, &[], &[("ALL_PROXY", "http://name:secret@127.0.0.1:1")]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("through the proxy 127.0.0.1:1"), "{told}");
    assert!(
        told.contains("NO_PROXY") && !told.contains("secret"),
        "{told}"
    );
}

#[test]
fn a_file_of_authorities_is_read_before_anything_is_sent() {
    let file = std::env::temp_dir().join(format!("clearseal-{}-no-ca", std::process::id()));
    std::fs::write(&file, "no certificate\n").unwrap();
    let file = file.to_str().unwrap();
    let url = "https://enclave.invalid";
    for output in [
        embed(url, &["--ca", file], &[]),
        embed(url, &[], &[("SSL_CERT_FILE", file)]),
    ] {
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(told.contains("AUTHORITIES_UNUSABLE"), "{told}");
    }
    std::fs::remove_file(file).ok();
}
