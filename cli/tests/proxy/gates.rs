//! Which requests are let in.

use super::{Host, MODEL, Mood, PATIENCE, Proxy, folder};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// Status and code of one request; the code is null where there is none.
fn outcome(proxy: &Proxy, head: &str) -> (u16, Value) {
    let (status, _, body) = proxy.send(head, "");
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    (status, body["error"]["code"].clone())
}

#[test]
fn a_request_is_let_in_by_its_host_its_site_and_its_key() {
    let host = Host::start(21);
    let allowed = [
        "--allow-host",
        "host.docker.internal",
        "--allow-host",
        "10.1.2.3",
    ];
    let proxy = Proxy::start(&[&host], &[&allowed[..], &["--api-key", "secret"]].concat());
    let key = "authorization: Bearer secret";
    let port = proxy.address.rsplit(':').next().unwrap();
    let fields = |fields: &[&str]| fields.join("\r\n");
    let cases = [
        // Names.
        (fields(&["host: localhost", key]), 200, None),
        (
            fields(&[&format!("host: LocalHost.:{port}"), key]),
            200,
            None,
        ),
        (fields(&["host: proxy.localhost", key]), 200, None),
        (fields(&["host: 127.0.0.2:1", key]), 200, None),
        (fields(&[&format!("host: [::1]:{port}"), key]), 200, None),
        (fields(&["host: [::ffff:127.0.0.1]:8788", key]), 200, None),
        (fields(&["host: host.docker.internal:8788", key]), 200, None),
        (fields(&["host: HOST.Docker.Internal.", key]), 200, None),
        (fields(&["host: 10.1.2.3:8788", key]), 200, None),
        (fields(&["host: [::ffff:10.1.2.3]", key]), 200, None),
        (
            fields(&["host: evil.example", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        (
            fields(&["host: docker.internal", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        (
            fields(&["host: a.host.docker.internal", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        (
            fields(&["host: localhost.evil.example", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        (
            fields(&["host: localhost:80@evil.example", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        (fields(&["host: 0.0.0.0", key]), 403, Some("HOST_NOT_LOCAL")),
        (
            fields(&["host: [::ffff:10.1.2.4]", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        (fields(&["host:", key]), 403, Some("HOST_NOT_LOCAL")),
        (fields(&[key]), 403, Some("HOST_NOT_LOCAL")),
        (
            fields(&["host: localhost", "host: localhost", key]),
            403,
            Some("HOST_NOT_LOCAL"),
        ),
        // Pages.
        (
            fields(&["host: localhost", key, "sec-fetch-site: none"]),
            200,
            None,
        ),
        (
            fields(&["host: localhost", key, "sec-fetch-site: same-origin"]),
            200,
            None,
        ),
        (
            fields(&["host: localhost", key, "sec-fetch-site: same-site"]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        (
            fields(&["host: localhost", key, "sec-fetch-site: cross-site"]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        (
            fields(&["host: localhost", key, "Sec-Fetch-Site: later-value"]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        (
            fields(&["host: localhost", key, "sec-fetch-site:"]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        (
            fields(&[
                "host: localhost",
                key,
                "sec-fetch-site: none",
                "sec-fetch-site: cross-site",
            ]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        (
            fields(&[
                "host: localhost",
                key,
                "origin: https://evil.example",
                "sec-fetch-site: none",
            ]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        (
            fields(&["host: localhost", key, "origin: null"]),
            403,
            Some("ORIGIN_REFUSED"),
        ),
        // Keys.
        (
            fields(&["host: localhost", "authorization: bearer secret"]),
            200,
            None,
        ),
        (
            fields(&["host: localhost", "authorization: BEARER   secret"]),
            200,
            None,
        ),
        (fields(&["host: localhost"]), 401, Some("API_KEY_WRONG")),
        (
            fields(&["host: localhost", "authorization: Bearer"]),
            401,
            Some("API_KEY_WRONG"),
        ),
        (
            fields(&["host: localhost", "authorization: Bearer secret2"]),
            401,
            Some("API_KEY_WRONG"),
        ),
        (
            fields(&["host: localhost", "authorization: Bearer SECRET"]),
            401,
            Some("API_KEY_WRONG"),
        ),
        (
            fields(&["host: localhost", "authorization: Bearersecret"]),
            401,
            Some("API_KEY_WRONG"),
        ),
        (
            fields(&["host: localhost", "authorization: Basic secret"]),
            401,
            Some("API_KEY_WRONG"),
        ),
        (
            fields(&["host: localhost", "authorization: secret"]),
            401,
            Some("API_KEY_WRONG"),
        ),
        (
            fields(&["host: localhost", key, key]),
            401,
            Some("API_KEY_WRONG"),
        ),
    ];
    for (fields, status, code) in cases {
        let head = format!("GET /v1/models HTTP/1.1\r\n{fields}");
        assert_eq!(outcome(&proxy, &head), (status, json!(code)), "{fields}");
    }
    // An absolute target names the host, too (RFC 9112 §3.2.2).
    for (target, status) in [
        ("http://localhost/v1/models", 200),
        ("http://evil.example/v1/models", 403),
        ("http://localhost@evil.example/v1/models", 403),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n{key}");
        assert_eq!(outcome(&proxy, &head).0, status, "{target}");
    }
    // RFC 9110 §15.5.2 and §15.5.6.
    let (_, head, _) = proxy.send("GET /v1/models HTTP/1.1\r\nhost: localhost", "");
    assert!(head.contains("www-authenticate: Bearer"), "{head}");
    let (status, head, _) = proxy.send("DELETE /v1/models HTTP/1.1\r\nhost: localhost", "");
    assert_eq!(status, 405);
    assert!(head.contains("allow: GET, HEAD, POST"), "{head}");
    let (status, head, _) = proxy.send("POST /healthz HTTP/1.1\r\nhost: localhost", "");
    assert_eq!(status, 405);
    assert!(head.contains("allow: GET, HEAD\r\n"), "{head}");
}

#[test]
fn where_other_machines_reach_it_everything_needs_the_key() {
    let host = Host::start(22);
    let local = Proxy::start(&[&host], &["--api-key", "secret"]);
    let remote = Proxy::start(&[&host], &["--api-key", "secret", "--allow-remote"]);
    let get = |proxy: &Proxy, request: &str, fields: &str| {
        outcome(
            proxy,
            &format!("{request} HTTP/1.1\r\nhost: localhost{fields}"),
        )
        .0
    };
    let key = "\r\nauthorization: Bearer secret";
    for (request, bare_local, bare_remote, with_key) in [
        ("GET /", 200, 401, 200),
        ("GET /healthz", 200, 401, 200),
        ("HEAD /", 200, 401, 200),
        ("HEAD /healthz", 200, 401, 200),
        ("GET /v1/models", 401, 401, 200),
        ("HEAD /v1/models", 401, 401, 200),
        ("POST /healthz", 405, 401, 405),
        ("DELETE /v1/models", 405, 401, 405),
        ("GET /nothing", 404, 401, 404),
    ] {
        assert_eq!(get(&local, request, ""), bare_local, "{request}");
        assert_eq!(get(&remote, request, ""), bare_remote, "{request}");
        assert_eq!(get(&local, request, key), with_key, "{request}");
        assert_eq!(get(&remote, request, key), with_key, "{request}");
    }
}

#[test]
fn it_does_not_start_open_to_others_or_with_a_key_that_cannot_be_sent() {
    let folder = folder("proxy-open");
    let run = |arguments: &[&str], environment: &[(&str, &str)]| {
        let output = Command::new(env!("CARGO_BIN_EXE_clearseal"))
            .args(["proxy", "--url", "http://127.0.0.1:1", "--accept-simulated"])
            .args(arguments)
            .env_remove("CLEARSEAL_API_KEY")
            .envs(environment.iter().copied())
            .current_dir(&folder)
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), printed)
    };
    let remote = ["--listen", "0.0.0.0:0", "--allow-remote"];
    for (arguments, environment, expected) in [
        (&remote[..], &[][..], "--api-key KEY"),
        (&["--allow-remote"], &[], "--api-key KEY"),
        (&["--api-key", ""], &[], "cannot be sent"),
        (&["--api-key", " a"], &[], "cannot be sent"),
        (&["--api-key", "ä"], &[], "cannot be sent"),
        (&[], &[("CLEARSEAL_API_KEY", "")], "cannot be sent"),
        (&["--allow-host", "http://a"], &[], "not the name of a host"),
        (&["--queue-timeout", "0"], &[], "--queue-timeout"),
        // With a key it gets as far as the service, which is not there.
        (&remote, &[("CLEARSEAL_API_KEY", "a key")], "NETWORK"),
    ] {
        let (status, printed) = run(arguments, environment);
        assert_eq!(status, Some(2), "{printed}");
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

#[test]
fn head_answers_as_get_does_without_content() {
    let host = Host::start(23);
    let proxy = Proxy::start(&[&host], &[]);
    for path in ["/", "/healthz", "/v1/models", "/v1/nothing", "/nothing"] {
        let ask =
            |method: &str| proxy.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost"), "");
        let (status, head, body) = ask("HEAD");
        let (expected, of_get, content) = ask("GET");
        assert_eq!((status, &*body), (expected, ""), "{path}");
        let field = |head: &str, name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        for name in ["content-type: ", "content-length: "] {
            assert_eq!(field(&head, name), field(&of_get, name), "{path}");
        }
        assert!(!content.is_empty(), "{path}");
    }
}

#[test]
fn waiting_for_a_place_or_for_memory_ends() {
    let host = Host::start(24);
    let limits = ["--concurrency", "1", "--queue-timeout", "1"];
    let proxy = Proxy::start(&[&host], &limits);
    host.set(Mood::Held);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| proxy.embed("first", ""));
        while host.sealed_requests() == 0 {
            std::thread::yield_now();
        }
        let (status, head, body) = proxy.embed("second", "");
        assert_eq!(
            (status, &body["error"]["code"]),
            (429, &json!("PROXY_BUSY"))
        );
        assert!(head.contains("retry-after: 1"), "{head}");
        // Requests that need no place are answered meanwhile.
        assert_eq!(proxy.get("/healthz").0, 200);
        host.set(Mood::Honest);
        assert_eq!(first.join().unwrap().0, 200);
    });
    assert!(proxy.is_right("third"));

    // Bodies that never come hold all of the memory.
    let length = 4 << 20;
    let stalled: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&proxy.address).unwrap();
            let head = format!(
                "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{{"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // The last ones found no memory, and are answered; those before them wait for their bodies.
    let mut refused = 0;
    for mut stream in stalled.iter().rev() {
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut answer = [0; 12];
        if stream.read_exact(&mut answer).is_err() {
            break;
        }
        assert_eq!(&answer, b"HTTP/1.1 429");
        refused += 1;
    }
    assert!((1..40).contains(&refused), "{refused}");
    drop(stalled);
    let body = json!({"model": MODEL, "input": "a", "encoding_format": "float"}).to_string();
    let mut answered = false;
    let begun = Instant::now();
    while !answered && begun.elapsed() < PATIENCE {
        let head =
            "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        answered = proxy.send(head, &body).0 == 200;
    }
    assert!(answered, "memory did not come back");
}
