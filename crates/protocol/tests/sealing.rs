//! Sealing: round trips, interoperation with an independent implementation, and attacks.
// A test fails by panicking, and a table of changes reads best with one expression each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned
)]

use attestation::{Aead, Kdf, Kem, KeyConfig, SealingKey};
use fixtures::rng;
use ohttp::hpke::{Aead as TheirAead, Kdf as TheirKdf, Kem as TheirKem};
use protocol::ohttp::{
    GatewayKeys, MAX_ENCAPSULATED, MAX_ENCAPSULATED_RESPONSE, SealError, encapsulate,
};

const AEADS: [Aead; 3] = [Aead::ChaCha20Poly1305, Aead::Aes256Gcm, Aead::Aes128Gcm];
const KEMS: [Kem; 2] = [Kem::XWing, Kem::X25519];
const INNER: &[u8] = b"what the user wrote";
const HEADER: usize = 7;

fn key(gateway: &GatewayKeys, kem: Kem) -> SealingKey {
    SealingKey::dangerous_unattested(
        gateway
            .configs()
            .into_iter()
            .find(|config| config.kem == kem)
            .unwrap(),
    )
}

fn refusal<T>(result: Result<T, SealError>) -> SealError {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

#[test]
fn every_suite_carries_a_request_and_its_answer() {
    let mut rng = rng(1);
    let gateway = GatewayKeys::generate(7, &mut rng);
    for kem in KEMS {
        for aead in AEADS {
            let (sealed, opener) =
                encapsulate(&key(&gateway, kem), &[aead], INNER, &mut rng).unwrap();
            let (opened, sealer) = gateway.open(&sealed).unwrap();
            assert_eq!(opened.inner, INNER);
            assert_eq!(opened.enc, sealed[HEADER..HEADER + opened.enc.len()]);
            let answer = sealer.seal(b"answer", &mut rng).unwrap();
            assert_eq!(opener.open(&answer).unwrap(), b"answer");
        }
    }
}

#[test]
fn empty_messages_survive_the_round_trip() {
    let mut rng = rng(2);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let (sealed, opener) = encapsulate(&key(&gateway, Kem::X25519), &AEADS, b"", &mut rng).unwrap();
    let (opened, sealer) = gateway.open(&sealed).unwrap();
    assert!(opened.inner.is_empty());
    assert!(
        opener
            .open(&sealer.seal(b"", &mut rng).unwrap())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn preference_decides_among_the_offered_suites() {
    let mut rng = rng(3);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let mut config = gateway.configs().remove(0);
    config.symmetric = vec![
        (Kdf::HkdfSha256, Aead::Aes128Gcm),
        (Kdf::HkdfSha256, Aead::Aes256Gcm),
    ];
    let narrow = SealingKey::dangerous_unattested(config);
    let (sealed, _) = encapsulate(&narrow, &AEADS, INNER, &mut rng).unwrap();
    assert_eq!(
        sealed[5..7],
        2u16.to_be_bytes(),
        "AES-256-GCM comes before AES-128-GCM in the preference"
    );
    let none = refusal(encapsulate(
        &narrow,
        &[Aead::ChaCha20Poly1305],
        INNER,
        &mut rng,
    ));
    assert_eq!(none, SealError::UnsupportedSuite);
}

/// The other implementation has no AES-256-GCM.
const SHARED_AEADS: [Aead; 2] = [Aead::ChaCha20Poly1305, Aead::Aes128Gcm];

fn their_suites() -> Vec<ohttp::SymmetricSuite> {
    [TheirAead::Aes128Gcm, TheirAead::ChaCha20Poly1305]
        .map(|aead| ohttp::SymmetricSuite::new(TheirKdf::HkdfSha256, aead))
        .into()
}

#[test]
fn our_client_talks_to_their_gateway() {
    let mut rng = rng(4);
    for (kem, theirs) in [
        (Kem::XWing, TheirKem::XWing),
        (Kem::X25519, TheirKem::X25519Sha256),
    ] {
        for aead in SHARED_AEADS {
            let config = ohttp::KeyConfig::new(9, theirs, their_suites()).unwrap();
            let list = ohttp::KeyConfig::encode_list(&[&config]).unwrap();
            let server = ohttp::Server::new(config).unwrap();
            let key =
                SealingKey::dangerous_unattested(KeyConfig::decode_list(&list).unwrap().remove(0));
            assert_eq!(key.config().kem, kem);

            let (sealed, opener) = encapsulate(&key, &[aead], INNER, &mut rng).unwrap();
            let (inner, answer) = server.decapsulate(&sealed).unwrap();
            assert_eq!(inner, INNER);
            assert_eq!(
                opener
                    .open(&answer.encapsulate(b"their answer").unwrap())
                    .unwrap(),
                b"their answer"
            );
        }
    }
}

#[test]
fn their_client_talks_to_our_gateway() {
    let mut rng = rng(5);
    let gateway = GatewayKeys::generate(200, &mut rng);
    for config in gateway.configs() {
        for aead in SHARED_AEADS {
            assert!(config.symmetric.contains(&(Kdf::HkdfSha256, aead)));
            let narrow = KeyConfig {
                symmetric: vec![(Kdf::HkdfSha256, aead)],
                ..config.clone()
            };
            let list = KeyConfig::encode_list(&[narrow]).unwrap();
            let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
            let (sealed, answer) = client.encapsulate(INNER).unwrap();
            let (opened, sealer) = gateway.open(&sealed).unwrap();
            assert_eq!(opened.inner, INNER);
            let sealed_answer = sealer.seal(b"our answer", &mut rng).unwrap();
            assert_eq!(answer.decapsulate(&sealed_answer).unwrap(), b"our answer");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_request_is_refused() {
    let mut rng = rng(6);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let (sealed, _) = encapsulate(&key(&gateway, Kem::X25519), &AEADS, INNER, &mut rng).unwrap();
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            // X25519 masks the top bit of a coordinate (RFC 7748 §5), but the key is also derived from the bytes of `enc`,
            // so even that change is detected.
            refusal(gateway.open(&changed));
        }
    }
    let (sealed, _) = encapsulate(&key(&gateway, Kem::XWing), &AEADS, INNER, &mut rng).unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 0x10;
        refusal(gateway.open(&changed));
    }
}

#[test]
fn every_truncation_of_a_request_and_an_answer_is_refused() {
    let mut rng = rng(7);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let key = key(&gateway, Kem::X25519);
    let (sealed, _) = encapsulate(&key, &AEADS, INNER, &mut rng).unwrap();
    for length in 0..sealed.len() {
        refusal(gateway.open(&sealed[..length]));
    }
    let answer_length = gateway
        .open(&sealed)
        .unwrap()
        .1
        .seal(b"answer", &mut rng)
        .unwrap()
        .len();
    for length in 0..answer_length {
        let (sealed, opener) = encapsulate(&key, &AEADS, INNER, &mut rng).unwrap();
        let answer = gateway
            .open(&sealed)
            .unwrap()
            .1
            .seal(b"answer", &mut rng)
            .unwrap();
        refusal(opener.open(&answer[..length]));
    }
}

#[test]
fn every_flipped_bit_of_an_answer_is_refused() {
    let mut rng = rng(8);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let key = key(&gateway, Kem::X25519);
    for aead in AEADS {
        let mut at = 0;
        loop {
            let (sealed, opener) = encapsulate(&key, &[aead], INNER, &mut rng).unwrap();
            let mut answer = gateway
                .open(&sealed)
                .unwrap()
                .1
                .seal(b"answer", &mut rng)
                .unwrap();
            if at / 8 == answer.len() {
                break;
            }
            answer[at / 8] ^= 1 << (at % 8);
            assert_eq!(refusal(opener.open(&answer)), SealError::OpenFailed);
            at += 1;
        }
    }
}

#[test]
fn an_answer_opens_for_its_own_request_only() {
    let mut rng = rng(9);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let key = key(&gateway, Kem::XWing);
    let (first, _) = encapsulate(&key, &AEADS, INNER, &mut rng).unwrap();
    let (_, second_opener) = encapsulate(&key, &AEADS, INNER, &mut rng).unwrap();
    let answer = gateway
        .open(&first)
        .unwrap()
        .1
        .seal(b"answer", &mut rng)
        .unwrap();
    assert_eq!(refusal(second_opener.open(&answer)), SealError::OpenFailed);
}

#[test]
fn enc_of_one_request_with_the_body_of_another_is_refused() {
    let mut rng = rng(10);
    let gateway = GatewayKeys::generate(0, &mut rng);
    for (kem, enc) in [(Kem::XWing, 1120), (Kem::X25519, 32)] {
        let (first, _) = encapsulate(&key(&gateway, kem), &AEADS, INNER, &mut rng).unwrap();
        let (second, _) = encapsulate(&key(&gateway, kem), &AEADS, INNER, &mut rng).unwrap();
        let spliced = [&first[..HEADER + enc], &second[HEADER + enc..]].concat();
        assert_eq!(refusal(gateway.open(&spliced)), SealError::OpenFailed);
    }
}

#[test]
fn swapped_identifiers_are_refused() {
    let mut rng = rng(11);
    let gateway = GatewayKeys::generate(40, &mut rng);
    let (sealed, _) = encapsulate(
        &key(&gateway, Kem::X25519),
        &[Aead::Aes256Gcm],
        INNER,
        &mut rng,
    )
    .unwrap();
    let with = |at: usize, value: u8| {
        let mut changed = sealed.clone();
        changed[at] = value;
        refusal(gateway.open(&changed))
    };
    assert_eq!(
        with(0, 40),
        SealError::UnsupportedSuite,
        "the X-Wing key's identifier"
    );
    assert_eq!(with(0, 99), SealError::UnknownKey(99));
    assert_eq!(
        with(6, 1),
        SealError::OpenFailed,
        "AES-128-GCM is on offer, but is not what was sealed under"
    );
    assert_eq!(with(6, 0xff), SealError::UnsupportedSuite, "export-only");
    assert_eq!(with(4, 3), SealError::UnsupportedSuite, "HKDF-SHA512");

    // The same key under another identifier: the key derivation covers the identifier.
    let mut config = gateway.configs().remove(1);
    config.key_id = 40;
    let (sealed, _) = encapsulate(
        &SealingKey::dangerous_unattested(config),
        &AEADS,
        INNER,
        &mut rng,
    )
    .unwrap();
    let mut readdressed = sealed;
    readdressed[0] = 41;
    assert_eq!(refusal(gateway.open(&readdressed)), SealError::OpenFailed);
}

#[test]
fn a_request_for_another_gateway_is_refused() {
    let mut rng = rng(12);
    let (ours, theirs) = (
        GatewayKeys::generate(0, &mut rng),
        GatewayKeys::generate(0, &mut rng),
    );
    for kem in KEMS {
        let (sealed, _) = encapsulate(&key(&ours, kem), &AEADS, INNER, &mut rng).unwrap();
        assert_eq!(refusal(theirs.open(&sealed)), SealError::OpenFailed);
    }
}

/// Points of small order on Curve25519 and its twist, as RFC 7748 §7 mentions them.
const LOW_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

#[test]
fn low_order_points_are_refused_on_both_sides() {
    let mut rng = rng(13);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let (sealed, _) = encapsulate(&key(&gateway, Kem::X25519), &AEADS, INNER, &mut rng).unwrap();
    for point in LOW_ORDER {
        let point = base16ct::lower::decode_vec(point).unwrap();
        let mut config = gateway.configs().remove(1);
        config.public_key = point.clone();
        let sealing = encapsulate(
            &SealingKey::dangerous_unattested(config),
            &AEADS,
            INNER,
            &mut rng,
        );
        assert_eq!(refusal(sealing), SealError::BadKey);

        let mut forged = sealed.clone();
        forged[HEADER..HEADER + 32].copy_from_slice(&point);
        assert_eq!(refusal(gateway.open(&forged)), SealError::BadKey);
    }
}

#[test]
fn keys_of_a_wrong_length_are_refused() {
    let mut rng = rng(14);
    let gateway = GatewayKeys::generate(0, &mut rng);
    for mut config in gateway.configs() {
        config.public_key.pop();
        let sealing = encapsulate(
            &SealingKey::dangerous_unattested(config),
            &AEADS,
            INNER,
            &mut rng,
        );
        assert_eq!(refusal(sealing), SealError::BadKey);
    }
}

#[test]
fn sizes_are_limited_before_anything_is_opened() {
    let mut rng = rng(15);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let key = key(&gateway, Kem::X25519);
    assert_eq!(
        refusal(gateway.open(&vec![0; MAX_ENCAPSULATED + 1])),
        SealError::TooLarge
    );
    let long = vec![0; protocol::inner::MAX_REQUEST + 1];
    assert_eq!(
        refusal(encapsulate(&key, &AEADS, &long, &mut rng)),
        SealError::TooLarge
    );
    let (sealed, opener) = encapsulate(&key, &AEADS, INNER, &mut rng).unwrap();
    assert_eq!(
        refusal(opener.open(&vec![0; MAX_ENCAPSULATED_RESPONSE + 1])),
        SealError::TooLarge
    );
    let (_, sealer) = gateway.open(&sealed).unwrap();
    let long = vec![0; protocol::inner::MAX_RESPONSE + 1];
    assert_eq!(refusal(sealer.seal(&long, &mut rng)), SealError::TooLarge);
}

#[test]
fn key_identifiers_wrap_around() {
    let configs = GatewayKeys::generate(255, &mut rng(16)).configs();
    assert_eq!(
        configs
            .iter()
            .map(|config| config.key_id)
            .collect::<Vec<_>>(),
        [255, 0]
    );
}
