//! A parent that stalls, sends slowly, states wrong lengths or does not speak HTTP: each fault ends the exchange in time, with a
//! separate code.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use enclave_server::parent::{Parent, ParentAddress, ParentError, Request, Timeouts};
use fixtures::http;

const PATIENCE: Timeouts = Timeouts {
    stall: Duration::from_millis(150),
    least_rate: 64 * 1024,
};

/// A parent that reads one request, then calls `answer`.
fn parent(answer: impl Fn(&http::Request, TcpStream) + Send + 'static) -> Parent {
    Parent::new(ParentAddress::Tcp(http::serve(answer)), PATIENCE)
}

/// A parent that sends `text`, and keeps the connection open for longer than any timeout.
fn parent_sending(text: impl Into<Vec<u8>>) -> Parent {
    let text = text.into();
    parent(move |_, mut stream| {
        stream.write_all(&text).ok();
        std::thread::sleep(Duration::from_secs(2));
    })
}

fn get(parent: &Parent, limit: usize, time: Duration) -> Result<(u16, Vec<u8>), ParentError> {
    let request = Request {
        method: "GET",
        path: "/x",
        headers: &[("range", "bytes=0-")],
        body: &[],
    };
    let answer = parent.exchange(request, Instant::now() + time)?;
    let status = answer.status();
    Ok((status, answer.into_body().collect(limit)?))
}

fn code(parent: &Parent) -> String {
    let error = get(parent, 1 << 20, Duration::from_secs(30)).unwrap_err();
    error.code().to_owned()
}

#[test]
fn an_answer_is_read_whole_with_its_headers() {
    let parent = parent_sending(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nETag: \"v\"\r\nContent-Range: bytes 0-4/9\r\n\r\nhello",
    );
    let request = Request {
        method: "GET",
        path: "/x",
        headers: &[],
        body: &[],
    };
    let answer = parent
        .exchange(request, Instant::now() + Duration::from_secs(30))
        .unwrap();
    assert_eq!(
        (answer.status(), answer.etag(), answer.content_range()),
        (206, Some("\"v\""), Some("bytes 0-4/9"))
    );
    assert_eq!(answer.into_body().collect(5).unwrap(), b"hello");
}

#[test]
fn a_request_is_sent_with_its_body() {
    let parent = parent(|request, mut stream| {
        assert_eq!(request.body, [7; 100_000]);
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno")
            .unwrap();
    });
    let until = Instant::now() + Duration::from_secs(30);
    let answer = parent
        .post("/v1/x", "application/json", &[7; 100_000], 64, until)
        .unwrap();
    assert_eq!(answer.status, 403);
    assert_eq!(answer.body, b"no");
}

#[test]
fn each_fault_has_its_code() {
    let head = |length: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    for (case, parent, expected) in [
        ("silence", parent_sending(""), "PARENT_STALLED"),
        (
            "half a head",
            parent_sending("HTTP/1.1 200 OK\r\ncontent-"),
            "PARENT_STALLED",
        ),
        (
            "half a body",
            parent_sending(head("10") + "12345"),
            "PARENT_STALLED",
        ),
        (
            "another protocol",
            parent_sending("SSH-2.0-OpenSSH_9.9\r\n\r\n"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "an endless head",
            parent_sending("HTTP/1.1 200 OK\r\nx: ".to_owned() + &"y".repeat(20_000)),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "a hundred headers",
            parent_sending("HTTP/1.1 200 OK\r\n".to_owned() + &"x: y\r\n".repeat(100) + "\r\n"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "no length",
            parent_sending("HTTP/1.1 200 OK\r\n\r\n"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "two lengths",
            parent_sending("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "a signed length",
            parent_sending(head("+1")),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "a length beyond numbers",
            parent_sending(head("99999999999999999999")),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "chunks",
            parent_sending("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "only informational",
            parent_sending("HTTP/1.1 103 Early Hints\r\ncontent-length: 0\r\n\r\n"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "more than stated",
            parent_sending(head("1") + "12345"),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "a huge length",
            parent_sending(head("18446744073709551615")),
            "PARENT_ANSWER_TOO_LARGE",
        ),
    ] {
        assert_eq!(code(&parent), expected, "{case}");
    }
}

#[test]
fn an_early_end_has_its_code() {
    for text in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1234",
    ] {
        let parent = parent(move |_, mut stream| stream.write_all(text.as_bytes()).unwrap());
        assert_eq!(code(&parent), "PARENT_BROKEN", "{text:?}");
    }
}

/// Every read returns a byte, so no wait is a stall; the rate is too low.
#[test]
fn a_byte_now_and_then_is_too_slow() {
    let parent = parent(|_, mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            .unwrap();
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(code(&parent), "PARENT_TOO_SLOW");
}

#[test]
fn a_head_sent_byte_by_byte_counts_as_a_stall() {
    let parent = parent(|_, mut stream| {
        while stream
            .write_all(b"HTTP/1.1 200 OK\r\n".get(..1).unwrap())
            .is_ok()
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(["PARENT_STALLED", "PARENT_ANSWER_INVALID"].contains(&code(&parent).as_str()));
    let parent = self::parent(|_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").unwrap();
        while stream.write_all(b"y").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(code(&parent), "PARENT_STALLED");
}

#[test]
fn the_deadline_ends_a_fast_endless_answer() {
    let parent = parent(|_, mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
            .unwrap();
        while stream.write_all(&[0; 65_536]).is_ok() {}
    });
    let request = Request {
        method: "GET",
        path: "/x",
        headers: &[],
        body: &[],
    };
    let answer = parent
        .exchange(request, Instant::now() + Duration::from_millis(200))
        .unwrap();
    let mut body = answer.into_body();
    let mut buffer = vec![0; 1 << 20];
    let error = loop {
        match body.read(&mut buffer) {
            Ok(count) => assert!(count > 0),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ParentError::Deadline), "{error}");
}

#[test]
fn an_unreachable_parent_has_its_code() {
    let address: ParentAddress = "unix:/nonexistent/parent.sock".parse().unwrap();
    let error = get(&Parent::new(address, PATIENCE), 1, Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.code(), "PARENT_UNREACHABLE");
    assert!(
        error.to_string().starts_with("unix:/nonexistent"),
        "{error}"
    );
    assert!(error.is_transient());
}
