//! Reads every certificate of a chain, and each with every byte changed, with a second, independent reader.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::second_reader::{self, Reader, tag};
use super::*;
use crate::{AttestationDocument, CheckLog, TrustAnchor};

/// The fields that a verifier uses.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) tbs: Vec<u8>,
    pub(super) serial: Vec<u8>,
    pub(super) names: [Vec<u8>; 2],
    pub(super) validity: [u64; 2],
    pub(super) constraints: Option<(bool, bool, Option<u8>)>,
    pub(super) usage: Option<Vec<bool>>,
    pub(super) key: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

fn production(der: &[u8]) -> Result<Read, Refused> {
    let it = Certificate::read(der)?;
    Ok(Read {
        tbs: it.tbs.to_vec(),
        serial: it.serial().to_vec(),
        names: [it.issuer().to_der()?, it.subject().to_der()?],
        validity: [it.not_before, it.not_after],
        constraints: it
            .constraints
            .map(|(critical, it)| (critical, it.ca, it.path_length)),
        usage: it.usage.map(|usage| {
            let bits = KeyUsage::NAMES.iter();
            bits.map(|(bit, _)| usage.0.0.contains(*bit)).collect()
        }),
        key: it.key().to_vec(),
        signature: it.signature().to_vec(),
    })
}

/// Compares both. Only one kind of difference is allowed: `x509-cert` refuses object identifiers whose first two arcs need more than
/// one byte (X.690 §8.19.4), and parameters with an unknown tag.
fn compare(der: &[u8], what: &str) -> Option<Refused> {
    match (production(der), second_reader::read(der)) {
        (Ok(production), Ok(second)) => assert_eq!(production, second, "{what}"),
        (Ok(_), Err(error)) => panic!("{what}: only the second reader refuses it: {}", error.0),
        (Err(error), Err(_)) => return Some(error),
        (Err(error), Ok(_)) => match &error {
            Refused::Der(error)
                if matches!(
                    error.kind(),
                    der::ErrorKind::OidMalformed | der::ErrorKind::TagUnknown { .. }
                ) => {}
            error => panic!("{what}: only the production reader refuses it: {error}"),
        },
    }
    None
}

/// AWS's root, and a whole chain in the form of AWS's.
fn certificates() -> Vec<Vec<u8>> {
    const NOW: u64 = 1_800_000_000_000;
    let mut rng = ChaCha20Rng::from_seed([42; 32]);
    let root = forge::DevelopmentRoot::generate(&mut rng, NOW);
    let mut issuer = forge::Issuer::new(root, &mut rng, NOW);
    let document = issuer.document(&forge::Contents::example(), NOW, &mut rng);
    let document = AttestationDocument::parse(&document, &mut CheckLog::new()).unwrap();
    let claims = document.claims();
    let mut all = vec![TrustAnchor::aws_nitro_g1().der().to_vec()];
    all.extend_from_slice(&claims.cabundle);
    all.push(claims.certificate.clone());
    all
}

#[test]
fn every_change_of_a_certificate_is_judged_alike_by_two_readers() {
    let mut rules = BTreeSet::new();
    let mut note = |refused: Option<Refused>| {
        if let Some(Refused::Rule(rule)) = refused {
            rules.insert(rule);
        }
    };
    for (number, der) in certificates().iter().enumerate() {
        assert!(production(der).is_ok() && compare(der, "unchanged").is_none());
        for at in 0..der.len() {
            let changes = [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80].map(|bit| der[at] ^ bit);
            let values = changes
                .into_iter()
                .chain([0, 0x7f, 0x80, 0xff, der[at].wrapping_add(1)]);
            for value in values.filter(|value| *value != der[at]) {
                let mut changed = der.clone();
                changed[at] = value;
                note(compare(&changed, &format!("{number}: {at} = {value:#04x}")));
            }
            let mut shorter = der.clone();
            shorter.remove(at);
            note(compare(&shorter, &format!("{number}: without {at}")));
            for value in [0, 1, 0x30, 0x80, 0xff] {
                let mut longer = der.clone();
                longer.insert(at, value);
                note(compare(
                    &longer,
                    &format!("{number}: {value:#04x} before {at}"),
                ));
            }
        }
    }
    // Some changes pass the library, and are refused only by this crate's own rules.
    for rule in [
        "not in DER",
        "a broken object identifier",
        "a name with a value that is not text",
        "a negative integer",
        "two signature algorithms that differ",
    ] {
        assert!(rules.contains(rule), "{rule}: {rules:?}");
    }
}

/// A certificate from the parts of the root's TBSCertificate, after `change`.
fn assembled(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let root = TrustAnchor::aws_nitro_g1();
    let mut outer = Reader::new(root.der()).sequence().unwrap();
    let mut tbs = outer.sequence().unwrap();
    let mut parts = Vec::new();
    while !tbs.is_empty() {
        parts.push(tbs.any().unwrap().whole.to_vec());
    }
    change(&mut parts);
    let rest = [outer.any().unwrap().whole, outer.any().unwrap().whole].concat();
    sequence(&[sequence(&parts.concat()), rest].concat())
}

fn sequence(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let head = match length {
        [0, short @ 0..0x80] => vec![tag::SEQUENCE, short],
        [0, long] => vec![tag::SEQUENCE, 0x81, long],
        [high, low] => vec![tag::SEQUENCE, 0x82, high, low],
    };
    [&head, content].concat()
}

#[test]
fn forbidden_parts_are_named() {
    const SERIAL: usize = 1;
    const ISSUER: usize = 3;
    const SUBJECT: usize = 5;
    const KEY: usize = 6;
    const EXTENSIONS: usize = 7;
    type Change = fn(&mut Vec<Vec<u8>>);

    assert!(production(&assembled(|_| {})).is_ok());
    assert!(production(&assembled(|parts| parts[SUBJECT] = vec![0x30, 0])).is_ok());
    assert!(
        production(&assembled(|parts| drop(parts.pop()))).is_ok(),
        "no extensions"
    );
    let cases: [(&str, Change); 9] = [
        ("not of version 3", |parts| drop(parts.remove(0))),
        ("not of version 3", |parts| {
            parts[0] = vec![0xa0, 3, 2, 1, 1];
        }),
        ("a serial number of more than 20 bytes", |parts| {
            parts[SERIAL] = [&[2, 21][..], &[1; 21]].concat();
        }),
        ("an empty issuer", |parts| parts[ISSUER] = vec![0x30, 0]),
        ("a name with an empty set", |parts| {
            parts[SUBJECT] = vec![0x30, 2, 0x31, 0];
        }),
        // issuerUniqueID.
        ("a unique identifier", |parts| {
            parts.insert(EXTENSIONS, vec![0x81, 2, 0, 1]);
        }),
        ("an empty list of extensions", |parts| {
            parts[EXTENSIONS] = vec![0xa3, 2, 0x30, 0];
        }),
        ("a bit string that does not end with a byte", |parts| {
            parts[KEY] = sequence(&[0x30, 3, 6, 1, 0x2a, 3, 2, 1, 0]);
        }),
        ("two signature algorithms that differ", |parts| {
            parts[2] = vec![0x30, 3, 6, 1, 0x2a];
        }),
    ];
    for (expected, change) in cases {
        let der = assembled(change);
        assert_eq!(production(&der).unwrap_err(), Refused::Rule(expected));
        assert!(second_reader::read(&der).is_err(), "{expected}");
    }
    let unreadable: [Change; 2] = [
        |parts| parts[SERIAL] = vec![2, 0],
        |parts| parts[EXTENSIONS] = vec![0xa3, 4, 0x30, 0, 0x30, 0],
    ];
    for change in unreadable {
        let error = production(&assembled(change)).unwrap_err();
        assert!(matches!(error, Refused::Der(_)), "{error}");
    }
}

#[test]
fn a_key_usage_is_a_list_of_known_bits() {
    let names = |der: &[u8]| canonical(der).map(|usage| KeyUsage(usage).names().join(" "));
    for (der, expected) in [
        (&[3, 1, 0][..], ""),
        (&[3, 2, 7, 0x80], "digitalSignature"),
        (&[3, 2, 1, 0x86], "digitalSignature keyCertSign cRLSign"),
        (&[3, 2, 0, 1], "encipherOnly"),
        (&[3, 3, 7, 0, 0x80], "decipherOnly"),
    ] {
        assert_eq!(names(der).as_deref(), Ok(expected));
    }
    for (why, der) in [
        ("it ends with bits that are not set", &[3, 2, 6, 0x80][..]),
        ("an unknown bit", &[3, 3, 6, 0, 0x40]),
        ("an unknown byte", &[3, 4, 7, 0, 0, 0x80]),
        ("unused bits that are not zero", &[3, 2, 7, 0xc0]),
        ("eight unused bits", &[3, 2, 8, 0x80]),
        ("an unused bit of no byte", &[3, 1, 1]),
        ("nothing", &[3, 0]),
        ("a byte more", &[3, 2, 7, 0x80, 0]),
    ] {
        assert!(names(der).is_err(), "{why}");
    }
}

#[test]
fn constraints_of_a_ca_are_read_in_one_form() {
    let read = |content: &[u8]| canonical::<pkix::BasicConstraints>(&sequence(content)).ok();
    let of = |ca, path_len_constraint| {
        Some(pkix::BasicConstraints {
            ca,
            path_len_constraint,
        })
    };
    for (content, expected) in [
        (&[][..], of(false, None)),
        (&[1, 1, 0xff], of(true, None)),
        (&[1, 1, 0xff, 2, 1, 0], of(true, Some(0))),
        (&[1, 1, 0xff, 2, 2, 0, 0xff], of(true, Some(255))),
        (&[2, 1, 3], of(false, Some(3))),
        // A default that is spelt out; neither 00 nor FF; over 255; a trailing value.
        (&[1, 1, 0], None),
        (&[1, 1, 1], None),
        (&[2, 2, 1, 0], None),
        (&[2, 1, 0, 5, 0], None),
    ] {
        assert_eq!(read(content), expected);
    }
}

fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
}

fn attribute(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
    wrap(0x30, &[wrap(6, oid), wrap(tag, value)].concat())
}

/// A name with one set of these attributes.
fn name(attributes: &[Vec<u8>]) -> Vec<u8> {
    wrap(0x30, &wrap(0x31, &attributes.concat()))
}

const CN: &[u8] = &[0x55, 4, 3];

#[test]
fn a_name_is_shown_as_rfc_4514_writes_it() {
    let root = TrustAnchor::aws_nitro_g1();
    let root = Certificate::parse(root.der(), "root").unwrap();
    let shown = DisplayName(root.subject()).to_string();
    assert_eq!(shown, "CN=aws.nitro-enclaves,OU=AWS,O=Amazon,C=US");
    assert_eq!(root.common_name(), Some("aws.nitro-enclaves"));
    let text = |value: &str| attribute(CN, 0x0c, value.as_bytes());
    for (attributes, expected) in [
        (vec![text("plain")], "CN=plain"),
        (vec![text("#5 a,b")], "CN=\\#5 a\\,b"),
        (vec![text(" edge ")], "CN=\\ edge\\ "),
        (vec![text("a\\\"+;<>")], "CN=a\\\\\\\"\\+\\;\\<\\>"),
        (vec![text("line\nbreak")], "CN=line\\0abreak"),
        (vec![text("a"), text("b")], "CN=a+CN=b"),
        // An unknown type, and a known one with an obsolete text type.
        (vec![attribute(&[0x2a, 3], 0x0c, b"x")], "1.2.3=#0c0178"),
        (vec![attribute(CN, 0x1e, b"x")], "2.5.4.3=#1e0178"),
    ] {
        let name: Name = canonical(&name(&attributes)).unwrap();
        assert_eq!(DisplayName(&name).to_string(), expected);
        assert_eq!(name.to_string(), expected, "as x509-cert writes it");
    }
}

#[test]
fn invalid_names_are_refused() {
    let read = |der: &[u8]| canonical::<Name>(der).and_then(|name| check_name(&name));
    let (a, b) = (attribute(CN, 0x13, b"a"), attribute(CN, 0x13, b"b"));
    assert_eq!(read(&name(&[a.clone(), b.clone()])), Ok(()));
    for (what, der) in [
        ("a number for a text", name(&[attribute(CN, 2, &[5])])),
        ("no UTF-8", name(&[attribute(CN, 0x0c, &[0xff])])),
        ("not printable", name(&[attribute(CN, 0x13, b"a*b")])),
        ("not ASCII", name(&[attribute(CN, 0x16, &[0x80])])),
        ("out of order", name(&[b, a.clone()])),
        ("twice the same", name(&[a.clone(), a])),
        ("an empty set", name(&[])),
        ("no identifier", name(&[attribute(&[], 0x0c, b"x")])),
        (
            "an identifier that ends early",
            name(&[attribute(&[0x88], 0x0c, b"x")]),
        ),
        (
            "an identifier with padding",
            name(&[attribute(&[0x2a, 0x80, 3], 0x0c, b"x")]),
        ),
    ] {
        assert!(read(&der).is_err(), "{what}");
    }
}
