//! The one encoding, and signed receipts in other encodings.

use attestation::ReceiptKey;
use attestation::cbor::Writer;
use ed25519_dalek::{Signer, SigningKey};
use protocol::receipt::Expectations;

use super::code;
use fixtures::receipt::NOW;

/// Builds a receipt by hand, so that it can break the signer's rules. The signature is valid.
struct Forge {
    key: SigningKey,
    protected: Vec<u8>,
    claims: Vec<(i64, Vec<u8>)>,
}

fn item(write: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.finish()
}

fn registers(change: impl FnOnce(&mut Vec<(&'static str, Vec<u8>)>)) -> Vec<u8> {
    let mut entries: Vec<(&str, Vec<u8>)> = ["pcr0", "pcr1", "pcr2"]
        .map(|name| (name, item(|writer| writer.bytes(&[1; 48]))))
        .into();
    entries.push(("measurement_type", item(|writer| writer.text("nitro-pcr"))));
    change(&mut entries);
    item(|writer| {
        writer.map(entries.len() as u64);
        for (name, value) in entries {
            writer.text(name).raw(&value);
        }
        writer
    })
}

impl Forge {
    fn new() -> Self {
        let text = |value: &str| item(|writer| writer.text(value));
        let bytes = |value: &[u8]| item(|writer| writer.bytes(value));
        let uint = |value: u64| item(|writer| writer.uint(value));
        let claims = vec![
            (1, text("issuer")),
            (6, uint(NOW)),
            (7, bytes(&[1; 16])),
            (265, text("https://spec.cyntrisec.com/air/v1")),
            (-65_537, text("model")),
            (-65_538, text("1")),
            (-65_539, bytes(&[1; 32])),
            (-65_540, bytes(&[2; 32])),
            (-65_541, bytes(&[3; 32])),
            (-65_542, bytes(&[4; 32])),
            (-65_543, registers(|_| ())),
            (-65_544, text("policy")),
            (-65_545, uint(1)),
            (-65_546, uint(2)),
            (-65_547, uint(3)),
            (-65_548, text("production")),
        ];
        let protected = item(|writer| writer.map(2).int(1).int(-8).int(3).uint(61));
        Self {
            key: SigningKey::from_bytes(&[7; 32]),
            protected,
            claims,
        }
    }

    fn set(mut self, claim: i64, value: Vec<u8>) -> Self {
        self.claims.retain(|(name, _)| *name != claim);
        self.claims.push((claim, value));
        self
    }

    fn payload(&self) -> Vec<u8> {
        let mut claims: Vec<_> = self
            .claims
            .iter()
            .map(|(name, value)| (item(|w| w.int(*name)), value))
            .collect();
        claims.sort();
        item(|writer| {
            writer.map(claims.len() as u64);
            for (name, value) in claims {
                writer.raw(&name).raw(value);
            }
            writer
        })
    }

    fn code(&self) -> String {
        self.code_of(&self.payload())
    }

    fn code_of(&self, payload: &[u8]) -> String {
        let signed = item(|w| {
            w.array(4)
                .text("Signature1")
                .bytes(&self.protected)
                .bytes(b"")
                .bytes(payload)
        });
        let signature = self.key.sign(&signed).to_bytes();
        self.judge(&item(|w| {
            w.tag(18)
                .array(4)
                .bytes(&self.protected)
                .map(0)
                .bytes(payload)
                .bytes(&signature)
        }))
    }

    fn judge(&self, receipt: &[u8]) -> String {
        let key = ReceiptKey::dangerous_unattested(self.key.verifying_key().to_bytes());
        code(receipt, &Expectations::dangerous_unattested(key))
    }
}

#[test]
fn each_code_of_the_first_and_third_layer_is_given_by_a_receipt_with_one_error() {
    let text = |value: &str| item(|writer| writer.text(value));
    let bytes = |value: &[u8]| item(|writer| writer.bytes(value));
    let header = |write: fn(&mut Writer) -> &mut Writer| {
        Forge {
            protected: item(write),
            ..Forge::new()
        }
        .code()
    };
    assert_eq!(Forge::new().code(), "accepted");

    assert_eq!(
        header(|w| w.map(2).int(1).int(-7).int(3).uint(61)),
        "BAD_ALG"
    );
    assert_eq!(
        header(|w| w.map(2).int(1).text("EdDSA").int(3).uint(61)),
        "BAD_ALG"
    );
    assert_eq!(header(|w| w.map(1).int(3).uint(61)), "BAD_ALG");
    assert_eq!(
        header(|w| w.map(2).int(1).int(-8).int(3).uint(60)),
        "BAD_CONTENT_TYPE"
    );
    assert_eq!(header(|w| w.map(1).int(1).int(-8)), "BAD_CONTENT_TYPE");
    assert_eq!(
        header(|w| w.map(3).int(1).int(-8).int(3).uint(61).int(4).bytes(b"kid")),
        "BAD_HEADERS"
    );
    assert_eq!(
        header(|w| w.map(2).int(3).uint(61).int(1).int(-8)),
        "NOT_DETERMINISTIC"
    );

    let set = |claim: i64, value: Vec<u8>| Forge::new().set(claim, value).code();
    assert_eq!(set(2, text("sub")), "UNKNOWN_CLAIM");
    assert_eq!(set(-65_550, text("new")), "UNKNOWN_CLAIM");
    assert_eq!(set(1, bytes(b"issuer")), "BAD_CLAIM_TYPE");
    assert_eq!(set(6, text("now")), "BAD_CLAIM_TYPE");
    assert_eq!(
        set(265, text("https://spec.cyntrisec.com/air/v2")),
        "BAD_PROFILE"
    );
    assert_eq!(set(7, bytes(&[1; 15])), "BAD_CTI_LENGTH");
    for claim in [-65_539, -65_540, -65_541, -65_542] {
        assert_eq!(set(claim, bytes(&[1; 31])), "BAD_HASH_LENGTH");
        assert_eq!(set(claim, bytes(&[1; 33])), "BAD_HASH_LENGTH");
    }
    assert_eq!(set(-65_548, text("Production")), "UNKNOWN_SECURITY_MODE");
    assert_eq!(set(-65_549, text("sha256")), "UNKNOWN_HASH_SCHEME");
    for length in [0, 32, 47, 49, 64] {
        assert_eq!(
            set(
                -65_543,
                registers(|entries| entries[1].1 = item(|w| w.bytes(&vec![1; length])))
            ),
            "BAD_MEASUREMENT_LENGTH"
        );
    }
    assert_eq!(
        set(
            -65_543,
            registers(|entries| entries[3].1 = item(|w| w.text("sgx")))
        ),
        "UNKNOWN_MEASUREMENT_TYPE"
    );
    assert_eq!(
        set(-65_543, registers(|entries| drop(entries.remove(0)))),
        "MISSING_CLAIM"
    );
    assert_eq!(
        set(-65_543, registers(|entries| drop(entries.remove(3)))),
        "MISSING_CLAIM"
    );
    assert_eq!(
        set(
            -65_543,
            registers(|entries| entries.insert(3, ("pcr5", item(|w| w.bytes(&[1; 48])))))
        ),
        "UNKNOWN_CLAIM"
    );
    for absent in 0..16 {
        let mut forge = Forge::new();
        forge.claims.remove(absent);
        assert_eq!(forge.code(), "MISSING_CLAIM");
    }
}

#[test]
fn encodings_that_are_not_the_one_encoding_are_refused() {
    let forge = Forge::new();
    let payload = forge.payload();
    // The same map, with its length in two bytes; with an indefinite length; with its last claim twice.
    let count = payload[0] & 0x1f;
    assert_eq!(
        forge.code_of(&[&[0xb8, count][..], &payload[1..]].concat()),
        "NOT_DETERMINISTIC"
    );
    assert_eq!(
        forge.code_of(&[&[0xbf][..], &payload[1..], &[0xff]].concat()),
        "NOT_DETERMINISTIC"
    );
    let last = [item(|w| w.int(-65_548)), item(|w| w.text("production"))].concat();
    assert_eq!(
        forge.code_of(&[&[payload[0] + 1][..], &payload[1..], &last].concat()),
        "NOT_DETERMINISTIC"
    );
    assert_eq!(
        forge.code_of(&[&payload[..], &[0]].concat()),
        "TRAILING_BYTES"
    );
    assert_eq!(forge.code_of(&[]), "BAD_CBOR");

    let part = |write: fn(&mut Writer) -> &mut Writer| item(write);
    assert_eq!(forge.judge(&part(|w| w.array(4))), "NOT_COSE_SIGN1");
    assert_eq!(forge.judge(&part(|w| w.tag(98).array(4))), "NOT_COSE_SIGN1");
    assert_eq!(
        forge.judge(&part(|w| w.tag(18).array(3).bytes(b"").map(0).bytes(b""))),
        "BAD_CBOR"
    );
    let open = part(|w| {
        w.tag(18)
            .array(4)
            .bytes(b"")
            .map(1)
            .int(1)
            .int(-8)
            .bytes(b"")
            .bytes(&[0; 64])
    });
    assert_eq!(forge.judge(&open), "BAD_HEADERS");
    let short = part(|w| {
        w.tag(18)
            .array(4)
            .bytes(b"")
            .map(0)
            .bytes(b"")
            .bytes(&[0; 63])
    });
    assert_eq!(forge.judge(&short), "BAD_SIGNATURE_LENGTH");
}
