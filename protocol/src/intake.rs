//! What a person pastes or drops, recognised without asking: receipts, audit bundles, policies and keys, raw or in hex,
//! base64, base64url, JSON, or many of them line by line.
//!
//! Nothing is judged here, and nothing is dropped: what cannot be made sense of becomes an item that says why.

use attestation::{Policy, PolicyError};
use base64ct::{Base64, Base64Unpadded, Base64Url, Base64UrlUnpadded, Encoding as _};
use serde::Deserialize;

use crate::bundle::{self, AuditBundle, MAX_BUNDLE};
use crate::receipt::MAX_RECEIPT;

/// Value of the member `format` of a trust policy.
const POLICY_FORMAT: &str = "clearseal-trust-policy/1";

/// How the bytes of an item were written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// Hexadecimal digits.
    Hex,
    /// Base64 or base64url, padded or not.
    Base64,
    /// Base64 between two lines that name it.
    Pem,
    /// A JSON object, or a JSON string.
    Json,
    /// `receipt.document.manifest`, base64url each: what a link carries.
    Compact,
}

impl Encoding {
    /// Its name for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw bytes",
            Self::Hex => "hex",
            Self::Base64 => "base64",
            Self::Pem => "PEM",
            Self::Json => "JSON",
            Self::Compact => "link",
        }
    }
}

/// What something turned out to be. No `Debug`: a bundle may hold the user's content.
pub enum Found {
    /// A receipt alone, still unjudged.
    Receipt(Vec<u8>),
    /// A receipt with its evidence.
    Bundle(Box<AuditBundle>),
    /// A trust policy, or why it cannot be used. It came with the evidence, and so its best verdict is *simulated*.
    Policy(Result<Box<Policy>, PolicyError>),
    /// 32 bytes: an Ed25519 receipt key.
    Key([u8; 32]),
    /// None of these.
    Unreadable(Unreadable),
}

/// Why something is none of what is judged here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Stable code.
    pub code: &'static str,
    /// What was found instead, in one sentence.
    pub message: String,
    /// What to do next, in one sentence.
    pub remedy: &'static str,
}

/// One thing out of what was pasted.
pub struct Item {
    /// What it is.
    pub found: Found,
    /// How it was written.
    pub encoding: Encoding,
    /// Line on which it begins, from 1.
    pub line: u32,
}

/// Takes apart what was pasted or dropped, in order. Never empty.
pub fn recognise(bytes: &[u8]) -> Vec<Item> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return vec![item(kind_of(bytes.to_vec()), Encoding::Raw, 1)];
    };
    let text = text.trim();
    let several = text.lines().filter(|line| !line.trim().is_empty()).count() > 1;
    let wrapped = pems(text);
    if !wrapped.is_empty() {
        return wrapped;
    }
    if several && lines_stand_alone(text) {
        return lines(text);
    }
    if text.starts_with('[') {
        return elements(text).map_or_else(
            || vec![item(malformed(), Encoding::Json, 1)],
            |elements| elements.into_iter().map(|one| one_of(one, 1)).collect(),
        );
    }
    let whole = one_of(text, 1);
    if several && matches!(whole.found, Found::Unreadable(_)) {
        let apart = lines(text);
        let sense = |item: &Item| !matches!(item.found, Found::Unreadable(_));
        if apart.iter().any(sense) {
            return apart;
        }
    }
    vec![whole]
}

/// PEM wrappers, one after the other, where the text is nothing else.
fn pems(text: &str) -> Vec<Item> {
    const BEGIN: &str = "-----BEGIN ";
    let mut found = Vec::new();
    let mut line = 1_u32;
    let mut rest = text;
    while rest.starts_with(BEGIN) {
        let next = rest[BEGIN.len()..].find(BEGIN).map(|at| at + BEGIN.len());
        let (one, after) = rest.split_at(next.unwrap_or(rest.len()));
        found.push(one_of(one.trim(), line));
        let breaks = one.bytes().filter(|byte| *byte == b'\n').count();
        line = line.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        rest = after;
    }
    found
}

/// Takes every line for an item of its own: for files that are read piece by piece, cut between lines.
pub fn recognise_lines(bytes: &[u8]) -> Vec<Item> {
    bytes
        .split(|byte| *byte == b'\n')
        .zip(1_u32..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .map(|(line, number)| match std::str::from_utf8(line) {
            Ok(text) => one_of(text.trim(), number),
            Err(_) => item(kind_of(line.to_vec()), Encoding::Raw, number),
        })
        .collect()
}

/// Undoes a text encoding, where `bytes` is one; whitespace does not count.
///
/// A CBOR item or a DER certificate always holds bytes that no text encoding has, so there is nothing to confuse.
pub fn decode(bytes: Vec<u8>) -> Vec<u8> {
    match std::str::from_utf8(&bytes).ok().and_then(decode_text) {
        Some((decoded, _)) => decoded,
        None => bytes,
    }
}

fn decode_text(text: &str) -> Option<(Vec<u8>, Encoding)> {
    if let Some(body) = pem_body(text) {
        return Some((decode_text(body)?.0, Encoding::Pem));
    }
    if let Some(decoded) = grouped_hex(text) {
        return Some((decoded, Encoding::Hex));
    }
    let compact: String = text
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .collect();
    if compact.is_empty() {
        return None;
    }
    if let Ok(decoded) = base16ct::mixed::decode_vec(&compact) {
        return Some((decoded, Encoding::Hex));
    }
    let decode = [
        Base64::decode_vec,
        Base64Unpadded::decode_vec,
        Base64Url::decode_vec,
        Base64UrlUnpadded::decode_vec,
    ];
    let decoded = decode.iter().find_map(|decode| decode(&compact).ok())?;
    Some((decoded, Encoding::Base64))
}

/// What is between the two lines of a PEM wrapper, whatever its label says (RFC 7468 §2); one wrapper, without headers.
fn pem_body(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let body = rest.trim_end().strip_suffix("-----")?;
    let (body, end) = body.rsplit_once("-----END ")?;
    (end == label && !body.contains("-----")).then_some(body)
}

/// Hex as other programs print it: `d2:84:46`, `0xd284`, `0xd2, 0x84`.
fn grouped_hex(text: &str) -> Option<Vec<u8>> {
    let groups = text.split(|char: char| char.is_ascii_whitespace() || matches!(char, ':' | ','));
    let mut digits = String::with_capacity(text.len());
    for group in groups {
        let group = group
            .strip_prefix("0x")
            .or_else(|| group.strip_prefix("0X"))
            .unwrap_or(group);
        digits.push_str(group);
    }
    if digits.is_empty() {
        return None;
    }
    base16ct::mixed::decode_vec(&digits).ok()
}

/// Whether this is a list of items, and not one item that is wrapped or indented.
fn lines_stand_alone(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else {
        return false;
    };
    match first.trim_start().as_bytes().first() {
        // An indented object opens on its first line and closes on a later one.
        Some(b'{' | b'"') => serde_json::from_str::<serde::de::IgnoredAny>(first).is_ok(),
        Some(b'[') => false,
        // The second line of a wrapped item is the middle of its bytes.
        _ => !matches!(
            one_of(second.trim(), 2).found,
            Found::Unreadable(_) | Found::Key(_)
        ),
    }
}

fn lines(text: &str) -> Vec<Item> {
    recognise_lines(text.as_bytes())
}

fn one_of(text: &str, line: u32) -> Item {
    if text.len() > MAX_BUNDLE {
        let message = format!("This is longer than {MAX_BUNDLE} bytes; no receipt or bundle is.");
        let found = unreadable(
            "TOO_LARGE",
            message,
            "Pass receipts or bundles, one a line.",
        );
        return item(found, Encoding::Raw, line);
    }
    match text.as_bytes().first() {
        None => {
            let message = "There is nothing here.".to_owned();
            let found = unreadable("EMPTY", message, "Paste a receipt or an audit bundle.");
            item(found, Encoding::Raw, line)
        }
        Some(b'{') => item(object(text), Encoding::Json, line),
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(inner) if !inner.starts_with('"') => one_of(inner.trim(), line),
            _ => item(malformed(), Encoding::Json, line),
        },
        Some(_) => match (compact(text), decode_text(text)) {
            (Some(bundle), _) => item(Found::Bundle(Box::new(bundle)), Encoding::Compact, line),
            (None, Some((bytes, encoding))) => item(kind_of(bytes), encoding, line),
            (None, None) => item(unknown(), Encoding::Raw, line),
        },
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    receipt: Option<String>,
}

fn object(text: &str) -> Found {
    let Ok(head) = serde_json::from_str::<Head>(text) else {
        return malformed();
    };
    match (head.format.as_deref(), head.receipt) {
        (Some(bundle::FORMAT), _) => match AuditBundle::from_json(text) {
            Ok(bundle) => Found::Bundle(Box::new(bundle)),
            Err(error) => unreadable(error.code(), sentence(&error.to_string()), error.remedy()),
        },
        (Some(POLICY_FORMAT), _) => {
            Found::Policy(Policy::with_evidence(text.as_bytes()).map(Box::new))
        }
        (_, Some(receipt)) => {
            decode_text(&receipt).map_or_else(malformed, |(bytes, _)| kind_of(bytes))
        }
        (_, None) => unknown(),
    }
}

/// `receipt.document.manifest`, base64url each.
fn compact(text: &str) -> Option<AuditBundle> {
    let mut parts = text
        .split('.')
        .map(|part| Base64UrlUnpadded::decode_vec(part).ok());
    let (receipt, document, manifest) = (parts.next()??, parts.next()??, parts.next()??);
    let complete = parts.next().is_none() && !receipt.is_empty();
    complete.then_some(AuditBundle {
        receipt,
        document,
        manifest,
        content: None,
    })
}

/// COSE_Sign1 with the algorithm of a Nitro document: `[h'a1013822', …`.
const NITRO: &[u8] = &[0x84, 0x44, 0xa1, 0x01, 0x38, 0x22];

/// An Ed25519 public key as certificates hold it, up to its 32 bytes (RFC 8410 §4).
const ED25519_SPKI: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

fn kind_of(bytes: Vec<u8>) -> Found {
    let untagged = bytes.strip_prefix(&[0xd2]).unwrap_or(&bytes);
    if untagged.starts_with(NITRO) {
        let message = "This is an attestation document: it says which code runs, and nothing about a request.";
        return unreadable(
            "DOCUMENT_NOT_RECEIPT",
            message.to_owned(),
            "Pass a receipt or an audit bundle; documents are read by: clearseal inspect attestation FILE",
        );
    }
    if bytes.starts_with(&[0xa2, 0x01]) {
        let message =
            "This is evidence of an enclave, a document and its manifest, without a receipt.";
        return unreadable(
            "EVIDENCE_NOT_RECEIPT",
            message.to_owned(),
            "Pass a receipt or an audit bundle; evidence is judged by: clearseal verify attestation FILE",
        );
    }
    // An untagged envelope, or one that is cut short, goes on to the receipt's own checks, which say so.
    if untagged.starts_with(&[0x84]) && bytes.len() <= MAX_RECEIPT {
        return Found::Receipt(bytes);
    }
    let key = bytes.strip_prefix(ED25519_SPKI).unwrap_or(&bytes);
    match <[u8; 32]>::try_from(key) {
        Ok(key) => Found::Key(key),
        Err(_) => unknown(),
    }
}

/// The elements of a JSON array as they were written; `None` where it does not close.
fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                found.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(inner[start..].trim());
    (depth == 0 && !quoted).then_some(found)
}

fn item(found: Found, encoding: Encoding, line: u32) -> Item {
    Item {
        found,
        encoding,
        line,
    }
}

fn unreadable(code: &'static str, message: String, remedy: &'static str) -> Found {
    Found::Unreadable(Unreadable {
        code,
        message,
        remedy,
    })
}

fn malformed() -> Found {
    let message = "This begins like JSON, and is none that is known here.".to_owned();
    unreadable(
        "JSON_MALFORMED",
        message,
        "Check that all of it was copied, and nothing else.",
    )
}

fn unknown() -> Found {
    let message = "This is no receipt, no audit bundle, no trust policy and no key, in any form that is known here.";
    unreadable(
        "NOT_RECOGNISED",
        message.to_owned(),
        "Paste a receipt (hex, base64 or raw), an audit bundle (JSON), or a file with one of them a line.",
    )
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).chain(['.']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use base16ct::lower::encode_string as hex;

    fn receipt() -> Vec<u8> {
        let mut bytes = vec![0xd2, 0x84, 0x46, 0xa2, 0x01, 0x27, 0x03, 0x18, 0x3d, 0xa0];
        bytes.extend((0..=255).rev());
        bytes
    }

    fn bundle() -> AuditBundle {
        AuditBundle {
            receipt: receipt(),
            document: vec![1; 100],
            manifest: vec![2; 50],
            content: None,
        }
    }

    fn kinds(bytes: &[u8]) -> Vec<String> {
        recognise(bytes).iter().map(describe).collect()
    }

    fn describe(item: &Item) -> String {
        let what = match &item.found {
            Found::Receipt(bytes) => {
                assert_eq!(*bytes, receipt());
                "receipt"
            }
            Found::Bundle(found) => {
                assert_eq!(found.receipt, receipt());
                assert_eq!((found.document.len(), found.manifest.len()), (100, 50));
                "bundle"
            }
            Found::Policy(_) => "policy",
            Found::Key(_) => "key",
            Found::Unreadable(why) => why.code,
        };
        format!("{what} {} {}", item.line, item.encoding.as_str())
    }

    fn wrapped(text: &str, width: usize) -> String {
        let lines: Vec<_> = text
            .as_bytes()
            .chunks(width)
            .map(String::from_utf8_lossy)
            .collect();
        lines.join("\n")
    }

    #[test]
    fn a_receipt_is_known_in_every_encoding() {
        let raw = receipt();
        assert_eq!(kinds(&raw), ["receipt 1 raw bytes"]);
        for (text, encoding) in [
            (hex(&raw), "hex"),
            (hex(&raw).to_uppercase(), "hex"),
            (Base64::encode_string(&raw), "base64"),
            (Base64Unpadded::encode_string(&raw), "base64"),
            (Base64Url::encode_string(&raw), "base64"),
            (Base64UrlUnpadded::encode_string(&raw), "base64"),
        ] {
            let expected = [format!("receipt 1 {encoding}")];
            assert_eq!(kinds(text.as_bytes()), expected);
            assert_eq!(kinds(format!("\u{feff}  {text}\n\n").as_bytes()), expected);
            for width in [64, 76, 100] {
                assert_eq!(kinds(wrapped(&text, width).as_bytes()), expected, "{width}");
            }
            assert_eq!(kinds(format!("\"{text}\"").as_bytes()), expected);
            let json = format!("{{\"id\": 7, \"receipt\": \"{text}\"}}");
            assert_eq!(kinds(json.as_bytes()), ["receipt 1 JSON"]);
        }
    }

    #[test]
    fn what_other_programs_print_is_read_too() {
        let raw = receipt();
        let pairs: Vec<String> = raw.iter().map(|byte| format!("{byte:02x}")).collect();
        let colons = pairs.join(":");
        let array = pairs.iter().map(|pair| format!("0x{pair}"));
        let array: Vec<String> = array.collect();
        for text in [
            colons.clone(),
            colons.to_uppercase(),
            wrapped(&colons, 60),
            format!("0x{}", hex(&raw)),
            array.join(", "),
            array.join(" "),
        ] {
            assert_eq!(kinds(text.as_bytes()), ["receipt 1 hex"], "{text}");
        }
        let pem = |label: &str, bytes: &[u8]| {
            let body = wrapped(&Base64::encode_string(bytes), 64);
            format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
        };
        let receipt = pem("AIR RECEIPT", &raw);
        assert_eq!(kinds(receipt.as_bytes()), ["receipt 1 PEM"]);
        let key = pem("PUBLIC KEY", &[ED25519_SPKI, &[0xab; 32]].concat());
        let both = format!("{receipt}{key}");
        let lines = receipt.lines().count() + 1;
        assert_eq!(
            kinds(both.as_bytes()),
            ["receipt 1 PEM".to_owned(), format!("key {lines} PEM")]
        );
        for broken in [
            receipt.replace("END AIR", "END OTHER"),
            receipt.replace("-----END", "----END"),
            receipt.lines().next().unwrap().to_owned(),
        ] {
            assert!(kinds(broken.as_bytes())[0].starts_with("NOT_RECOGNISED"));
        }
    }

    #[test]
    fn lists_come_apart_line_by_line_and_keep_what_is_unknown() {
        let text = Base64UrlUnpadded::encode_string(&receipt());
        let list = format!("{text}\n\n{text}\nno receipt!\n{}", "ab".repeat(32));
        assert_eq!(
            kinds(list.as_bytes()),
            [
                "receipt 1 base64",
                "receipt 3 base64",
                "NOT_RECOGNISED 4 raw bytes",
                "key 5 hex"
            ]
        );
        let key_second = format!("{text}\n{}", "ab".repeat(32));
        assert_eq!(
            kinds(key_second.as_bytes()),
            ["receipt 1 base64", "key 2 hex"]
        );
    }

    #[test]
    fn bundles_are_known_indented_in_lines_in_arrays_and_compact() {
        let pretty = bundle().to_json().unwrap();
        let line: String = pretty.split_whitespace().collect();
        assert_eq!(kinds(pretty.as_bytes()), ["bundle 1 JSON"]);
        assert_eq!(kinds(line.as_bytes()), ["bundle 1 JSON"]);
        let jsonl = format!("{line}\n{line}\n{{\"format\":\"clearseal-audit-bundle/1\"}}\n");
        assert_eq!(
            kinds(jsonl.as_bytes()),
            ["bundle 1 JSON", "bundle 2 JSON", "BUNDLE_MALFORMED 3 JSON"]
        );
        let array = format!(
            "[{pretty},\n {line}, \"{}\"]",
            Base64::encode_string(&receipt())
        );
        assert_eq!(
            kinds(array.as_bytes()),
            ["bundle 1 JSON", "bundle 1 JSON", "receipt 1 base64"]
        );
        let parts = [bundle().receipt, bundle().document, bundle().manifest];
        let compact = parts
            .map(|part| Base64UrlUnpadded::encode_string(&part))
            .join(".");
        assert_eq!(kinds(compact.as_bytes()), ["bundle 1 link"]);
    }

    #[test]
    fn what_is_none_of_these_says_what_it_is() {
        for (bytes, code) in [
            (&b""[..], "EMPTY"),
            (b"   \n ", "EMPTY"),
            (b"hello, world", "NOT_RECOGNISED"),
            (b"\x00\xff\xfe", "NOT_RECOGNISED"),
            (b"{", "JSON_MALFORMED"),
            (b"[1,", "JSON_MALFORMED"),
            (b"{\"a\":1}", "NOT_RECOGNISED"),
            (b"\x84\x44\xa1\x01\x38\x22\xa0\xff", "DOCUMENT_NOT_RECEIPT"),
            (b"d28444a1013822a0", "DOCUMENT_NOT_RECEIPT"),
            (b"\xa2\x01\xff", "EVIDENCE_NOT_RECEIPT"),
            (b"..", "NOT_RECOGNISED"),
        ] {
            let items = recognise(bytes);
            assert_eq!(items.len(), 1);
            match &items[0].found {
                Found::Unreadable(why) => {
                    assert_eq!(why.code, code, "{bytes:?}");
                    assert!(why.message.ends_with('.') && !why.remedy.is_empty());
                }
                _ => panic!("{bytes:?} is {}", describe(&items[0])),
            }
        }
        let policy = format!("{{\"format\": \"{POLICY_FORMAT}\"}}");
        assert_eq!(kinds(policy.as_bytes()), ["policy 1 JSON"]);
    }

    #[test]
    fn decoding_leaves_what_is_no_text_alone() {
        let raw: Vec<u8> = (0..=255).rev().collect();
        assert_eq!(decode(raw.clone()), raw);
        assert_eq!(decode(Base64::encode_string(&raw).into_bytes()), raw);
        assert_eq!(decode(b" \n".to_vec()), b" \n");
    }
}
