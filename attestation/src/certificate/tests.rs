//! Every certificate of a chain, and each with every byte changed, read a second time by `x509-cert`.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{AttestationDocument, Ladder, SPECS, TrustAnchor};
use der::{Decode, Encode};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::BTreeSet;
use x509_cert::certificate::Version;
use x509_cert::ext::pkix;

/// What a verifier asks of a certificate.
#[derive(Debug, PartialEq)]
struct Read {
    tbs: Vec<u8>,
    serial: Vec<u8>,
    names: [Vec<u8>; 2],
    validity: [u64; 2],
    constraints: Option<(bool, bool, Option<u8>)>,
    usage: Option<Vec<bool>>,
    key: Vec<u8>,
    signature: Vec<u8>,
}

fn ours(der: &[u8]) -> Result<Read, String> {
    let it = Certificate::parse(der, "").map_err(|error| error.to_string())?;
    Ok(Read {
        tbs: it.tbs.to_vec(),
        serial: it.serial.to_vec(),
        names: [it.issuer.der.to_vec(), it.subject.der.to_vec()],
        validity: [it.not_before, it.not_after],
        constraints: it
            .constraints
            .map(|(critical, it)| (critical, it.ca, it.path_length)),
        usage: it
            .usage
            .map(|usage| (0..9).map(|bit| usage.has(bit)).collect()),
        key: it.key.to_vec(),
        signature: it.signature.to_vec(),
    })
}

/// The same by a library that is made for all of X.509, kept to one encoding by writing everything again.
fn theirs(der: &[u8]) -> Option<Read> {
    fn canonical<'a, T: Decode<'a, Error = der::Error> + Encode>(der: &'a [u8]) -> Option<T> {
        T::from_der(der)
            .ok()
            .filter(|it| it.to_der().is_ok_and(|again| again == der))
    }
    let it: x509_cert::Certificate = canonical(der)?;
    let tbs = it.tbs_certificate();
    if tbs.version() != Version::V3 || tbs.signature() != it.signature_algorithm() {
        return None;
    }
    let list = tbs.extensions().map_or(&[][..], Vec::as_slice);
    if tbs.extensions().is_some_and(Vec::is_empty) {
        return None;
    }
    let (mut constraints, mut usage) = (None, None);
    let mut seen = BTreeSet::new();
    for extension in list {
        if !seen.insert(extension.extn_id) {
            return None;
        }
        let value = extension.extn_value.as_bytes();
        match extension.extn_id.as_bytes() {
            BASIC_CONSTRAINTS => {
                let it: pkix::BasicConstraints = canonical(value)?;
                constraints = Some((extension.critical, it.ca, it.path_len_constraint));
            }
            KEY_USAGE => {
                let it: pkix::KeyUsage = canonical(value)?;
                usage = Some(vec![
                    it.digital_signature(),
                    it.non_repudiation(),
                    it.key_encipherment(),
                    it.data_encipherment(),
                    it.key_agreement(),
                    it.key_cert_sign(),
                    it.crl_sign(),
                    it.encipher_only(),
                    it.decipher_only(),
                ]);
            }
            _ if extension.critical => return None,
            _ => {}
        }
    }
    let validity = tbs.validity();
    let serial = tbs.serial_number().as_bytes();
    Some(Read {
        tbs: tbs.to_der().ok()?,
        serial: match serial {
            [0, magnitude @ ..] if !magnitude.is_empty() => magnitude.to_vec(),
            serial => serial.to_vec(),
        },
        names: [tbs.issuer().to_der().ok()?, tbs.subject().to_der().ok()?],
        validity: [validity.not_before, validity.not_after]
            .map(|time| time.to_unix_duration().as_secs()),
        constraints,
        usage,
        key: tbs
            .subject_public_key_info()
            .subject_public_key
            .as_bytes()?
            .to_vec(),
        signature: it.signature().as_bytes()?.to_vec(),
    })
}

/// What we refuse and `x509-cert` reads. Each is stricter on purpose.
const STRICTER: [&str; 3] = [
    // X.690 §8.19.2: an arc in the fewest bytes.
    "a broken object identifier",
    // RFC 5280 §4.1.2.4 and appendix A.1: a name is made of texts, in the characters of their types.
    "a name with a value that is no text",
    // §4.1.2.2: a serial number is positive.
    "a negative integer",
];

/// Compares both; returns why ours is stricter, where it is.
fn compare(der: &[u8], what: &str) -> Option<&'static str> {
    match (ours(der), theirs(der)) {
        (Ok(ours), Some(theirs)) => assert_eq!(ours, theirs, "{what}"),
        (Err(_), None) => {}
        (Ok(_), None) => {
            // It has no object identifiers from 2.48 on, whose first two arcs take more than a byte (X.690 §8.19.4).
            let said = x509_cert::Certificate::from_der(der).map_err(|error| error.kind());
            let oid = matches!(said, Err(der::ErrorKind::OidMalformed));
            // Parameters of a type that nobody defined are refused here too, with the algorithm that has them.
            let algorithm = Certificate::parse(der, "").is_ok_and(|it| it.p384("").is_err());
            assert!(
                oid || algorithm,
                "{what}: only x509-cert refuses it: {said:?}"
            );
        }
        (Err(said), Some(_)) => {
            let known = STRICTER.iter().find(|it| said.ends_with(**it));
            return Some(known.unwrap_or_else(|| panic!("{what}: only we refuse it: {said}")));
        }
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
    let document = AttestationDocument::parse(&document, &mut Ladder::new(SPECS)).unwrap();
    let claims = document.claims();
    let mut all = vec![TrustAnchor::aws_nitro_g1().der().to_vec()];
    all.extend_from_slice(&claims.cabundle);
    all.push(claims.certificate.clone());
    all
}

#[test]
fn every_change_of_a_certificate_is_judged_as_x509_cert_judges_it() {
    let mut stricter = BTreeSet::new();
    for (number, der) in certificates().iter().enumerate() {
        assert!(ours(der).is_ok() && compare(der, "unchanged").is_none());
        for at in 0..der.len() {
            let changes = [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80].map(|bit| der[at] ^ bit);
            let values = changes
                .into_iter()
                .chain([0, 0x7f, 0x80, 0xff, der[at].wrapping_add(1)]);
            for value in values.filter(|value| *value != der[at]) {
                let mut changed = der.clone();
                changed[at] = value;
                stricter.extend(compare(&changed, &format!("{number}: {at} = {value:#04x}")));
            }
            let mut shorter = der.clone();
            shorter.remove(at);
            stricter.extend(compare(&shorter, &format!("{number}: without {at}")));
            for value in [0, 1, 0x30, 0x80, 0xff] {
                let mut longer = der.clone();
                longer.insert(at, value);
                stricter.extend(compare(
                    &longer,
                    &format!("{number}: {value:#04x} before {at}"),
                ));
            }
        }
    }
    assert_eq!(stricter, BTreeSet::from(STRICTER), "each is met");
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
fn parts_that_no_certificate_may_have_are_named() {
    const SERIAL: usize = 1;
    const ISSUER: usize = 3;
    const SUBJECT: usize = 5;
    const KEY: usize = 6;
    const EXTENSIONS: usize = 7;
    type Change = fn(&mut Vec<Vec<u8>>);

    assert!(ours(&assembled(|_| {})).is_ok());
    assert!(ours(&assembled(|parts| parts[SUBJECT] = vec![0x30, 0])).is_ok());
    assert!(
        ours(&assembled(|parts| drop(parts.pop()))).is_ok(),
        "no extensions"
    );
    let cases: [(&str, Change); 10] = [
        ("not of version 3", |parts| drop(parts.remove(0))),
        ("not of version 3", |parts| {
            parts[0] = vec![0xa0, 3, 2, 1, 1];
        }),
        ("a serial number of more than 20 bytes", |parts| {
            parts[SERIAL] = [&[2, 21][..], &[1; 21]].concat();
        }),
        ("an integer without bytes", |parts| {
            parts[SERIAL] = vec![2, 0];
        }),
        ("an empty issuer", |parts| parts[ISSUER] = vec![0x30, 0]),
        // issuerUniqueID.
        ("bytes after the end of a value", |parts| {
            parts.insert(EXTENSIONS, vec![0x81, 2, 0, 1]);
        }),
        ("an empty list of extensions", |parts| {
            parts[EXTENSIONS] = vec![0xa3, 2, 0x30, 0];
        }),
        ("bytes after the end of a value", |parts| {
            parts[EXTENSIONS] = vec![0xa3, 4, 0x30, 0, 0x30, 0];
        }),
        ("a bit string that does not end with a byte", |parts| {
            parts[KEY] = sequence(&[0x30, 3, 6, 1, 0x2a, 3, 2, 1, 0]);
        }),
        ("two signature algorithms that differ", |parts| {
            parts[2] = vec![0x30, 3, 6, 1, 0x2a];
        }),
    ];
    for (expected, change) in cases {
        let said = ours(&assembled(change)).unwrap_err();
        assert!(said.ends_with(expected), "{expected}: {said}");
    }
}

#[test]
fn a_key_usage_is_a_list_of_known_bits() {
    let names = |der: &[u8]| KeyUsage::read(der).map(|usage| usage.names().join(" "));
    for (der, expected) in [
        (&[3, 1, 0][..], ""),
        (&[3, 2, 7, 0x80], "digitalSignature"),
        (&[3, 2, 1, 0x86], "digitalSignature keyCertSign cRLSign"),
        (&[3, 2, 0, 1], "encipherOnly"),
        (&[3, 3, 7, 0, 0x80], "decipherOnly"),
    ] {
        assert_eq!(names(der).as_deref(), Ok(expected));
    }
    for (der, expected) in [
        (
            &[3, 2, 6, 0x80][..],
            "a key usage that ends with bits that are not set",
        ),
        (&[3, 3, 6, 0, 0x40], "a key usage that nobody knows"),
        (&[3, 4, 7, 0, 0, 0x80], "a key usage that nobody knows"),
        (
            &[3, 2, 7, 0xc0],
            "a bit string whose unused bits are not zero",
        ),
        (
            &[3, 2, 8, 0x80],
            "a bit string with a wrong number of unused bits",
        ),
        (
            &[3, 1, 1],
            "a bit string with a wrong number of unused bits",
        ),
        (&[3, 0], "a bit string with a wrong number of unused bits"),
        (&[3, 2, 7, 0x80, 0], "bytes after the end of a value"),
    ] {
        assert_eq!(names(der), Err(DerError(expected)));
    }
}

#[test]
fn constraints_of_a_ca_are_read_in_one_form() {
    let read = |content: &[u8]| BasicConstraints::read(&sequence(content));
    let of = |ca, path_length| Ok(BasicConstraints { ca, path_length });
    for (content, expected) in [
        (&[][..], of(false, None)),
        (&[1, 1, 0xff], of(true, None)),
        (&[1, 1, 0xff, 2, 1, 0], of(true, Some(0))),
        (&[1, 1, 0xff, 2, 2, 0, 0xff], of(true, Some(255))),
        (&[2, 1, 3], of(false, Some(3))),
        (&[1, 1, 0], Err(DerError("a default that is spelt out"))),
        (
            &[1, 1, 1],
            Err(DerError("a boolean that is neither 00 nor FF")),
        ),
        (&[2, 2, 1, 0], Err(DerError("a path length over 255"))),
        (
            &[2, 1, 0, 5, 0],
            Err(DerError("bytes after the end of a value")),
        ),
    ] {
        assert_eq!(read(content), expected);
    }
}
