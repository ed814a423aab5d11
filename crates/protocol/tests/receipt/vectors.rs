//! Vectors of the receipt profile, and of the signature that it uses.

use attestation::{ReceiptKey, UnixMillis, Verdict};
use protocol::receipt::{Expectations, ReceiptCode, ReceiptSigner, Window, verify};
use serde_json::Value;

use fixtures::random::Script;
use fixtures::receipt::NOW;
use forge::{hex_of as hex, shared_json as vectors};

#[test]
fn the_profiles_own_vectors() {
    let mut judged = 0;
    for name in [
        "v1-nitro-no-nonce",
        "v1-nonce-mismatch",
        "v1-stale-iat",
        "v1-wrong-alg",
        "v1-zero-model-hash",
    ] {
        let Some(vector) = vectors(&format!("air-v1/{name}.json")) else {
            return;
        };
        judge_vector(&vector);
        judged += 1;
    }
    assert_eq!(judged, 5);
}

fn judge_vector(vector: &Value) {
    let key = hex(&vector["public_key_hex"]).try_into().unwrap();
    let mut expected = Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
    let policy = &vector["verify_policy"];
    if !policy["expected_nonce_hex"].is_null() {
        expected.nonce = Some(hex(&policy["expected_nonce_hex"]));
    }
    if let Some(max_age_seconds) = policy["max_age_secs"].as_u64() {
        let at = UnixMillis::from_seconds(NOW);
        expected.window = Some(Window {
            at,
            max_age_seconds,
            clock_skew_seconds: 0,
        });
    }
    let receipt = hex(&vector["receipt_hex"]);
    let (report, claims) = verify(&receipt, &expected, None);
    let failure = &vector["expected_failure"];
    assert_eq!(
        report.code.as_deref(),
        failure["code"].as_str(),
        "{}",
        vector["name"]
    );
    match failure["layer"].as_u64() {
        Some(layer) => {
            let code = ReceiptCode::ALL
                .iter()
                .find(|code| Some(code.code()) == failure["code"].as_str())
                .unwrap();
            assert_eq!(code.layer() as u64, layer);
        }
        None => {
            // The golden vector: the same claims under the same key sign to the same bytes.
            assert_eq!(report.verdict, Verdict::Signed);
            let seed: [u8; 32] = hex(&vector["signing_key_seed_hex"]).try_into().unwrap();
            let signer = ReceiptSigner::generate(&mut Script::new(&seed));
            assert_eq!(signer.sign(&claims.unwrap()), receipt);
        }
    }
}
