//! Hosts that are busy, broken or away, and clients that leave.

use super::{Host, Mood, Proxy};
use fixtures::host::vector;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

#[test]
fn five_hundred_at_once_while_the_enclave_restarts_and_no_wrong_answer() {
    let host = Host::start(14);
    let proxy = Proxy::start(&[&host], &[]);
    let answered = std::thread::scope(|scope| {
        let proxy = &proxy;
        let tasks: Vec<_> = (0..500)
            .map(|number| scope.spawn(move || proxy.is_right(&format!("text {number}"))))
            .collect();
        for _ in 0..3 {
            host.restart();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        tasks
            .into_iter()
            .map(|task| u32::from(task.join().unwrap()))
            .sum::<u32>()
    });
    assert!(answered > 0);
    assert!(proxy.is_right("after"), "the proxy did not recover");
}

#[test]
fn broken_hosts_give_openai_errors_and_the_next_upstream_answers() {
    let (first, second) = (Host::start(15), Host::start(15));
    let alone = Proxy::start(&[&first], &[]);
    let both = Proxy::start(&[&first, &second], &[]);
    for (mood, code) in [
        (Mood::Busy, "BUSY"),
        (Mood::Cut, "NETWORK"),
        (Mood::KeyUnknown, "KEY_UNKNOWN_TWICE"),
    ] {
        first.set(mood);
        let (status, _, body) = alone.embed("a", "");
        assert_eq!((status, &body["error"]["code"]), (503, &json!(code)));
        assert!(body["error"]["message"].is_string() && body["error"]["type"].is_string());
        assert!(both.is_right("a"));
    }
    // Another image in the first one's place: refused, nothing is sealed to it, and the proxy says so.
    first.set(Mood::Honest);
    first.swap_image();
    let (status, _, body) = alone.embed("a", "");
    assert_eq!(
        (status, &body["error"]["code"]),
        (503, &json!("PCR_MISMATCH"))
    );
    let (status, _, health) = alone.get("/healthz");
    assert_eq!(
        (status, health.contains("refused")),
        (503, true),
        "{health}"
    );
    assert!(both.is_right("b"));
}

/// OpenAI's clients obey both fields: a whole number of seconds, `true` or `false`.
#[test]
fn errors_tell_openais_clients_whether_to_repeat_the_request() {
    let host = Host::start(17);
    let proxy = Proxy::start(&[&host], &[]);
    let advice = |head: &str| {
        let field = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        (field("retry-after: "), field("x-should-retry: ").unwrap())
    };
    for mood in [Mood::Busy, Mood::Cut, Mood::KeyUnknown] {
        host.set(mood);
        let (status, head, _) = proxy.embed("a", "");
        assert_eq!(status, 503);
        assert_eq!(advice(&head), (Some("1".to_owned()), "true".to_owned()));
    }
    // Another image: no attempt can succeed.
    host.set(Mood::Honest);
    host.swap_image();
    let (status, head, _) = proxy.embed("a", "");
    assert_eq!((status, advice(&head)), (503, (None, "false".to_owned())));
    let (status, head, _) = proxy.get("/nothing");
    assert_eq!((status, advice(&head)), (404, (None, "false".to_owned())));
}

#[test]
fn a_request_is_held_while_the_service_is_away() {
    let host = Host::start(18);
    let proxy = Proxy::start(&[&host], &["--wait", "600"]);
    for mood in [Mood::Cut, Mood::Busy] {
        host.set(mood);
        std::thread::scope(|scope| {
            let (before, waiting) = (
                host.sealed_requests(),
                scope.spawn(|| proxy.embed("patient", "")),
            );
            while host.sealed_requests() < before + 3 {
                std::thread::yield_now();
            }
            host.set(Mood::Honest);
            let (status, _, body) = waiting.join().unwrap();
            assert_eq!(status, 200, "{body}");
            assert_eq!(body["data"][0]["embedding"], json!(vector("patient")));
        });
    }
    let (_, _, health) = proxy.get("/healthz");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(
        (&health["answered"], &health["failed"]),
        (&json!(2), &json!(0))
    );
    // A refusal is final.
    host.swap_image();
    assert_eq!(proxy.embed("a", "").0, 503);
}

#[test]
fn a_held_request_does_not_delay_the_end() {
    let host = Host::start(19);
    let mut proxy = Proxy::start(&[&host], &["--wait", "600"]);
    host.set(Mood::Cut);
    let mut stream = TcpStream::connect(&proxy.address).unwrap();
    let request = "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).unwrap();
    while host.sealed_requests() < 3 {
        std::thread::yield_now();
    }
    let stopped = Command::new("kill")
        .arg(proxy.child.id().to_string())
        .status();
    assert!(stopped.unwrap().success());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(proxy.child.wait().unwrap().success());
}

#[test]
fn clients_that_stall_or_leave_disturb_no_other() {
    let host = Host::start(16);
    let proxy = Proxy::start(&[&host], &[]);
    let stalled: Vec<_> = (0..50)
        .map(|number| {
            let mut stream = TcpStream::connect(&proxy.address).unwrap();
            let head =
                "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
            stream.write_all(head.as_bytes()).unwrap();
            // Half of them leave in the middle of their body.
            (number % 2 == 0).then_some(stream)
        })
        .collect();
    assert!(proxy.is_right("a"));
    drop(stalled);
    assert!(proxy.is_right("b"));
}
