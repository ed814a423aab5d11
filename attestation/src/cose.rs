//! The signature of a document (RFC 9052 §4.4).

use provider::es384::{Signature, VerifyingKey};

/// ES384 (RFC 9053 §2.1): r and s as they stand, 48 bytes each; zero and anything from the order on is refused.
///
/// High-S signatures are accepted: the hypervisor makes them.
pub(crate) fn is_es384(message: &[u8], signature: &[u8], key: &VerifyingKey) -> bool {
    Signature::from_slice(signature)
        .is_ok_and(|signature| provider::es384::verify(key, message, &signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

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
