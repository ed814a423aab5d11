//! Runs the program, over files of a development enclave.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses a part; a fixture that cannot be made is a failed test"
)]

use base64ct::{Base64, Encoding};
use fixtures::host::Host;
use forge::{Contents, DevelopmentRoot, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub const NOW: u64 = 1_800_000_000_500;
pub const AT: &str = "2027-01-15T08:00:00.500Z";
pub const NONCE: [u8; 32] = [7; 32];

/// A document of a development root, with the files that judge it, in a separate folder.
pub struct Fixture {
    pub folder: PathBuf,
    pub contents: Contents,
    pub issuer: Issuer,
}

impl Fixture {
    pub fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let root = DevelopmentRoot::generate(&mut rng, NOW);
        let issuer = Issuer::new(root, &mut rng, NOW);
        let contents = Contents {
            nonce: Some(NONCE.to_vec()),
            ..Contents::example()
        };
        let fixture = Self {
            folder,
            contents,
            issuer,
        };
        fixture.write(
            "document.cbor",
            &fixture.issuer.forge(&fixture.contents, NOW).build(),
        );
        fixture.write("root.der", fixture.issuer.root_der());
        fixture.write("policy.json", fixture.policy().to_string().as_bytes());
        fixture
    }

    pub fn policy(&self) -> Value {
        let pcrs: serde_json::Map<_, _> = (0..3_u8)
            .map(|index| {
                (
                    index.to_string(),
                    json!(base16ct::lower::encode_string(&self.contents.pcrs[&index])),
                )
            })
            .collect();
        json!({
            "format": "clearseal-trust-policy/1",
            "name": "test",
            "root": { "development": Base64::encode_string(self.issuer.root_der()) },
            "releases": [{ "name": "one", "pcrs": pcrs }],
            "max_age_seconds": 300,
            "clock_skew_seconds": 60,
        })
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join(name), bytes).unwrap();
    }

    /// Runs `clearseal` in the folder.
    pub fn run(&self, arguments: &[&str]) -> Run {
        run(&self.folder, arguments, b"")
    }
}

pub struct Run {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|_| panic!("no JSON: {}{}", self.out, self.err))
    }
}

pub fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that refuses before it reads its input closes it: that is for the test to judge by status and output.
    if let Err(error) = child.stdin.take().unwrap().write_all(input) {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    }
    let output = child.wait_with_output().unwrap();
    let run = Run {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    assert_no_escaped_layout(&run.out);
    assert_no_escaped_layout(&run.err);
    run
}

/// A line break of the program's own, made harmless like one of the evidence, would show as `\u{a}` where a line begins or ends.
pub fn assert_no_escaped_layout(printed: &str) {
    for line in printed.lines().map(str::trim) {
        let escaped = |escape| line.starts_with(escape) || line.ends_with(escape);
        let layout = ["\\u{a}", "\\u{d}", "\\u{9}"];
        assert!(!layout.into_iter().any(escaped), "{line:?} in:\n{printed}");
    }
}

/// Embeds the lines of `input` in requests of three, and writes their proofs to a file; returns the rows, JSON lines.
pub fn embed_with_proofs(host: &Host, policy: &Path, proofs: &Path, input: &str) -> Vec<u8> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(["embed", "--accept-simulated", "--batch", "3", "--url"])
        .arg(&host.url)
        .arg("--policy")
        .arg(policy)
        .arg("--proofs")
        .arg(proofs)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}
