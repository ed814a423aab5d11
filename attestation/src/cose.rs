//! The signature of a document (RFC 9052 §4.4).

use crate::cbor::Writer;
use es384::{Signature, VerifyingKey};

/// Whether `signature` is ES384 by `key` over this header and payload, with no external data.
///
/// High-S signatures are accepted: the hypervisor makes them.
pub(crate) fn signature_is_valid(
    protected: &[u8],
    payload: &[u8],
    signature: &[u8; 96],
    key: &VerifyingKey,
) -> bool {
    is_es384(&to_be_signed(protected, payload), signature, key)
}

/// `Sig_structure` (RFC 9052 §4.4): the header as received, never encoded again, because the signature covers its bytes.
pub(crate) fn to_be_signed(protected: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    out.array(4).text("Signature1").bytes(protected);
    out.bytes(b"").bytes(payload);
    out.finish()
}

/// ES384 (RFC 9053 §2.1): r and s as they stand, 48 bytes each; zero and anything from the order on is refused.
fn is_es384(message: &[u8], signature: &[u8], key: &VerifyingKey) -> bool {
    Signature::from_slice(signature).is_ok_and(|signature| es384::verify(key, message, &signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// `coset` is the other implementation: the two must ask for a signature over the same bytes.
    #[test]
    fn coset_signs_the_same_bytes() {
        for payload in [&b""[..], b"a", &[7; 16_384]] {
            let header = coset::HeaderBuilder::new()
                .algorithm(coset::iana::Algorithm::ES384)
                .build();
            let envelope = coset::CoseSign1Builder::new()
                .protected(header)
                .payload(payload.to_vec())
                .build();
            assert_eq!(
                to_be_signed(&[0xa1, 0x01, 0x38, 0x22], payload),
                envelope.tbs_data(&[])
            );
        }
    }

    /// Wycheproof, ECDSA on P-384 with SHA-384 in the form of IEEE P1363.
    #[test]
    fn wycheproof_agrees() {
        let Some(vectors) = forge::shared_vectors() else {
            return;
        };
        let path = vectors.join("wycheproof/ecdsa_secp384r1_sha384_p1363_test.json");
        let json = std::fs::read(path).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        let hex = |value: &Value| base16ct::mixed::decode_vec(value.as_str().unwrap()).unwrap();
        let mut count = 0;
        for group in json["testGroups"].as_array().unwrap() {
            let key =
                VerifyingKey::from_sec1_bytes(&hex(&group["publicKey"]["uncompressed"])).unwrap();
            for test in group["tests"].as_array().unwrap() {
                let valid = is_es384(&hex(&test["msg"]), &hex(&test["sig"]), &key);
                assert_eq!(
                    valid,
                    test["result"] == "valid",
                    "{}: {}",
                    test["tcId"],
                    test["comment"]
                );
                count += 1;
            }
        }
        assert!(count > 100, "{count} tests");
    }
}
