//! docs/RECEIPTS.md decodes a receipt byte by byte. The tests check that it is a real one, and that the page describes it correctly.
//!
//! `CLEARSEAL_WRITE_DOCS=1 cargo test -p protocol --test main documentation` writes the example again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;

use attestation::{HashScheme, ReceiptKey, SecurityMode, Verdict};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};
use fixtures::random::Script;
use protocol::commitment::{request_hash, response_hash};
use protocol::receipt::{
    Expectations, Measurements, Platform, ReceiptClaims, ReceiptSigner, verify,
};

/// RFC 8032 §7.1, test 1: a published key, which protects nothing.
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

fn receipt() -> (ReceiptSigner, Vec<u8>) {
    let seed = base16ct::lower::decode_vec(SEED).unwrap();
    let signer = ReceiptSigner::generate(&mut Script::new(&seed));
    let claims = ReceiptClaims {
        issuer: "clearseal".into(),
        // 2026-11-20T14:03:00Z
        issued_at: 1_795_183_380,
        id: *b"an identifier 16",
        nonce: Some(b"a client's nonce".to_vec()),
        model_id: "all-MiniLM-L6-v2".into(),
        model_version: "candle-f32".into(),
        model_hash: [0x11; 32],
        model_hash_scheme: Some(HashScheme::Sha256Manifest),
        request_hash: request_hash(b"the inner request, salt included"),
        response_hash: response_hash(&[0x5a; 32], b"the content of the answer"),
        document_hash: [0x22; 32],
        measurements: Measurements {
            platform: Platform::NitroPcr,
            pcr0: [0xa0; 48],
            pcr1: [0xa1; 48],
            pcr2: [0xa2; 48],
            pcr3: None,
            pcr4: None,
            pcr8: None,
        },
        policy_version: "2026-11-01".into(),
        sequence_number: 41,
        execution_time_ms: 8,
        memory_peak_mb: 192,
        security_mode: SecurityMode::Evaluation,
    };
    let receipt = signer.sign(&claims);
    (signer, receipt)
}

const CLAIMS: [(i64, &str); 18] = [
    (1, "iss"),
    (6, "iat"),
    (7, "cti"),
    (10, "eat_nonce"),
    (265, "eat_profile"),
    (-65_537, "model_id"),
    (-65_538, "model_version"),
    (-65_539, "model_hash"),
    (-65_540, "request_hash"),
    (-65_541, "response_hash"),
    (-65_542, "attestation_doc_hash"),
    (-65_543, "enclave_measurements"),
    (-65_544, "policy_version"),
    (-65_545, "sequence_number"),
    (-65_546, "execution_time_ms"),
    (-65_547, "memory_peak_mb"),
    (-65_548, "security_mode"),
    (-65_549, "model_hash_scheme"),
];

/// Lines of offset, bytes and meaning, from a decoder that is independent of the tested one.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    out: String,
}

impl Lines<'_> {
    fn line(&mut self, depth: usize, length: usize, meaning: &str) {
        let bytes = &self.bytes[self.at..self.at + length];
        for (row, chunk) in bytes.chunks(16).enumerate() {
            let offset = self.at + row * 16;
            let meaning = if row == 0 {
                format!("{}{meaning}", "  ".repeat(depth))
            } else {
                String::new()
            };
            let line = format!("{offset:04x}  {:<32}  {meaning}", hex(chunk));
            writeln!(self.out, "{}", line.trim_end()).unwrap();
        }
        self.at += length;
    }

    /// Major type, argument and length of the head here (RFC 8949 §3).
    fn head(&self) -> (u8, u64, usize) {
        let first = self.bytes[self.at];
        let more = match first & 0x1f {
            argument @ 0..=23 => return (first >> 5, argument.into(), 1),
            24 => 1,
            25 => 2,
            26 => 4,
            _ => 8,
        };
        let argument = self.bytes[self.at + 1..=self.at + more].iter();
        (
            first >> 5,
            argument.fold(0, |value, byte| value << 8 | u64::from(*byte)),
            1 + more,
        )
    }

    fn container(&mut self, depth: usize, meaning: &str) -> u64 {
        let (_, count, length) = self.head();
        self.line(depth, length, meaning);
        count
    }

    fn integer(&mut self, depth: usize, name: impl Fn(i64) -> String) -> i64 {
        let (major, argument, length) = self.head();
        let argument = i64::try_from(argument).unwrap();
        let value = if major == 0 { argument } else { -1 - argument };
        self.line(depth, length, &name(value));
        value
    }

    /// A string: its head and its bytes on separate lines.
    fn string(&mut self, depth: usize, what: &str) {
        let (major, length, head) = self.head();
        let length = usize::try_from(length).unwrap();
        let kind = if major == 2 { "byte string" } else { "text" };
        self.line(depth, head, &format!("{kind} of {length}"));
        let bytes = &self.bytes[self.at..self.at + length];
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|_| major == 3)
            .unwrap_or_default()
            .to_owned();
        let shown = if major == 3 {
            format!("\"{text}\"")
        } else {
            what.to_owned()
        };
        self.line(depth + 1, length, &shown);
    }

    fn claims(&mut self) {
        let count = self.container(2, "map of 18: the claims, keys in bytewise order");
        for _ in 0..count {
            let name = |key: i64| {
                let known = CLAIMS.iter().find(|(known, _)| *known == key).unwrap();
                format!("{key}: {}", known.1)
            };
            let key = self.integer(3, name);
            self.value(key);
        }
    }

    fn value(&mut self, key: i64) {
        match key {
            6 => self.number(|value| format!("{value}, Unix seconds: 2026-11-20T14:03:00Z")),
            -65_545 => self.number(|value| format!("{value}: leaf {value} of the log")),
            -65_546 => self.number(|value| format!("{value} ms")),
            -65_547 => self.number(|value| format!("{value} MiB")),
            -65_543 => {
                let count = self.container(4, "map of 4");
                for _ in 0..count {
                    self.string(5, "");
                    self.string(6, "the register");
                }
            }
            7 => self.string(4, "the identifier"),
            10 => self.string(4, "the client's nonce"),
            _ => self.string(4, "SHA-256"),
        }
    }

    fn number(&mut self, meaning: impl Fn(i64) -> String) {
        self.integer(4, meaning);
    }
}

/// The whole receipt, line by line.
fn decoded(receipt: &[u8]) -> String {
    let mut lines = Lines {
        bytes: receipt,
        at: 0,
        out: String::new(),
    };
    lines.container(0, "tag 18: COSE_Sign1");
    lines.container(0, "array of 4");
    let (_, length, _) = lines.head();
    lines.container(1, &format!("byte string of {length}: the protected header"));
    lines.container(2, "map of 2");
    lines.integer(3, |key| format!("{key}: algorithm"));
    lines.integer(4, |value| format!("{value}: EdDSA"));
    lines.integer(3, |key| format!("{key}: content type"));
    lines.integer(4, |value| format!("{value}: CWT"));
    lines.container(1, "empty map: the unprotected header");
    let (_, length, _) = lines.head();
    lines.container(1, &format!("byte string of {length}: the payload"));
    lines.claims();
    lines.string(1, "the signature: R, then S");
    assert_eq!(lines.at, receipt.len());
    lines.out
}

fn block() -> String {
    let (signer, receipt) = receipt();
    let key = hex(&signer.public_key());
    let mut wrapped = String::new();
    for line in Base64UrlUnpadded::encode_string(&receipt)
        .as_bytes()
        .chunks(100)
    {
        writeln!(wrapped, "{}", std::str::from_utf8(line).unwrap()).unwrap();
    }
    format!(
        "Key, hex:\n\n```text\n{key}\n```\n\nReceipt, base64url, {} bytes:\n\n```text\n{wrapped}```\n\n```text\n{}```\n",
        receipt.len(),
        decoded(&receipt)
    )
}

const BEGIN: &str = "<!-- example: begin -->\n";
const END: &str = "<!-- example: end -->";

/// Every claim is in the table of facts that third parties learn; [`CLAIMS`] is complete, because [`decoded`] looks each key up in it.
#[test]
fn the_threats_list_every_claim() {
    let threats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/THREATS.md");
    let threats = std::fs::read_to_string(threats).unwrap();
    let (_, section) = threats.split_once("\n## What strangers learn\n").unwrap();
    let section = section.split("\n**Headers outside").next().unwrap();
    for (_, name) in CLAIMS {
        assert!(section.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_example_of_the_documentation_is_a_real_receipt_and_decoded_correctly() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RECEIPTS.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (example, after) = rest.split_once(END).unwrap();
    if std::env::var_os("CLEARSEAL_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", block())).unwrap();
        return;
    }
    assert!(
        example == block(),
        "docs/RECEIPTS.md is out of date; write it again with CLEARSEAL_WRITE_DOCS=1"
    );
}

#[test]
fn the_example_verifies_under_its_key() {
    let (signer, receipt) = receipt();
    // RFC 8032 §7.1, test 1.
    let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    assert_eq!(hex(&signer.public_key()), key);
    let expectations =
        Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(signer.public_key()));
    let (report, claims) = verify(&receipt, &expectations, None);
    assert_eq!(report.verdict, Verdict::Signed, "{report:?}");
    assert!(claims.is_some());
}

#[test]
fn every_code_of_a_receipt_and_of_a_log_is_in_the_documentation() {
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RECEIPTS.md"),
    )
    .unwrap();
    let receipt = protocol::receipt::ReceiptCode::ALL
        .iter()
        .map(|code| code.code());
    let log = protocol::log::LogCode::ALL.iter().map(|code| code.code());
    let missing: Vec<_> = receipt
        .chain(log)
        .filter(|code| !page.contains(&format!("`{code}`")))
        .collect();
    assert!(missing.is_empty(), "not in docs/RECEIPTS.md: {missing:?}");
}
