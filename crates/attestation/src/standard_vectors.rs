//! Third-party vectors for code without a public function: signatures in DER, and the signature of an envelope.

use base64ct::{Base64UrlUnpadded, Encoding};
use coset::{CoseSign1, TaggedCborSerializable};
use forge::{hex_of, shared_json};
use provider::es384::VerifyingKey;

use crate::cose::is_es384;

/// Wycheproof, ECDSA on P-384 with SHA-384 in DER, as certificates carry it: BER, padding, wrong tags, values out of range.
#[test]
fn wycheproof_agrees_on_signatures_in_der() {
    let Some(json) = shared_json("wycheproof/ecdsa_secp384r1_sha384_test.json") else {
        return;
    };
    let mut count = 0;
    for group in json["testGroups"].as_array().unwrap() {
        let key =
            VerifyingKey::from_sec1_bytes(&hex_of(&group["publicKey"]["uncompressed"])).unwrap();
        for test in group["tests"].as_array().unwrap() {
            let message = hex_of(&test["msg"]);
            let signature = provider::es384::signature_from_der(&hex_of(&test["sig"]));
            let expected = test["result"] == "valid";
            for verify in [provider::es384::verify, provider::es384::verify_portable] {
                let valid = signature.is_some_and(|signature| verify(&key, &message, &signature));
                assert_eq!(valid, expected, "{}: {}", test["tcId"], test["comment"]);
            }
            count += 1;
        }
    }
    assert_eq!(count, json["numberOfTests"].as_u64().unwrap());
    assert!(count > 400, "{count} tests");
}

/// The only COSE_Sign1 with ES384 among the examples of the COSE working group.
#[test]
fn the_example_of_the_cose_working_group_verifies() {
    let Some(json) = shared_json("cose/ecdsa-examples/ecdsa-sig-02.json") else {
        return;
    };
    let coordinate = |name: &str| {
        let text = json["input"]["sign0"]["key"][name].as_str().unwrap();
        Base64UrlUnpadded::decode_vec(text).unwrap()
    };
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
    let envelope = CoseSign1::from_tagged_slice(&hex_of(&json["output"]["cbor"])).unwrap();
    let payload = json["input"]["plaintext"].as_str().unwrap();
    assert_eq!(envelope.payload.as_deref(), Some(payload.as_bytes()));
    let valid = |envelope: &CoseSign1| {
        let verified = envelope.verify_signature(b"", |signature, message| {
            is_es384(message, signature, &key).then_some(()).ok_or(())
        });
        verified.is_ok()
    };
    assert!(valid(&envelope));
    let mut changed = envelope.clone();
    changed.payload = Some(b"This is the content!".to_vec());
    assert!(!valid(&changed));
    changed.clone_from(&envelope);
    changed.signature[95] ^= 1;
    assert!(!valid(&changed));
}
