//! A parent that stalls, floods, and closes connections early.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::support::{Booted, Proxy, image};

#[test]
fn a_hostile_parent_does_not_affect_others() {
    let machine = Booted::boot(&image("sign"));
    machine.wait_for_output("\"ready\"");
    let proxy = Proxy::start(&machine.address());
    proxy.wait_until_ready();

    // Connections that send nothing, and some that stop in the middle of a head or a body.
    let stalled: Vec<UnixStream> = [
        &b""[..],
        b"GET /readyz HT",
        b"POST /v1/gateway HTTP/1.1\r\nhost: e\r\ncontent-type: message/ohttp-req\r\ncontent-length: 5000\r\n\r\nhalf",
    ]
    .into_iter()
    .cycle()
    .take(60)
    .map(|begun| {
        let mut stream = machine.connect();
        stream.write_all(begun).unwrap();
        stream
    })
    .collect();
    answers(&proxy);

    // A flood of bytes that are not HTTP: the enclave closes the connection instead of reading on.
    let mut flood = machine.connect();
    let block = [0xff; 16 << 10];
    let sent = (0..4096)
        .take_while(|_| flood.write_all(&block).is_ok())
        .count();
    assert!(sent < 4096, "64 MiB of noise were read");
    answers(&proxy);

    // Requests whose sender disconnects before the answer.
    for _ in 0..40 {
        let mut stream = machine.connect();
        stream
            .write_all(
                b"GET /v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA HTTP/1.1\r\nhost: e\r\n\r\n",
            )
            .unwrap();
        drop(stream);
    }
    answers(&proxy);

    // A head that never ends.
    let mut endless = machine.connect();
    endless.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let line =
        b"x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(64);
    while endless.write_all(&line).is_ok() {
        let mut answer = [0; 12];
        endless
            .set_read_timeout(Some(std::time::Duration::from_millis(5)))
            .unwrap();
        if endless.read(&mut answer).is_ok() {
            break;
        }
    }
    answers(&proxy);
    drop(stalled);
    answers(&proxy);
}

fn answers(proxy: &Proxy) {
    for path in ["/readyz", "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA"] {
        let (head, body) = proxy.get(path);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        assert!(!body.is_empty());
    }
}
