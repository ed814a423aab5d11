//! Pasted data, and the items found in it.

#![allow(clippy::unwrap_used)]

use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Base64Unpadded, Base64Url};

use super::*;

fn receipt() -> Vec<u8> {
    let mut bytes = vec![0xd2, 0x84, 0x46, 0xa2, 0x01, 0x27, 0x03, 0x18, 0x3d, 0xa0];
    bytes.extend([0x58, 190]);
    bytes.extend((66..=255).rev());
    bytes.extend([0x58, 64]);
    bytes.extend((0..64).rev());
    bytes
}

fn bundle() -> AuditBundle {
    AuditBundle {
        receipt: receipt(),
        document: vec![1; 100],
        manifest: vec![2; 50],
        content: None,
        salt: None,
        crls: Vec::new(),
    }
}

fn kinds(bytes: &[u8]) -> Vec<String> {
    recognise(bytes).iter().map(describe).collect()
}

fn describe(item: &Item) -> String {
    let what = match &item.content {
        ItemContent::Receipt(bytes) => {
            assert_eq!(*bytes, receipt());
            "receipt"
        }
        ItemContent::Bundle(found) => {
            assert_eq!(found.receipt, receipt());
            assert_eq!((found.document.len(), found.manifest.len()), (100, 50));
            "bundle"
        }
        ItemContent::Policy(_) => "policy",
        ItemContent::Key(_) => "key",
        ItemContent::Unreadable(why) => why.code,
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

fn pem(label: &str, bytes: &[u8]) -> String {
    let body = wrapped(&Base64::encode_string(bytes), 64);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

#[test]
fn a_receipt_is_recognised_in_every_encoding() {
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
fn a_line_that_begins_like_a_receipt_is_still_a_part_of_one() {
    let mut raw = receipt();
    raw[32..34].copy_from_slice(&[0x84, 0x46]);
    let [Item { content, .. }] = &recognise(wrapped(&hex(&raw), 64).as_bytes())[..] else {
        panic!("one receipt");
    };
    assert!(matches!(content, ItemContent::Receipt(bytes) if *bytes == raw));
}

#[test]
fn formats_of_other_programs_are_read_too() {
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
fn lists_are_split_by_line_and_keep_unknown_items() {
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
fn bundles_are_recognised_indented_in_lines_in_arrays_and_compact() {
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
fn unknown_items_are_described() {
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
        match &items[0].content {
            ItemContent::Unreadable(why) => {
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
fn a_byte_order_mark_is_skipped_before_every_encoding() {
    let raw = receipt();
    for text in [hex(&raw), Base64::encode_string(&raw), pem("RECEIPT", &raw)] {
        assert_eq!(decode(format!("\u{feff}{text}\n").into_bytes()), raw);
    }
    let line: String = bundle().to_json().unwrap().split_whitespace().collect();
    // Of one file, of two concatenated ones, and of an empty one.
    let lines = format!("\u{feff}{line}\r\n\u{feff}{line}\n\u{feff}\n");
    let items: Vec<_> = recognise_lines(lines.as_bytes());
    let found: Vec<_> = items.iter().map(describe).collect();
    assert_eq!(found, ["bundle 1 JSON", "bundle 2 JSON"]);
    assert_eq!(kinds(lines.as_bytes()), found);
    // Inside raw bytes it is not a byte order mark.
    assert_eq!(decode(b"\xef\xbb\xbf\xff".to_vec()), b"\xef\xbb\xbf\xff");
}

#[test]
fn decoding_leaves_binary_data_unchanged() {
    let raw: Vec<u8> = (0..=255).rev().collect();
    assert_eq!(decode(raw.clone()), raw);
    assert_eq!(decode(Base64::encode_string(&raw).into_bytes()), raw);
    assert_eq!(decode(b" \n".to_vec()), b" \n");
}
