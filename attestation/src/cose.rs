//! The signature of a document (RFC 9052 §4.4).

use coset::{CoseSign1, ProtectedHeader, iana};
use p384::ecdsa::{Signature, VerifyingKey, signature::Verifier};

/// Whether `signature` is ES384 by `key` over this header and payload, with no external data.
///
/// High-S signatures are accepted: the hypervisor makes them.
pub(crate) fn signature_is_valid(
    protected: &[u8],
    payload: &[u8],
    signature: &[u8; 96],
    key: &VerifyingKey,
) -> bool {
    // The header as received, never re-encoded: the signature covers its bytes (RFC 9052 §4.4, body_protected).
    let Ok(protected) =
        ProtectedHeader::from_cbor_bstr(coset::cbor::value::Value::Bytes(protected.to_vec()))
    else {
        return false;
    };
    // The caller compared the bytes already; this says the same in the library's terms.
    if protected.header.alg != Some(coset::Algorithm::Assigned(iana::Algorithm::ES384)) {
        return false;
    }
    let envelope = CoseSign1 {
        protected,
        payload: Some(payload.to_vec()),
        ..CoseSign1::default()
    };
    is_es384(&envelope.tbs_data(&[]), signature, key)
}

/// ES384 (RFC 9053 §2.1): r and s as they stand, 48 bytes each; zero and anything from the order on is refused.
fn is_es384(message: &[u8], signature: &[u8], key: &VerifyingKey) -> bool {
    Signature::from_slice(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER_PERMISSIVE;
    use serde_json::Value;

    /// Wycheproof, ECDSA on P-384 with SHA-384 in the form of IEEE P1363.
    #[test]
    fn wycheproof_agrees() {
        let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
        let path = std::env::var_os("CLEARSEAL_VECTORS").map_or(beside, Into::into);
        let path = path.join("wycheproof/ecdsa_secp384r1_sha384_p1363_test.json");
        let Ok(json) = std::fs::read(path) else {
            println!("skipped: no vectors");
            return;
        };
        let json: Value = serde_json::from_slice(&json).unwrap();
        let hex = |value: &Value| {
            HEXLOWER_PERMISSIVE
                .decode(value.as_str().unwrap().as_bytes())
                .unwrap()
        };
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
