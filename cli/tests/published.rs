//! `clearseal release verify`: genuine, expired, forged, and a service that serves one changed byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::common::run;
use release::manifest::{Image, Model};
use release::{FileHash, Manifest, SecretKey};
use serde_json::Value;

/// 2027-01-15T08:00:00Z.
const SIGNED: u64 = 1_800_000_000;
const AT: &str = "--at=2027-01-15T08:00:00Z";
const EIGHT_DAYS_LATER: &str = "--at=2027-01-23T08:00:00Z";
const FILES: [(&str, &str); 3] = [
    ("index.html", "<!doctype html><p>page"),
    ("assets/verifier.wasm", "\0asm and a policy"),
    ("assets/app.js", "import"),
];

fn publisher() -> SecretKey {
    SecretKey::from_random([1; 8], &[2; 32])
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("release-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let image = Image {
        file: FileHash::of(b"image"),
        kernel: "0a".repeat(32),
        pcrs: ["0", "1", "2"]
            .map(|index| (index.to_owned(), "1b".repeat(48)))
            .into(),
    };
    let model = Model {
        id: "m".to_owned(),
        sha256: "2c".repeat(32),
    };
    let mut manifest = Manifest::new("0.1.0", &"3d".repeat(20), "rustc 1", image, model);
    for (path, contents) in FILES {
        let file = FileHash::of(contents.as_bytes());
        manifest.page.insert(path.to_owned(), file.clone());
        manifest.package.insert(path.to_owned(), file);
    }
    let bytes = manifest.to_bytes().unwrap();
    let signature = publisher().sign(&bytes, SIGNED).to_text();
    std::fs::write(folder.join("release.json"), &bytes).unwrap();
    std::fs::write(folder.join("release.json.minisig"), signature).unwrap();
    std::fs::write(folder.join("key.pub"), publisher().public().to_text()).unwrap();
    std::fs::write(folder.join("enclave.eif"), b"image").unwrap();
    folder
}

/// The program's outcome: exit status, and the codes of the findings.
fn verify(folder: &Path, more: &[&str]) -> (i32, Vec<String>) {
    let arguments = [
        &[
            "release",
            "verify",
            "release.json",
            "--json",
            "--key=key.pub",
        ][..],
        more,
    ]
    .concat();
    let ran = run(folder, &arguments, b"");
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let codes = findings
        .iter()
        .map(|finding| finding["code"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(report["genuine"] == true, ran.status == 0, "{report}");
    (ran.status, codes)
}

fn refused(code: &str) -> (i32, Vec<String>) {
    (1, vec![code.to_owned()])
}

#[test]
fn a_release_counts_for_a_week_after_each_signature() {
    let folder = folder("age");
    assert_eq!(verify(&folder, &[AT]), (0, vec![]));
    let late = [EIGHT_DAYS_LATER];
    assert_eq!(verify(&folder, &late), refused("RELEASE_NOT_RENEWED"));
    let old = [EIGHT_DAYS_LATER, "--accept-old"];
    assert_eq!(verify(&folder, &old), (0, vec![]));
    let early = ["--at=2027-01-14T08:00:00Z", "--accept-old"];
    assert_eq!(verify(&folder, &early), refused("RELEASE_FROM_FUTURE"));
    // Signed again: the manifest is the same file, and counts for another week.
    let bytes = std::fs::read(folder.join("release.json")).unwrap();
    let again = publisher().sign(&bytes, SIGNED + 7 * 86_400).to_text();
    std::fs::write(folder.join("release.json.minisig"), again).unwrap();
    assert_eq!(verify(&folder, &late), (0, vec![]));
}

#[test]
fn forged_manifests_are_refused() {
    let folder = folder("forged");
    let path = folder.join("release.json");
    let genuine = std::fs::read_to_string(&path).unwrap();
    // The image of an attacker, under the publisher's signature.
    std::fs::write(&path, genuine.replace("1b1b", "1c1c")).unwrap();
    assert_eq!(verify(&folder, &[AT]), refused("RELEASE_SIGNATURE_INVALID"));
    // Signed by the attacker.
    let stranger = SecretKey::from_random([3; 8], &[4; 32]);
    let forged = stranger.sign(genuine.as_bytes(), SIGNED).to_text();
    std::fs::write(&path, &genuine).unwrap();
    std::fs::write(folder.join("release.json.minisig"), forged).unwrap();
    assert_eq!(verify(&folder, &[AT]), refused("RELEASE_KEY_OTHER"));
    std::fs::write(folder.join("release.json.minisig"), "signed, really").unwrap();
    let malformed = refused("RELEASE_SIGNATURE_MALFORMED");
    assert_eq!(verify(&folder, &[AT]), malformed);
    // Signed by the publisher, and no manifest.
    std::fs::write(&path, "{}").unwrap();
    let signed = publisher().sign(b"{}", SIGNED).to_text();
    std::fs::write(folder.join("release.json.minisig"), signed).unwrap();
    assert_eq!(verify(&folder, &[AT]), refused("RELEASE_MALFORMED"));
    std::fs::write(folder.join("key.pub"), "no key").unwrap();
    assert_eq!(verify(&folder, &[AT]), refused("RELEASE_KEY_MALFORMED"));
}

#[test]
fn another_image_is_refused() {
    let folder = folder("image");
    let given = [AT, "--image=enclave.eif"];
    assert_eq!(verify(&folder, &given), (0, vec![]));
    std::fs::write(folder.join("enclave.eif"), b"imagf").unwrap();
    assert_eq!(verify(&folder, &given), refused("RELEASE_IMAGE_DIFFERS"));
}

#[test]
fn a_service_is_compared_file_by_file() {
    let folder = folder("served");
    let served: BTreeMap<_, _> = FILES
        .iter()
        .map(|(path, contents)| ((*path).to_owned(), contents.as_bytes().to_vec()))
        .collect();
    let compare = |files: BTreeMap<String, Vec<u8>>| {
        let url = format!("--url={}", serve(files));
        verify(&folder, &[AT, &url])
    };
    assert_eq!(compare(served.clone()), (0, vec![]));
    // One changed byte, in any file.
    for (path, _) in FILES {
        let mut changed = served.clone();
        changed.get_mut(path).unwrap()[0] ^= 1;
        assert_eq!(compare(changed), refused("RELEASE_FILE_DIFFERS"), "{path}");
        let mut longer = served.clone();
        longer.get_mut(path).unwrap().extend(vec![b'x'; 1 << 20]);
        assert_eq!(compare(longer), refused("RELEASE_FILE_DIFFERS"), "{path}");
        let mut missing = served.clone();
        missing.remove(path);
        assert_eq!(compare(missing), refused("RELEASE_FILE_MISSING"), "{path}");
    }
    // A service that does not answer gives no findings.
    let none = verify(&folder, &[AT, "--url=http://127.0.0.1:9"]);
    assert_eq!(none, (2, vec![]));
}

/// Serves these files on loopback.
fn serve(files: BTreeMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(line)) = lines.next() else {
                continue;
            };
            lines.find(|line| line.as_ref().is_ok_and(String::is_empty));
            let path = match line.split(' ').nth(1).unwrap() {
                "/" => "index.html",
                path => &path[1..],
            };
            let (status, body) = match files.get(path) {
                Some(body) => ("200 OK", &body[..]),
                None => ("404 Not Found", &b""[..]),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            // A client that has seen enough hangs up.
            stream.write_all(&[head.as_bytes(), body].concat()).ok();
        }
    });
    url
}
