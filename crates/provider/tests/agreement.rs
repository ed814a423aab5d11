//! Both implementations of everything, compared with Wycheproof's vectors and with each other.

#![allow(clippy::unwrap_used)]

use forge::{hex_of as hex, shared_json};
use provider::aes256gcm::{Aes256Gcm, TAG};
use provider::ed25519::{SigningKey, VerifyingKey};
use provider::x25519::{LOW_ORDER, Secret};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::Value;
use zeroize::Zeroizing;

/// Every test of a file, with its group.
fn wycheproof(file: &str) -> Option<Vec<(Value, Value)>> {
    let all = shared_json(&format!("wycheproof/{file}"))?;
    let groups = all["testGroups"].as_array().unwrap().iter();
    let tests = groups.flat_map(|group| {
        let tests = group["tests"].as_array().unwrap().iter();
        tests.map(|test| (group.clone(), test.clone()))
    });
    Some(tests.collect())
}

fn array<const N: usize>(value: &Value) -> [u8; N] {
    hex(value).try_into().unwrap()
}

#[test]
fn x25519_is_the_same_by_both() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut random = || {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    let edges = [[0; 32], [0xff; 32]].into_iter().chain(LOW_ORDER);
    let mut points: Vec<_> = edges.collect();
    points.extend((0..64).map(|_| random()));
    let scalars = [[0; 32], [0xff; 32]];
    for scalar in scalars.into_iter().chain((0..16).map(|_| random())) {
        let secret = Secret::new(Zeroizing::new(scalar));
        assert_eq!(secret.public_key(), secret.portable_public_key());
        for point in &points {
            let shared = secret.agree(point);
            assert_eq!(shared, secret.portable_agree(point), "{point:?}");
        }
    }
}

#[test]
fn x25519_gives_what_wycheproof_expects() {
    let Some(tests) = wycheproof("x25519_test.json") else {
        return;
    };
    assert_eq!(tests.len(), 518);
    for (_, test) in tests {
        let secret = Secret::new(Zeroizing::new(array(&test["private"])));
        let (point, expected) = (array(&test["public"]), array(&test["shared"]));
        assert_eq!(*secret.agree(&point), expected, "{}", test["tcId"]);
        assert_eq!(*secret.portable_agree(&point), expected, "{}", test["tcId"]);
    }
}

#[test]
fn ed25519_signs_the_same_by_both() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for length in (0..200).chain([255, 256, 1_000, 65_537]) {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let (ours, portable) = (SigningKey::from_seed(&seed), SigningKey::portable(&seed));
        assert_eq!(ours.public_key(), portable.public_key());
        let signature = ours.sign(&message);
        assert_eq!(signature, portable.sign(&message), "{length} bytes");
        let key = VerifyingKey::new(&ours.public_key()).unwrap();
        assert!(key.verify(&message, &signature));
        let mut changed = signature;
        changed[length % 64] ^= 1;
        assert!(!key.verify(&message, &changed));
    }
}

#[test]
fn ed25519_judges_as_wycheproof_does() {
    let Some(tests) = wycheproof("ed25519_test.json") else {
        return;
    };
    let mut valid = 0;
    for (group, test) in tests {
        let key = VerifyingKey::new(&array(&group["publicKey"]["pk"])).unwrap();
        let accepted = key.verify(&hex(&test["msg"]), &hex(&test["sig"]));
        assert_eq!(accepted, test["result"] == "valid", "{}", test["tcId"]);
        valid += usize::from(accepted);
    }
    assert_eq!(valid, 88);
}

#[test]
fn ed25519_keys_are_canonical_points_of_large_order() {
    // The neutral point, one of order four, a coordinate of p, and 2, which is not the y of any point.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut two = [0; 32];
    two[0] = 2;
    for bytes in [neutral, [0; 32], LOW_ORDER[2], two] {
        assert_eq!(VerifyingKey::new(&bytes), None, "{bytes:?}");
    }
}

/// Every length across the widths that either implementation works in, and some long ones.
#[test]
fn aes_256_gcm_is_the_same_by_both() {
    let lengths = (0..520).chain([1_024, 1_536, 4_096, 4_097, 65_535, 393_216, 1 << 20]);
    for length in lengths {
        let key: [u8; 32] = std::array::from_fn(|at| (at * 7 + length) as u8);
        let nonce: [u8; 12] = std::array::from_fn(|at| (at + length) as u8);
        let plain: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
        let aad = &plain[..length.min(16)];
        let (ours, portable) = (Aes256Gcm::new(&key), Aes256Gcm::portable(&key));
        let (mut one, mut two) = (plain.clone(), plain.clone());
        let tag = ours.seal(&nonce, aad, &mut one).unwrap();
        assert_eq!(portable.seal(&nonce, aad, &mut two).unwrap(), tag);
        assert!(one == two, "{length} bytes");
        portable.open(&nonce, aad, &mut one, &tag).unwrap();
        ours.open(&nonce, aad, &mut two, &tag).unwrap();
        assert!(one == plain && two == plain, "{length} bytes");

        let mut wrong = tag;
        wrong[length % TAG] ^= 1;
        assert!(ours.open(&nonce, aad, &mut one, &wrong).is_err());
        assert!(portable.open(&nonce, aad, &mut two, &wrong).is_err());
    }
}

#[test]
fn aes_256_gcm_judges_as_wycheproof_does() {
    let Some(tests) = wycheproof("aes_gcm_test.json") else {
        return;
    };
    let mut judged = 0;
    for (group, test) in tests {
        if group["keySize"] != 256 || group["ivSize"] != 96 || group["tagSize"] != 128 {
            continue;
        }
        let (key, nonce, tag) = (array(&test["key"]), array(&test["iv"]), array(&test["tag"]));
        let (aad, plain) = (hex(&test["aad"]), hex(&test["msg"]));
        let valid = test["result"] == "valid";
        for cipher in [Aes256Gcm::new(&key), Aes256Gcm::portable(&key)] {
            let mut payload = hex(&test["ct"]);
            let opened = cipher.open(&nonce, &aad, &mut payload, &tag).is_ok();
            assert_eq!(opened, valid, "{}", test["tcId"]);
            if valid {
                assert_eq!(payload, plain, "{}", test["tcId"]);
                assert_eq!(cipher.seal(&nonce, &aad, &mut payload), Ok(tag));
                assert_eq!(payload, hex(&test["ct"]), "{}", test["tcId"]);
            }
        }
        judged += 1;
    }
    assert!(judged > 50, "{judged} vectors for this key, nonce and tag");
}
