//! The signature of a document (RFC 9052 §4.4).

use provider::es384::{Signature, VerifyingKey};

/// ES384 (RFC 9053 §2.1): r and s, 48 bytes each; each must be above zero and below the group's order.
///
/// High-S signatures are accepted: the hypervisor makes them.
pub(crate) fn is_es384(message: &[u8], signature: &[u8], key: &VerifyingKey) -> bool {
    Signature::from_slice(signature)
        .is_ok_and(|signature| provider::es384::verify(key, message, &signature))
}

#[cfg(test)]
mod tests {
    use forge::hex_of;

    use super::*;

    /// Wycheproof, ECDSA on P-384 with SHA-384 in the form of IEEE P1363.
    #[test]
    fn wycheproof_agrees() {
        let Some(json) = forge::shared_json("wycheproof/ecdsa_secp384r1_sha384_p1363_test.json")
        else {
            return;
        };
        let mut count = 0;
        for group in json["testGroups"].as_array().unwrap() {
            let key = VerifyingKey::from_sec1_bytes(&hex_of(&group["publicKey"]["uncompressed"]))
                .unwrap();
            for test in group["tests"].as_array().unwrap() {
                let valid = is_es384(&hex_of(&test["msg"]), &hex_of(&test["sig"]), &key);
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
