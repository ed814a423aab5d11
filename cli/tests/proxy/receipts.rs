//! The file of receipts: one writer, whole lines, none of an answered request missing.

use super::{Host, MODEL, Mood, PATIENCE, Proxy, folder};
use attestation::SignatureMemory;
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn place(name: &str) -> PathBuf {
    folder(name).join("receipts.jsonl")
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_clearseal"))
}

/// Lines of a file in which every line is whole and verifies.
fn verified_lines(host: &Host, path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line has no end"
    );
    for line in text.lines() {
        let bundle = clearseal_client::AuditBundle::from_json(line).unwrap();
        let report = bundle.verify(&host.policy, || None, &mut SignatureMemory::new());
        assert_eq!(report.receipt.code, None);
    }
    text.lines().count()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn two_proxies_do_not_share_a_file() {
    let host = Host::start(31);
    let path = place("proxy-two");
    let file = ["--receipts", path.to_str().unwrap()];
    let mut first = Proxy::start(&[&host], &file);
    assert!(first.is_right("a"));
    let second = program()
        .args([
            "proxy",
            "--accept-simulated",
            "--listen",
            "127.0.0.1:0",
            "--url",
            &host.url,
        ])
        .args(file)
        .output()
        .unwrap();
    let printed = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{printed}");
    assert!(printed.contains("another process writes to"), "{printed}");
    assert!(first.is_right("b"));
    // The system takes the lock back, however its holder ends.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let third = Proxy::start(&[&host], &file);
    assert!(third.is_right("c"));
    assert_eq!(verified_lines(&host, &path), 3);
}

#[test]
fn no_receipt_of_an_answered_request_is_lost_by_a_kill() {
    let host = Host::start(32);
    let path = place("proxy-killed");
    let file = ["--receipts", path.to_str().unwrap()];
    let mut answered = 0;
    for round in 0..5 {
        let mut proxy = Proxy::start(&[&host], &file);
        let address = proxy.address.clone();
        let ask = move |number: usize| {
            let body = json!({"model": MODEL, "input": format!("{round} {number}")}).to_string();
            let request = format!(
                "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut answer = String::new();
            let asked = TcpStream::connect(&address).and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                std::io::Read::read_to_string(&mut stream, &mut answer)
            });
            usize::from(asked.is_ok() && answer.starts_with("HTTP/1.1 200"))
        };
        answered += std::thread::scope(|scope| {
            let ask = &ask;
            let tasks: Vec<_> = (0..8)
                .map(|client| {
                    scope.spawn(move || (0..20).map(|n| ask(client * 20 + n)).sum::<usize>())
                })
                .collect();
            std::thread::sleep(Duration::from_millis(20 * (round + 1)));
            proxy.child.kill().unwrap();
            tasks
                .into_iter()
                .map(|task| task.join().unwrap())
                .sum::<usize>()
        });
    }
    // A start repairs what the last kill left.
    drop(Proxy::start(&[&host], &file));
    let kept = verified_lines(&host, &path);
    assert!(answered > 0);
    assert!(kept >= answered, "{answered} answers, {kept} receipts");
}

#[test]
fn a_line_that_a_crash_broke_off_is_set_aside() {
    let host = Host::start(33);
    let path = place("proxy-torn");
    let file = ["--receipts", path.to_str().unwrap()];
    let start = || Proxy::start_by(program(), &[&host], &file);
    {
        let (proxy, printed) = start();
        assert!(proxy.is_right("a") && proxy.is_right("b"));
        assert!(!printed.concat().contains("last line"), "{printed:?}");
    }
    let whole = std::fs::read(&path).unwrap();
    let cut = whole.len() - 100;
    std::fs::write(&path, &whole[..cut]).unwrap();
    {
        let (proxy, printed) = start();
        assert!(printed.concat().contains("broke off"), "{printed:?}");
        assert!(proxy.is_right("c"));
    }
    assert_eq!(verified_lines(&host, &path), 2);
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let torn = std::fs::read(path.with_extension("jsonl.torn")).unwrap();
    assert_eq!(torn, [&whole[first..cut], b"\n"].concat());
    // All but the end of the line: that line is complete.
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    {
        let (proxy, printed) = start();
        assert!(
            printed.concat().contains("it is complete now"),
            "{printed:?}"
        );
        assert!(proxy.is_right("d"));
    }
    assert_eq!(verified_lines(&host, &path), 3);
}

/// Asks until an answer is refused because its receipt cannot be written. Returns the number of answers before that.
fn fill(proxy: &Proxy) -> usize {
    for answered in 0..1000 {
        let (status, _, body) = proxy.embed(&format!("text {answered}"), "");
        if status != 200 {
            assert_eq!(
                (status, &body["error"]["code"]),
                (500, &json!("RECEIPT_NOT_WRITTEN"))
            );
            return answered;
        }
    }
    panic!("it never got full");
}

#[test]
fn a_file_that_may_not_grow_keeps_whole_lines() {
    let host = Host::start(34);
    let path = place("proxy-limit");
    let file = ["--receipts", path.to_str().unwrap()];
    let answered = {
        let mut limited = Command::new("sh");
        // 40 blocks of 512 bytes, or of 1024 in some shells; a write beyond that fails, as on a full disk.
        let script = "ulimit -f 40; trap '' XFSZ; exec \"$0\" \"$@\"";
        limited.args(["-c", script, env!("CARGO_BIN_EXE_clearseal")]);
        let (proxy, _) = Proxy::start_by(limited, &[&host], &file);
        let answered = fill(&proxy);
        assert_eq!(fill(&proxy), 0);
        answered
    };
    assert!(answered > 0);
    assert_eq!(verified_lines(&host, &path), answered);
    assert!(Proxy::start(&[&host], &file).is_right("after"));
    assert_eq!(verified_lines(&host, &path), answered + 1);
}

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs"])
            .arg(folder)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then(|| Self(folder.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_refuses_answers_until_there_is_room() {
    let folder = folder("proxy-full");
    let Some(disk) = Disk::mount(&folder) else {
        forge::tell_skipped("no file system can be mounted here");
        return;
    };
    let host = Host::start(35);
    let path = folder.join("receipts.jsonl");
    // Files of two lines or so: the disk also gets full at the moment when one is put aside.
    for size in ["12000", "1000000"] {
        let file = [
            "--receipts",
            path.to_str().unwrap(),
            "--receipts-size",
            size,
        ];
        let proxy = Proxy::start(&[&host], &file);
        let mut answered = fill(&proxy);
        assert_eq!(fill(&proxy), 0);
        assert!(answered > 1);
        let grown = Command::new("mount")
            .args(["-o", "remount,size=1m"])
            .arg(&disk.0)
            .status();
        assert!(grown.unwrap().success());
        answered += usize::from(proxy.is_right("after"));
        drop(proxy);
        let mut kept = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap().path();
            if !entry.ends_with("receipts.jsonl.lock") {
                kept += verified_lines(&host, &entry);
                std::fs::remove_file(entry).unwrap();
            }
        }
        assert_eq!(kept, answered);
        let shrunk = Command::new("mount")
            .args(["-o", "remount,size=64k"])
            .arg(&disk.0)
            .status();
        assert!(shrunk.unwrap().success());
    }
}

#[test]
fn a_client_that_leaves_takes_no_receipt_with_it() {
    let host = Host::start(36);
    let path = place("proxy-gone");
    let proxy = Proxy::start(&[&host], &["--receipts", path.to_str().unwrap()]);
    host.set(Mood::Held);
    let body = json!({"model": MODEL, "input": "a"}).to_string();
    let request = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for number in 1..=5 {
        let mut stream = TcpStream::connect(&proxy.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        until("sealed and sent", || host.sealed_requests() == number);
    }
    // All five have left; the proxy sees that before the enclave answers.
    assert_eq!(proxy.get("/healthz").0, 200);
    std::thread::sleep(Duration::from_millis(200));
    host.set(Mood::Honest);
    until("five receipts", || {
        std::fs::read_to_string(&path).unwrap().lines().count() == 5
    });
    assert_eq!(verified_lines(&host, &path), 5);
}

#[test]
fn a_proxy_that_is_told_to_stop_answers_what_is_under_way() {
    let host = Host::start(37);
    let path = place("proxy-stopped");
    let mut proxy = Proxy::start(&[&host], &["--receipts", path.to_str().unwrap()]);
    host.set(Mood::Held);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| proxy.embed("a", ""));
        until("sealed and sent", || host.sealed_requests() == 1);
        let process = proxy.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &process]).status();
        assert!(told.unwrap().success());
        until("no further connections", || {
            TcpStream::connect(&proxy.address).is_err()
        });
        host.set(Mood::Honest);
        assert_eq!(waiting.join().unwrap().0, 200);
    });
    assert_eq!(proxy.child.wait().unwrap().code(), Some(0));
    assert_eq!(verified_lines(&host, &path), 1);
}
