//! Checks 1 to 4, and 21.

use super::{Vector, payload_of, set_element, vector};
use crate::{cbor, document::Forgery};

/// Order of P-384, for signatures that are out of range or negated.
const ORDER: [u8; 48] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc7, 0x63, 0x4d, 0x81, 0xf4, 0x37, 0x2d, 0xdf,
    0x58, 0x1a, 0x0d, 0xb2, 0x48, 0xb0, 0xa7, 0x7a, 0xec, 0xec, 0x19, 0x6a, 0xcc, 0xc5, 0x29, 0x73,
];

pub(super) const VECTORS: &[Vector] = &[
    vector("genuine", 0, "", |_| {}),
    vector("definite-map", 0, "", |f| f.indefinite = false),
    vector("tag-18", 0, "", |f| f.head = vec![0xd2, 0x84]),
    vector("signature-rewritten", 0, "", |f| {
        signature(f, |s| subtract_from_order(&mut s[48..]));
    }),
    vector("payload-16384", 0, "", |f| payload_of(f, 16_384)),
    vector("payload-16384-under-tag-18", 0, "", |f| {
        payload_of(f, 16_384);
        f.head = vec![0xd2, 0x84];
    }),
    // Check 1
    vector("empty-input", 1, "ENVELOPE_MALFORMED", |f| {
        document(f, Vec::clear);
    }),
    vector("document-too-large", 1, "DOCUMENT_TOO_LARGE", |f| {
        document(f, |d| d.resize(16_384 + 129, 0));
    }),
    vector(
        "largest-document-with-trailing-bytes",
        2,
        "TRAILING_BYTES",
        |f| document(f, |d| d.resize(16_384 + 128, 0)),
    ),
    vector("tag-17", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0xd1, 0x84];
    }),
    vector("tag-98", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0xd8, 98, 0x84];
    }),
    vector("tag-18-twice", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0xd2, 0xd2, 0x84];
    }),
    vector("tag-18-long-head", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0xd8, 18, 0x84];
    }),
    vector("array-of-3", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0x83];
        f.elements = Some(Box::new(|elements: &mut Vec<Vec<u8>>| elements.truncate(3)));
    }),
    vector("array-of-5", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0x85];
        f.elements = Some(Box::new(|elements: &mut Vec<Vec<u8>>| {
            elements.push(vec![0xf6]);
        }));
    }),
    vector("array-indefinite", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0x9f];
        document(f, |d| d.push(0xff));
    }),
    vector("array-long-head", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0x98, 4];
    }),
    vector("a-map", 1, "ENVELOPE_MALFORMED", |f| f.head = vec![0xa2]),
    vector("reserved-head", 1, "ENVELOPE_MALFORMED", |f| {
        f.head = vec![0x9c];
    }),
    vector("protected-not-wrapped", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 0, vec![0xa1, 0x01, 0x38, 0x22]);
    }),
    vector("unprotected-null", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 1, vec![0xf6]);
    }),
    vector("unprotected-nested-16", 3, "UNPROTECTED_HEADER", |f| {
        set_element(f, 1, nested(16));
    }),
    vector("unprotected-nested-17", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 1, nested(17));
    }),
    vector("unprotected-nested-5000", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 1, nested(5_000));
    }),
    vector("payload-null", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 2, vec![0xf6]);
    }),
    vector("payload-text", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 2, cbor::text("payload"));
    }),
    vector("payload-chunked", 1, "ENVELOPE_MALFORMED", |f| {
        f.elements = Some(Box::new(|e: &mut Vec<Vec<u8>>| {
            e[2] = [&[0x5f], &e[2][..], &[0xff]].concat();
        }));
    }),
    vector("payload-of-2-to-the-63", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 2, cbor::head(2, 1 << 63));
    }),
    vector("signature-null", 1, "ENVELOPE_MALFORMED", |f| {
        set_element(f, 3, vec![0xf6]);
    }),
    // Check 2
    vector("trailing-byte", 2, "TRAILING_BYTES", |f| {
        document(f, |d| d.push(0));
    }),
    vector("trailing-break", 2, "TRAILING_BYTES", |f| {
        document(f, |d| d.push(0xff));
    }),
    vector("payload-trailing-byte", 2, "TRAILING_BYTES", |f| {
        f.payload = Some(Box::new(|p: &mut Vec<u8>| p.push(0)));
    }),
    // Check 3. Each is still signed with ES384.
    vector("alg-es256", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa1, 0x01, 0x26];
    }),
    vector("alg-es512", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa1, 0x01, 0x38, 0x23];
    }),
    vector("alg-eddsa", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa1, 0x01, 0x27];
    }),
    vector("alg-text", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = [vec![0xa1, 0x01], cbor::text("ES384")].concat();
    }),
    vector("alg-missing", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa0];
    }),
    vector("protected-empty", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = Vec::new();
    }),
    vector("protected-with-kid", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa2, 0x01, 0x38, 0x22, 0x04, 0x41, 0x31];
    }),
    vector("protected-indefinite", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xbf, 0x01, 0x38, 0x22, 0xff];
    }),
    vector("alg-long-head", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa1, 0x01, 0x39, 0x00, 0x22];
    }),
    vector("alg-twice", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa2, 0x01, 0x38, 0x22, 0x01, 0x38, 0x22];
    }),
    vector("protected-trailing-byte", 3, "ALGORITHM_REFUSED", |f| {
        f.protected = vec![0xa1, 0x01, 0x38, 0x22, 0x00];
    }),
    vector("unprotected-alg", 3, "UNPROTECTED_HEADER", |f| {
        set_element(f, 1, vec![0xa1, 0x01, 0x38, 0x22]);
    }),
    vector("unprotected-x5chain", 3, "UNPROTECTED_HEADER", |f| {
        set_element(f, 1, vec![0xa1, 0x18, 0x21, 0x41, 0x30]);
    }),
    vector("unprotected-indefinite", 3, "UNPROTECTED_HEADER", |f| {
        set_element(f, 1, vec![0xbf, 0xff]);
    }),
    // Check 4
    vector("payload-of-1-byte", 5, "FIELD_MISSING", |f| {
        f.payload = Some(Box::new(|p: &mut Vec<u8>| *p = vec![0xa0]));
    }),
    vector("payload-empty", 4, "PAYLOAD_SIZE", |f| {
        f.payload = Some(Box::new(Vec::clear));
    }),
    vector("payload-16385", 4, "PAYLOAD_SIZE", |f| {
        payload_of(f, 16_385);
    }),
    vector(
        "payload-16384-with-trailing-bytes",
        2,
        "TRAILING_BYTES",
        |f| {
            f.payload = Some(Box::new(|p: &mut Vec<u8>| p.resize(16_384, 0)));
        },
    ),
    vector("signature-empty", 4, "SIGNATURE_SIZE", |f| {
        signature(f, Vec::clear);
    }),
    vector("signature-95", 4, "SIGNATURE_SIZE", |f| {
        signature(f, |s| s.truncate(95));
    }),
    vector("signature-97", 4, "SIGNATURE_SIZE", |f| {
        signature(f, |s| s.insert(0, 0));
    }),
    // Check 21
    vector("signature-bit", 21, "DOCUMENT_SIGNATURE", |f| {
        signature(f, |s| s[0] ^= 1);
    }),
    vector("signature-zero", 21, "DOCUMENT_SIGNATURE", |f| {
        signature(f, |s| s.fill(0));
    }),
    vector("signature-r-zero", 21, "DOCUMENT_SIGNATURE", |f| {
        signature(f, |s| s[..48].fill(0));
    }),
    vector("signature-s-zero", 21, "DOCUMENT_SIGNATURE", |f| {
        signature(f, |s| s[48..].fill(0));
    }),
    vector("signature-s-is-order", 21, "DOCUMENT_SIGNATURE", |f| {
        signature(f, |s| s[48..].copy_from_slice(&ORDER));
    }),
    vector("signature-swapped", 21, "DOCUMENT_SIGNATURE", |f| {
        signature(f, |s| s.rotate_left(48));
    }),
    vector("signed-by-instance", 21, "DOCUMENT_SIGNATURE", |f| {
        f.signed_by = super::INSTANCE;
    }),
    vector("signed-by-root", 21, "DOCUMENT_SIGNATURE", |f| {
        f.signed_by = super::ROOT;
    }),
    vector("signed-as-cose-sign", 21, "DOCUMENT_SIGNATURE", |f| {
        f.context = "Signature";
    }),
    vector("signed-with-external-data", 21, "DOCUMENT_SIGNATURE", |f| {
        f.external = vec![0];
    }),
];

/// A map of one entry, with `levels` nested containers.
fn nested(levels: usize) -> Vec<u8> {
    [vec![0xa1, 0x01], vec![0x81; levels - 2], vec![0x80]].concat()
}

fn document(forgery: &mut Forgery, change: fn(&mut Vec<u8>)) {
    forgery.document = Some(Box::new(change));
}

fn signature(forgery: &mut Forgery, change: fn(&mut Vec<u8>)) {
    forgery.signature = Some(Box::new(change));
}

/// Replaces s by n - s, which is another valid signature of the same message.
fn subtract_from_order(s: &mut [u8]) {
    let mut borrow = false;
    for (digit, order) in s.iter_mut().zip(ORDER).rev() {
        let (first, under) = order.overflowing_sub(*digit);
        let (second, under_again) = first.overflowing_sub(u8::from(borrow));
        (*digit, borrow) = (second, under || under_again);
    }
}
