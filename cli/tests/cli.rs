//! The program as a user runs it: exit status, JSON, and that a wrong question is not an answer.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a skipped test says so; a fixture that cannot be made is a failed test"
)]

use data_encoding::{BASE64, HEXLOWER};
use forge::{Contents, DevelopmentRoot, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOW: u64 = 1_800_000_000_500;
const AT: &str = "2027-01-15T08:00:00.500Z";
const NONCE: [u8; 32] = [7; 32];

/// A document of a development root, with the files that judge it, in a folder of its own.
struct Scene {
    folder: PathBuf,
    contents: Contents,
    issuer: Issuer,
}

impl Scene {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let root = DevelopmentRoot::generate(&mut rng, NOW);
        let issuer = Issuer::new(root, &mut rng, NOW);
        let contents = Contents {
            nonce: Some(NONCE.to_vec()),
            ..Contents::example()
        };
        let scene = Self {
            folder,
            contents,
            issuer,
        };
        scene.write(
            "document.cbor",
            &scene.issuer.forge(&scene.contents, NOW).build(),
        );
        scene.write("root.der", scene.issuer.root_der());
        scene.write("policy.json", scene.policy().to_string().as_bytes());
        scene
    }

    fn policy(&self) -> Value {
        let pcrs: serde_json::Map<_, _> = (0..3_u8)
            .map(|index| {
                (
                    index.to_string(),
                    json!(HEXLOWER.encode(&self.contents.pcrs[&index])),
                )
            })
            .collect();
        json!({
            "format": "clearseal-trust-policy/1",
            "name": "test",
            "root": { "development": BASE64.encode(self.issuer.root_der()) },
            "releases": [{ "name": "one", "pcrs": pcrs }],
            "max_age_seconds": 300,
            "clock_skew_seconds": 60,
        })
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join(name), bytes).unwrap();
    }

    /// Runs `clearseal` in the folder.
    fn run(&self, arguments: &[&str]) -> Run {
        run(&self.folder, arguments, b"")
    }
}

struct Run {
    status: i32,
    out: String,
    err: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|_| panic!("no JSON: {}{}", self.out, self.err))
    }
}

fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Run {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn row(report: &Value, id: u64) -> &Value {
    report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == id)
        .unwrap()
}

#[test]
fn inspect_says_whether_a_document_is_authentic() {
    let scene = Scene::new("inspect");
    let inspected = scene.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        "document",
        "--json",
    ]);
    assert_eq!(inspected.status, 0, "{}", inspected.err);
    let report = inspected.json();
    assert_eq!(report["verdict"], "authentic");
    assert_eq!(report["code"], Value::Null);
    for id in 1..=21 {
        assert_eq!(row(&report, id)["state"], "passed", "check {id}");
    }
    assert_eq!(row(&report, 22)["state"], "skipped");

    let under_aws = scene.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--at",
        "document",
        "--json",
    ]);
    assert_eq!(
        (under_aws.status, &under_aws.json()["verdict"]),
        (1, &json!("refused"))
    );

    let text = scene.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        AT,
    ]);
    assert_eq!(text.status, 0);
    assert!(
        text.out.starts_with("AUTHENTIC (image not judged)"),
        "{}",
        text.out
    );
    assert!(!text.out.contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn verify_judges_image_age_and_nonce() {
    let scene = Scene::new("verify");
    let nonce = HEXLOWER.encode(&NONCE);
    let base = [
        "verify",
        "attestation",
        "document.cbor",
        "--policy",
        "policy.json",
        "--json",
        "--at",
    ];
    let verify = |rest: &[&str]| scene.run(&[&base[..], rest].concat());

    let simulated = verify(&["document", "--nonce", &nonce]);
    assert_eq!(
        (simulated.status, &simulated.json()["verdict"]),
        (1, &json!("simulated"))
    );
    assert_eq!(
        verify(&["document", "--nonce", &nonce, "--accept-simulated"]).status,
        0
    );

    for (arguments, code) in [
        (
            vec!["document", "--nonce", "00112233445566778899aabbccddeeff"],
            "NONCE_MISMATCH",
        ),
        (vec!["2027-01-15T08:05:01Z"], "DOCUMENT_STALE"),
        (vec!["2027-01-15T07:58:59Z"], "CERTIFICATE_NOT_YET_VALID"),
        (vec!["2028-01-15T08:00:00Z"], "CERTIFICATE_EXPIRED"),
    ] {
        let refused = verify(&arguments);
        assert_eq!(refused.status, 1);
        assert_eq!(refused.json()["code"], code, "{arguments:?}");
    }

    let mut other = scene.policy();
    other["releases"][0]["pcrs"]["1"] = json!("11".repeat(48));
    scene.write("policy.json", other.to_string().as_bytes());
    let refused = verify(&["document"]);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (1, &json!("PCR_MISMATCH"))
    );
    assert_eq!(row(&refused.json(), 22)["state"], "failed");
    assert_eq!(row(&refused.json(), 25)["state"], "not-run");
}

#[test]
fn debug_mode_is_reported_and_never_verified() {
    let mut scene = Scene::new("debug");
    for index in 0..3 {
        scene.contents.pcrs.insert(index, [0; 48]);
    }
    scene.write(
        "document.cbor",
        &scene.issuer.forge(&scene.contents, NOW).build(),
    );
    scene.write("policy.json", scene.policy().to_string().as_bytes());
    let inspected = scene.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        AT,
        "--json",
    ]);
    assert_eq!(
        (inspected.status, &inspected.json()["document"]["debug"]),
        (0, &json!(true))
    );
    let verified = scene.run(&[
        "verify",
        "attestation",
        "document.cbor",
        "--policy",
        "policy.json",
        "--at",
        AT,
        "--accept-simulated",
        "--json",
    ]);
    assert_eq!(
        (verified.status, &verified.json()["code"]),
        (1, &json!("DEBUG_MODE"))
    );
}

#[test]
fn files_come_raw_in_hex_in_base64_and_on_standard_input() {
    let scene = Scene::new("encodings");
    let document = std::fs::read(scene.folder.join("document.cbor")).unwrap();
    for text in [HEXLOWER.encode(&document), BASE64.encode(&document) + "\n"] {
        scene.write("text", text.as_bytes());
        assert_eq!(
            scene
                .run(&[
                    "inspect",
                    "attestation",
                    "text",
                    "--root",
                    "root.der",
                    "--at",
                    AT
                ])
                .status,
            0
        );
    }
    let arguments = [
        "inspect",
        "attestation",
        "-",
        "--root",
        "root.der",
        "--at",
        AT,
    ];
    assert_eq!(run(&scene.folder, &arguments, &document).status, 0);
}

#[test]
fn a_policy_is_explained_in_plain_words() {
    let scene = Scene::new("policy");
    let mut policy = scene.policy();
    policy["not_after"] = json!("2027-01-20T00:00:00Z");
    policy["releases"][0]["not_after"] = json!("2027-01-16T00:00:00Z");
    let mut next = policy["releases"][0].clone();
    next["name"] = json!("two");
    next["not_before"] = json!("2027-01-15T12:00:00Z");
    next["not_after"] = Value::Null;
    next["pcrs"] = json!({ "0": "ab".repeat(48) });
    policy["releases"].as_array_mut().unwrap().push(next);
    scene.write("roll-out.json", policy.to_string().as_bytes());

    let check = |at: &str, more: &[&str]| {
        scene.run(&[&["policy", "check", "roll-out.json", "--at", at][..], more].concat())
    };
    let before = check(AT, &[]);
    assert_eq!(before.status, 0, "{}{}", before.out, before.err);
    for words in [
        "USABLE  policy test",
        "can be simulated at best",
        "the policy ends 2027-01-20T00:00:00Z",
        "accepted now  one  until 2027-01-16T00:00:00Z",
        "pinned: PCR0, PCR1, PCR2; open: PCR8",
        "not yet       two  from 2027-01-15T12:00:00Z until 2027-01-20T00:00:00Z",
        "pinned: PCR0; open: PCR1, PCR2, PCR8",
        "documents at most 300 s old, clocks at most 60 s apart",
        "ENDS_SOON  Nothing is accepted any more in 4 days.",
        "PINS_ONE_REGISTER",
        "DEVELOPMENT_ROOT",
        "BINDS_NO_SERVICE",
    ] {
        assert!(before.out.contains(words), "{words}: {}", before.out);
    }
    let overlap = check("2027-01-15T12:00:00Z", &["--json"]).json();
    assert_eq!(overlap["usable"], true);
    assert_eq!(overlap["releases"][0]["accepted"], "now");
    assert_eq!(overlap["releases"][1]["accepted"], "now");
    let over = check("2027-01-20T00:00:00.001Z", &["--json"]);
    assert_eq!(over.status, 1);
    assert_eq!(over.json()["warnings"][0]["code"], "POLICY_EXPIRED");

    policy["releases"][1]["pcr"] = json!({});
    scene.write("unknown.json", policy.to_string().as_bytes());
    let unknown = scene.run(&["policy", "check", "unknown.json"]);
    assert_eq!(unknown.status, 1);
    assert!(
        unknown.out.contains("REFUSED  POLICY_UNREADABLE"),
        "{}",
        unknown.out
    );
    assert!(
        unknown.out.contains("releases[1].pcr is no key"),
        "{}",
        unknown.out
    );
    let unknown = scene.run(&["policy", "check", "unknown.json", "--json"]);
    assert_eq!(
        (unknown.status, unknown.json()["usable"].clone()),
        (1, json!(false))
    );
    for arguments in [
        &["policy", "check", "absent.json"][..],
        &["policy", "check", "roll-out.json", "--at", "document"],
        &["policy"],
    ] {
        assert_eq!(scene.run(arguments).status, 2, "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_judged_exits_with_two() {
    let scene = Scene::new("unjudged");
    scene.write("empty.json", br#"{"format":"clearseal-trust-policy/1"}"#);
    for arguments in [
        &[][..],
        &["inspect"],
        &["inspect", "attestation", "absent"],
        &[
            "inspect",
            "attestation",
            "document.cbor",
            "--at",
            "yesterday",
        ],
        &[
            "inspect",
            "attestation",
            "document.cbor",
            "--root",
            "document.cbor",
        ],
        &["verify", "attestation", "document.cbor"],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "absent",
        ],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "empty.json",
        ],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "policy.json",
            "--nonce",
            "xyz",
        ],
        &["verify", "receipt", "document.cbor"],
        &["verify", "receipt", "document.cbor", "--key", "00"],
        &["embed", "--url", "http://127.0.0.1:1"],
    ] {
        let run = scene.run(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}", run.out);
        assert!(run.out.is_empty() && !run.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn genuine_documents_are_authentic_at_their_time_and_expired_now() {
    let Some(vectors) = vectors() else { return };
    let folder = vectors.join("nitro/documents");
    let document = std::fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let document = document.to_str().unwrap();
    let then = run(
        &folder,
        &[
            "inspect",
            "attestation",
            document,
            "--at",
            "document",
            "--json",
        ],
        b"",
    );
    assert_eq!(
        (then.status, &then.json()["verdict"]),
        (0, &json!("authentic"))
    );
    let now = run(
        &folder,
        &["inspect", "attestation", document, "--json"],
        b"",
    );
    assert_eq!(
        (now.status, &now.json()["code"]),
        (1, &json!("CERTIFICATE_EXPIRED"))
    );
}

#[test]
fn receipts_of_the_profile_are_judged_by_a_named_key() {
    let Some(vectors) = vectors() else { return };
    let scene = Scene::new("receipts");
    let vector = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(vectors.join("air-v1").join(name)).unwrap()).unwrap()
    };
    let golden = vector("v1-nitro-no-nonce.json");
    let key = golden["public_key_hex"].as_str().unwrap();
    scene.write(
        "receipt",
        golden["receipt_hex"].as_str().unwrap().as_bytes(),
    );
    let verified = scene.run(&["verify", "receipt", "receipt", "--key", key, "--json"]);
    assert_eq!(
        (verified.status, &verified.json()["verdict"]),
        (0, &json!("verified"))
    );
    assert_eq!(verified.json()["claims"]["sequenceNumber"], 42);
    let stale = scene.run(&[
        "verify", "receipt", "receipt", "--key", key, "--at", "now", "--json",
    ]);
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (1, &json!("TIMESTAMP_STALE"))
    );
    let other = scene.run(&[
        "verify",
        "receipt",
        "receipt",
        "--key",
        &"20".repeat(32),
        "--json",
    ]);
    assert_eq!(other.status, 1);

    let wrong = vector("v1-wrong-alg.json");
    scene.write("receipt", wrong["receipt_hex"].as_str().unwrap().as_bytes());
    let refused = scene.run(&["verify", "receipt", "receipt", "--key", key, "--json"]);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (1, &json!("BAD_ALG"))
    );
}

fn vectors() -> Option<PathBuf> {
    let folder = std::env::var_os("CLEARSEAL_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no vectors");
    None
}
