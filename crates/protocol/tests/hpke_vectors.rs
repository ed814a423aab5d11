//! The `hpke` crate with this project's suites, and X25519 by its own provider, against the vectors of RFC 9180 and Wycheproof.
// A test fails by panicking, and a table of changes reads best with one expression each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned
)]

use fixtures::random::Script;
use forge::{hex_of as hex, shared_json as vectors};
use hpke::aead::{Aead, AesGcm128, AesGcm256, ChaCha20Poly1305};
use hpke::kdf::HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use protocol::x25519::X25519;
use serde_json::Value;

type PrivateKey = <X25519 as Kem>::PrivateKey;
type PublicKey = <X25519 as Kem>::PublicKey;
type EncappedKey = <X25519 as Kem>::EncappedKey;

#[test]
fn rfc_9180_base_mode_x25519_hkdf_sha256() {
    let Some(vectors) = vectors("hpke/test-vectors-x25519-only.json") else {
        return;
    };
    let mut judged = 0;
    for vector in vectors.as_array().unwrap() {
        if vector["mode"] != 0 || vector["kdf_id"] != 1 {
            continue;
        }
        match vector["aead_id"].as_u64().unwrap() {
            1 => judge::<AesGcm128>(vector),
            2 => judge::<AesGcm256>(vector),
            3 => judge::<ChaCha20Poly1305>(vector),
            _ => continue,
        }
        judged += 1;
    }
    assert_eq!(judged, 3);
}

fn judge<A: Aead>(vector: &Value) {
    let (secret, public) = X25519::derive_keypair(&hex(&vector["ikmR"]));
    let stated = PrivateKey::from_bytes(&hex(&vector["skRm"])).unwrap();
    assert_eq!(secret.to_bytes(), stated.to_bytes());
    assert_eq!(public.to_bytes().as_slice(), hex(&vector["pkRm"]));
    let info = hex(&vector["info"]);
    let (enc, mut sender) = hpke::setup_sender_with_rng::<A, HkdfSha256, X25519>(
        &OpModeS::Base,
        &public,
        &info,
        &mut Script::new(&hex(&vector["ikmE"])),
    )
    .unwrap();
    assert_eq!(enc.to_bytes().as_slice(), hex(&vector["enc"]));
    let enc = EncappedKey::from_bytes(&hex(&vector["enc"])).unwrap();
    let mut receiver =
        hpke::setup_receiver::<A, HkdfSha256, X25519>(&OpModeR::Base, &secret, &enc, &info)
            .unwrap();
    let messages = vector["encryptions"].as_array().unwrap();
    assert!(!messages.is_empty());
    for message in messages {
        let (plaintext, aad, ciphertext) = (
            hex(&message["pt"]),
            hex(&message["aad"]),
            hex(&message["ct"]),
        );
        assert_eq!(sender.seal(&plaintext, &aad).unwrap(), ciphertext);
        assert_eq!(receiver.open(&ciphertext, &aad).unwrap(), plaintext);
    }
    for export in vector["exports"].as_array().unwrap() {
        let mut value = vec![0; usize::try_from(export["L"].as_u64().unwrap()).unwrap()];
        sender
            .export(&hex(&export["exporter_context"]), &mut value)
            .unwrap();
        assert_eq!(value, hex(&export["exported_value"]));
        receiver
            .export(&hex(&export["exporter_context"]), &mut value)
            .unwrap();
        assert_eq!(value, hex(&export["exported_value"]));
    }
}

#[test]
fn wycheproof_x25519_points_with_an_all_zero_result_are_refused() {
    let Some(vectors) = vectors("wycheproof/x25519_test.json") else {
        return;
    };
    let mut refused = 0;
    for test in vectors["testGroups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["tests"].as_array().unwrap())
    {
        let all_zero = hex(&test["shared"]).iter().all(|byte| *byte == 0);
        let secret = PrivateKey::from_bytes(&hex(&test["private"])).unwrap();
        let public = hex(&test["public"]);
        let Ok(enc) = EncappedKey::from_bytes(&public) else {
            panic!("{}", test["tcId"])
        };
        let opened = hpke::setup_receiver::<AesGcm256, HkdfSha256, X25519>(
            &OpModeR::Base,
            &secret,
            &enc,
            b"",
        );
        let sealed = hpke::setup_sender_with_rng::<AesGcm256, HkdfSha256, X25519>(
            &OpModeS::Base,
            &PublicKey::from_bytes(&public).unwrap(),
            b"",
            &mut fixtures::rng(1),
        );
        // RFC 9180 §7.1.4
        assert_eq!(opened.is_err(), all_zero, "{}", test["tcId"]);
        assert_eq!(sealed.is_err(), all_zero, "{}", test["tcId"]);
        refused += usize::from(all_zero);
    }
    assert_eq!(refused, 31);
}
