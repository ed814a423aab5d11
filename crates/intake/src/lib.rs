//! Recognises pasted or dropped data without asking the user: receipts, audit bundles, policies and keys, raw or in hex,
//! base64, base64url, JSON, or several of them line by line.
//!
//! Appraises nothing and drops nothing: unreadable data becomes an item with the reason.

#![forbid(unsafe_code)]

use attestation::cbor::{Reader, Rules};
use attestation::{Policy, PolicyError};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use protocol::bundle::{self, AuditBundle, MAX_BUNDLE};
use protocol::receipt::MAX_RECEIPT;
use serde::Deserialize;

mod text;

#[cfg(test)]
mod tests;

pub use text::{Encoding, decode, strip_bom};
use text::{decode_text, elements};

/// Value of the member `format` of a trust policy.
const POLICY_FORMAT: &str = "clearseal-trust-policy/1";

/// Content of an item. No `Debug`: a bundle may hold the user's content.
pub enum ItemContent {
    /// A receipt alone, not verified.
    Receipt(Vec<u8>),
    /// A receipt with its evidence.
    Bundle(Box<AuditBundle>),
    /// A trust policy, or why it cannot be used. It came with the evidence, so its best verdict is *simulated*.
    Policy(Result<Box<Policy>, PolicyError>),
    /// 32 bytes: an Ed25519 receipt key.
    Key([u8; 32]),
    /// None of these.
    Unreadable(Unreadable),
}

/// Why an item is not one of the known kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Stable code.
    pub code: &'static str,
    /// The input that was found instead, in one sentence.
    pub message: String,
    /// The next step for the reader, in one sentence.
    pub remedy: &'static str,
}

/// One item of the pasted data.
pub struct Item {
    /// Its content.
    pub content: ItemContent,
    /// Its encoding.
    pub encoding: Encoding,
    /// Line on which it begins, from 1.
    pub line: u32,
}

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits pasted or dropped data into items, in order. Never empty.
pub fn recognise(bytes: &[u8]) -> Vec<Item> {
    let bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return vec![item(classify(bytes.to_vec()), Encoding::Raw, 1)];
    };
    let text = text.trim();
    let several = text.lines().filter(|line| !line.trim().is_empty()).count() > 1;
    let wrapped = split_pem(text);
    if !wrapped.is_empty() {
        return wrapped;
    }
    if several && lines_stand_alone(text) {
        return recognise_lines(text.as_bytes());
    }
    if text.starts_with('[') {
        return elements(text).map_or_else(
            || vec![item(malformed(), Encoding::Json, 1)],
            |elements| elements.into_iter().map(|one| parse_item(one, 1)).collect(),
        );
    }
    let whole = parse_item(text, 1);
    if several && matches!(whole.content, ItemContent::Unreadable(_)) {
        let apart = recognise_lines(text.as_bytes());
        let sense = |item: &Item| !matches!(item.content, ItemContent::Unreadable(_));
        if apart.iter().any(sense) {
            return apart;
        }
    }
    vec![whole]
}

/// PEM wrappers, one after another, if the text contains nothing else.
fn split_pem(text: &str) -> Vec<Item> {
    const BEGIN: &str = "-----BEGIN ";
    let mut found = Vec::new();
    let mut line = 1_u32;
    let mut rest = text;
    while rest.starts_with(BEGIN) {
        let next = rest[BEGIN.len()..].find(BEGIN).map(|at| at + BEGIN.len());
        let (one, after) = rest.split_at(next.unwrap_or(rest.len()));
        found.push(parse_item(one.trim(), line));
        let breaks = one.bytes().filter(|byte| *byte == b'\n').count();
        line = line.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        rest = after;
    }
    found
}

/// Treats every line as a separate item: for files that are read in pieces, cut between lines.
pub fn recognise_lines(bytes: &[u8]) -> Vec<Item> {
    bytes
        .split(|byte| *byte == b'\n')
        .zip(1_u32..)
        .filter(|(line, _)| !matches!(line.trim_ascii(), b"" | MARK))
        .map(|(line, number)| match std::str::from_utf8(line) {
            // Concatenated files keep the byte order mark of each.
            Ok(text) => parse_item(strip_bom(text).trim(), number),
            Err(_) => item(classify(line.to_vec()), Encoding::Raw, number),
        })
        .collect()
}

/// Whether each line is an item, rather than a part of one wrapped or indented item.
fn lines_stand_alone(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else {
        return false;
    };
    match first.trim_start().as_bytes().first() {
        // An indented object opens on its first line and closes on a later one.
        Some(b'{' | b'"') => serde_json::from_str::<serde::de::IgnoredAny>(first).is_ok(),
        Some(b'[') => false,
        // The lines of a wrapped item are parts of its bytes.
        _ => [first, second]
            .iter()
            .any(|line| match parse_item(line.trim(), 1).content {
                ItemContent::Unreadable(_) | ItemContent::Key(_) => false,
                ItemContent::Receipt(bytes) => is_cbor_item(&bytes),
                _ => true,
            }),
    }
}

/// Whether these bytes are one CBOR item: random bytes may begin like a receipt.
fn is_cbor_item(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes, Rules::WellFormed);
    reader.skip().is_ok() && reader.finish().is_ok()
}

fn parse_item(text: &str, line: u32) -> Item {
    if text.len() > MAX_BUNDLE {
        let message =
            format!("This is longer than {MAX_BUNDLE} bytes, the limit for receipts and bundles.");
        let content = unreadable(
            "TOO_LARGE",
            message,
            "Pass receipts or bundles, one a line.",
        );
        return item(content, Encoding::Raw, line);
    }
    match text.as_bytes().first() {
        None => {
            let message = "There is nothing here.".to_owned();
            let content = unreadable("EMPTY", message, "Paste a receipt or an audit bundle.");
            item(content, Encoding::Raw, line)
        }
        Some(b'{') => item(parse_json(text), Encoding::Json, line),
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(inner) if !inner.starts_with('"') => parse_item(inner.trim(), line),
            _ => item(malformed(), Encoding::Json, line),
        },
        Some(_) => match (parse_compact(text), decode_text(text)) {
            (Some(bundle), _) => item(
                ItemContent::Bundle(Box::new(bundle)),
                Encoding::Compact,
                line,
            ),
            (None, Some((bytes, encoding))) => item(classify(bytes), encoding, line),
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

fn parse_json(text: &str) -> ItemContent {
    let Ok(head) = serde_json::from_str::<Head>(text) else {
        return malformed();
    };
    match (head.format.as_deref(), head.receipt) {
        (Some(bundle::FORMAT), _) => match AuditBundle::from_json(text) {
            Ok(bundle) => ItemContent::Bundle(Box::new(bundle)),
            Err(error) => unreadable(error.code(), sentence(&error.to_string()), error.remedy()),
        },
        (Some(POLICY_FORMAT), _) => {
            ItemContent::Policy(Policy::with_evidence(text.as_bytes()).map(Box::new))
        }
        (_, Some(receipt)) => {
            decode_text(&receipt).map_or_else(malformed, |(bytes, _)| classify(bytes))
        }
        (_, None) => unknown(),
    }
}

/// `receipt.document.manifest`, base64url each.
fn parse_compact(text: &str) -> Option<AuditBundle> {
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
        salt: None,
        crls: Vec::new(),
    })
}

/// COSE_Sign1 with the algorithm of a Nitro document: `[h'a1013822', …`.
const NITRO: &[u8] = &[0x84, 0x44, 0xa1, 0x01, 0x38, 0x22];

/// An Ed25519 public key as certificates hold it, up to its 32 bytes (RFC 8410 §4).
const ED25519_SPKI: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

fn classify(bytes: Vec<u8>) -> ItemContent {
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
    // An untagged or truncated envelope goes on to the receipt's own checks, which report it.
    if untagged.starts_with(&[0x84]) && bytes.len() <= MAX_RECEIPT {
        return ItemContent::Receipt(bytes);
    }
    let key = bytes.strip_prefix(ED25519_SPKI).unwrap_or(&bytes);
    match <[u8; 32]>::try_from(key) {
        Ok(key) => ItemContent::Key(key),
        Err(_) => unknown(),
    }
}

fn item(content: ItemContent, encoding: Encoding, line: u32) -> Item {
    Item {
        content,
        encoding,
        line,
    }
}

fn unreadable(code: &'static str, message: String, remedy: &'static str) -> ItemContent {
    ItemContent::Unreadable(Unreadable {
        code,
        message,
        remedy,
    })
}

fn malformed() -> ItemContent {
    let message = "This begins like JSON, but is not in a known format.".to_owned();
    unreadable(
        "JSON_MALFORMED",
        message,
        "Check that all of it was copied, and nothing else.",
    )
}

fn unknown() -> ItemContent {
    let message =
        "This is not a receipt, an audit bundle, a trust policy or a key, in any known encoding.";
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
