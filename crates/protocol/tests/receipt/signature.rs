//! The signature: whose it is, and that it covers every byte.

use attestation::{ReceiptKey, Verdict};
use proptest::prelude::*;
use protocol::receipt::{Expectations, Layer, MAX_RECEIPT, ReceiptCode, ReceiptSigner};

use super::{code, expectations, judge};
use fixtures::receipt::claims;
use fixtures::rng;

#[test]
fn every_flipped_bit_is_refused_before_the_claims_are_used() {
    let signer = ReceiptSigner::generate(&mut rng(3));
    let receipt = signer.sign(&claims());
    let expected = expectations(&signer);
    for at in 0..receipt.len() * 8 {
        let mut changed = receipt.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let report = judge(&changed, &expected);
        assert_eq!(report.verdict, Verdict::Refused, "bit {at}");
        let layer = ReceiptCode::ALL
            .iter()
            .find(|code| Some(code.code()) == report.code.as_deref())
            .unwrap()
            .layer();
        assert!(
            layer <= Layer::Signature,
            "bit {at} got as far as {layer:?}"
        );
        assert!(report.claims.is_none());
    }
}

#[test]
fn every_truncation_and_every_appended_byte_is_refused() {
    let signer = ReceiptSigner::generate(&mut rng(4));
    let receipt = signer.sign(&claims());
    let expected = expectations(&signer);
    for length in 0..receipt.len() {
        assert_eq!(
            judge(&receipt[..length], &expected).verdict,
            Verdict::Refused
        );
    }
    for byte in 0..=u8::MAX {
        let longer = [&receipt[..], &[byte]].concat();
        assert_eq!(code(&longer, &expected), "TRAILING_BYTES");
    }
    assert_eq!(
        code(&vec![0; MAX_RECEIPT + 1], &expected),
        "RECEIPT_TOO_LARGE"
    );
}

#[test]
fn a_signature_of_another_form_is_refused() {
    let signer = ReceiptSigner::generate(&mut rng(5));
    let receipt = signer.sign(&claims());
    // S + L verifies under the same equation; RFC 8032 §5.1.7 demands S < L.
    let order = base16ct::lower::decode_vec(
        b"edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
    )
    .unwrap();
    let mut malleated = receipt.clone();
    let start = receipt.len() - 32;
    let mut carry = 0u16;
    for (byte, add) in malleated[start..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    assert_eq!(code(&malleated, &expectations(&signer)), "SIG_FAILED");
}

#[test]
fn keys_of_small_order_are_refused() {
    let signer = ReceiptSigner::generate(&mut rng(6));
    let receipt = signer.sign(&claims());
    let mut identity = [0; 32];
    identity[0] = 1;
    for key in [[0; 32], identity, [0xff; 32]] {
        let expected = Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
        assert_eq!(code(&receipt, &expected), "BAD_KEY");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let signer = ReceiptSigner::generate(&mut rng(11));
        prop_assert_eq!(judge(&bytes, &expectations(&signer)).verdict, Verdict::Refused);
    }
}
