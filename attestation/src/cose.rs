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
    // RFC 9053 §2.1: r and s as they stand, 48 bytes each; zero and anything from the order on is refused here.
    let Ok(signature) = Signature::from_slice(signature) else {
        return false;
    };
    key.verify(&envelope.tbs_data(&[]), &signature).is_ok()
}
