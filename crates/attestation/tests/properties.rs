//! Properties that hold for all inputs: codecs are inverse to each other, and nothing panics.

use attestation::cbor::{CborError, MAX_DEPTH, Reader, Rules, Writer};
use attestation::{
    Aead, Appraisal, Evidence, HashScheme, Kdf, Kem, KeyConfig, MAX_EVIDENCE, ManifestError,
    ModelIdentity, Policy, SecurityMode, ServiceManifest, TrustAnchor, UnixMillis,
};
use proptest::prelude::*;

/// A CBOR item to be written and read back.
#[derive(Clone, Debug)]
enum Item {
    Int(i64),
    Uint(u64),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Item>),
    Bool(bool),
    Null,
}

impl Item {
    fn write(&self, writer: &mut Writer) {
        match self {
            Item::Int(value) => drop(writer.int(*value)),
            Item::Uint(value) => drop(writer.uint(*value)),
            Item::Bytes(value) => drop(writer.bytes(value)),
            Item::Text(value) => drop(writer.text(value)),
            Item::Array(items) => {
                writer.array(items.len() as u64);
                items.iter().for_each(|item| item.write(writer));
            }
            Item::Bool(value) => drop(writer.bool(*value)),
            Item::Null => drop(writer.null()),
        }
    }

    fn read_back(&self, reader: &mut Reader<'_>) -> Result<bool, CborError> {
        Ok(match self {
            Item::Int(value) => reader.int()? == *value,
            Item::Uint(value) => reader.uint()? == *value,
            Item::Bytes(value) => reader.bytes()? == value,
            Item::Text(value) => reader.text()? == value,
            Item::Array(items) => {
                let mut array = reader.array()?;
                for item in items {
                    if !reader.more(&mut array)? || !item.read_back(reader)? {
                        return Ok(false);
                    }
                }
                !reader.more(&mut array)?
            }
            Item::Bool(value) => reader.bool()? == *value,
            Item::Null => reader.null()?,
        })
    }
}

fn item() -> impl Strategy<Value = Item> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Item::Int),
        any::<u64>().prop_map(Item::Uint),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Item::Bytes),
        ".{0,40}".prop_map(Item::Text),
        any::<bool>().prop_map(Item::Bool),
        Just(Item::Null),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        proptest::collection::vec(inner, 0..6).prop_map(Item::Array)
    })
}

fn key_config(kem: Kem, key_id: u8) -> impl Strategy<Value = KeyConfig> {
    let suites = proptest::collection::vec(proptest::sample::select(&Aead::ALL[..]), 1..5);
    let key = proptest::collection::vec(any::<u8>(), kem.public_key_len());
    (suites, key).prop_map(move |(aeads, public_key)| {
        let symmetric = aeads
            .into_iter()
            .map(|aead| (Kdf::HkdfSha256, aead))
            .collect();
        KeyConfig {
            key_id,
            kem,
            public_key,
            symmetric,
        }
    })
}

fn manifest() -> impl Strategy<Value = ServiceManifest> {
    let keys = (
        key_config(Kem::XWing, 1),
        key_config(Kem::X25519, 2),
        any::<bool>(),
    );
    let hashes = (any::<[u8; 32]>(), any::<[u8; 32]>());
    let texts = ("[a-z0-9.-]{1,64}", "\\PC{1,40}", "\\PC{1,40}");
    let sizes = (
        1..u32::MAX,
        1..u32::MAX,
        0..4_000_000_000u64,
        1..4_000_000_000u64,
    );
    (keys, hashes, texts, sizes, any::<(bool, bool, bool)>()).prop_map(
        |(keys, hashes, texts, sizes, (production, normalised, several))| ServiceManifest {
            version: 1,
            sealing_keys: if keys.2 {
                vec![keys.0, keys.1]
            } else {
                vec![keys.1]
            },
            receipt_key: hashes.0,
            model: ModelIdentity {
                id: texts.0,
                version: texts.1,
                sha256: hashes.1,
                hash_scheme: HashScheme::Sha256Manifest,
                dimension: sizes.0,
                max_tokens: sizes.1,
                normalised,
            },
            others: match several {
                true => vec![fixtures::manifest().model; 2],
                false => Vec::new(),
            },
            policy_version: texts.2,
            security_mode: if production {
                SecurityMode::Production
            } else {
                SecurityMode::Evaluation
            },
            not_before: sizes.2,
            not_after: sizes.2 + sizes.3,
        },
    )
}

proptest! {
    #[test]
    fn written_items_are_read_back_under_the_strictest_rules(item in item()) {
        let mut writer = Writer::new();
        item.write(&mut writer);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes, Rules::Deterministic);
        prop_assert_eq!(item.read_back(&mut reader), Ok(true));
        prop_assert_eq!(reader.finish(), Ok(()));
        prop_assert_eq!(Reader::new(&bytes, Rules::Deterministic).raw(), Ok(&bytes[..]));
    }

    #[test]
    fn no_truncation_of_an_item_can_be_skipped(item in item()) {
        let mut writer = Writer::new();
        item.write(&mut writer);
        let bytes = writer.finish();
        for length in 0..bytes.len() {
            prop_assert!(Reader::new(&bytes[..length], Rules::WellFormed).skip().is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        for rules in [Rules::WellFormed, Rules::Shortest, Rules::Deterministic] {
            let _ = Reader::new(&bytes, rules).skip();
        }
        let _ = ServiceManifest::decode(&bytes);
        let _ = KeyConfig::decode_list(&bytes);
        let _ = Evidence::parse(&bytes);
        let _ = Policy::chosen_by_hand(&bytes);
        let _ = TrustAnchor::development(&bytes);
        Appraisal::of(&bytes).inspect(&TrustAnchor::aws_nitro_g1(), UnixMillis(u64::MAX));
    }

    #[test]
    fn manifests_survive_the_round_trip(manifest in manifest()) {
        let bytes = manifest.encode().unwrap();
        prop_assert_eq!(ServiceManifest::decode(&bytes), Ok(manifest));
    }

    #[test]
    fn a_manifest_has_one_encoding(manifest in manifest(), at in any::<proptest::sample::Index>(), bit in 0..8u8) {
        let mut bytes = manifest.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(other) = ServiceManifest::decode(&bytes) {
            prop_assert_ne!(&other, &manifest);
            // Unknown key ids and suites may be skipped; everything else is written back unchanged.
            if other.sealing_keys == manifest.sealing_keys {
                prop_assert_eq!(other.encode().unwrap(), bytes);
            }
        }
    }

    #[test]
    fn key_lists_survive_the_round_trip(x_wing in key_config(Kem::XWing, 7), x25519 in key_config(Kem::X25519, 200)) {
        let list = vec![x_wing, x25519];
        let bytes = KeyConfig::encode_list(&list).unwrap();
        prop_assert_eq!(KeyConfig::decode_list(&bytes), Ok(list));
        for length in 1..bytes.len() {
            let whole = usize::from(u16::from_be_bytes([bytes[0], bytes[1]])) + 2;
            prop_assert_eq!(KeyConfig::decode_list(&bytes[..length]).is_ok(), length == whole);
        }
    }

    #[test]
    fn evidence_survives_the_round_trip(
        document in proptest::collection::vec(any::<u8>(), 0..2_000),
        manifest in proptest::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let evidence = Evidence { document: &document, manifest: &manifest };
        let bytes = evidence.encode();
        prop_assert_eq!(Evidence::parse(&bytes).unwrap(), evidence);
        for length in 0..bytes.len() {
            prop_assert!(Evidence::parse(&bytes[..length]).is_err());
        }
    }
}

#[test]
fn unknown_mechanisms_and_suites_are_skipped_and_known_ones_must_be_right() {
    let known = fixtures::manifest().sealing_keys;
    let list = KeyConfig::encode_list(&known[..1]).unwrap();
    // An unknown mechanism in front.
    let unknown = [0, 5, 9, 0x12, 0x34, 1, 2];
    assert_eq!(
        KeyConfig::decode_list(&[&unknown[..], &list].concat()).unwrap(),
        known[..1]
    );
    // An unknown cipher among the suites: key id, mechanism, key, length, suites.
    let mut with_unknown_cipher = list.clone();
    let last = with_unknown_cipher.len() - 1;
    with_unknown_cipher[last] = 0x77;
    assert_eq!(
        KeyConfig::decode_list(&with_unknown_cipher).unwrap()[0]
            .symmetric
            .len(),
        1
    );
    // No suite at all, and suites of three bytes.
    let config = &list[2..];
    for length in [0u16, 3] {
        let mut config = config[..1 + 2 + 32].to_vec();
        config.extend(length.to_be_bytes());
        config.extend(vec![0; length.into()]);
        let list = [&(config.len() as u16).to_be_bytes()[..], &config].concat();
        assert!(KeyConfig::decode_list(&list).is_err(), "{length}");
    }
}

#[test]
fn nesting_bombs_and_huge_lengths_are_refused_at_once() {
    for bomb in [
        vec![0x81; 1 << 20],
        vec![0xa1; 1 << 20],
        vec![0x9f; 1 << 20],
        vec![0xbf; 1 << 20],
        vec![0xc6; 1 << 20],
    ] {
        for rules in [Rules::WellFormed, Rules::Shortest, Rules::Deterministic] {
            assert!(Reader::new(&bomb, rules).skip().is_err());
        }
    }
    // Exactly as deep as allowed, and one deeper.
    let nested = |depth: usize| [vec![0x81; depth], vec![0x80]].concat();
    assert!(
        Reader::new(&nested(usize::from(MAX_DEPTH) - 1), Rules::Shortest)
            .skip()
            .is_ok()
    );
    assert!(
        Reader::new(&nested(usize::from(MAX_DEPTH)), Rules::Shortest)
            .skip()
            .is_err()
    );
    for major in [0x40, 0x60, 0x80, 0xa0] {
        for length in [
            &[0x1a, 0xff, 0xff, 0xff, 0xff][..],
            &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            let mut bytes = length.to_vec();
            bytes[0] |= major;
            assert!(Reader::new(&bytes, Rules::WellFormed).skip().is_err());
        }
    }
    assert!(Evidence::parse(&vec![0; MAX_EVIDENCE + 1]).is_err());
}

#[test]
fn each_rule_refuses_its_own_errors() {
    let skip = |bytes: &[u8], rules| Reader::new(bytes, rules).skip();
    // A length that is longer than needed, on each size.
    for bytes in [
        &[0x18, 23][..],
        &[0x19, 0, 255],
        &[0x1a, 0, 0, 255, 255],
        &[0x1b, 0, 0, 0, 0, 255, 255, 255, 255],
        &[0x58, 0],
    ] {
        assert!(skip(bytes, Rules::WellFormed).is_ok());
        assert_eq!(
            skip(bytes, Rules::Shortest),
            Err(CborError::NotShortest { at: 0 })
        );
    }
    for bytes in [
        &[0x18, 24][..],
        &[0x19, 1, 0],
        &[0x1a, 0, 1, 0, 0],
        &[0x1b, 0, 0, 0, 1, 0, 0, 0, 0],
    ] {
        assert!(skip(bytes, Rules::Deterministic).is_ok());
    }
    for bytes in [&[0x9f, 0xff][..], &[0xbf, 0xff]] {
        assert!(skip(bytes, Rules::Shortest).is_ok());
        assert_eq!(
            skip(bytes, Rules::Deterministic),
            Err(CborError::Indefinite { at: 0 })
        );
    }
    // Keys out of order, doubled, and of an unknown type; chunked strings under every rule.
    assert_eq!(
        skip(&[0xa2, 2, 0, 1, 0], Rules::Deterministic),
        Err(CborError::KeyOrder { at: 3 })
    );
    assert_eq!(
        skip(&[0xa2, 1, 0, 1, 0], Rules::Deterministic),
        Err(CborError::KeyOrder { at: 3 })
    );
    assert!(skip(&[0xa1, 0x80, 0], Rules::Deterministic).is_err());
    assert!(skip(&[0xa2, 1, 0, 0x20, 0], Rules::Deterministic).is_ok());
    for info in 28..31 {
        for major in 0..8 {
            assert_eq!(
                skip(&[(major << 5) | info, 0], Rules::WellFormed),
                Err(CborError::Reserved { at: 0 })
            );
        }
    }
    for bytes in [
        &[0x5f, 0xff][..],
        &[0x7f, 0xff],
        &[0xff],
        &[0xf8, 31],
        &[0x9f],
        &[0xbf, 1, 0xff],
        &[0x61, 0xff],
    ] {
        assert!(skip(bytes, Rules::WellFormed).is_err(), "{bytes:x?}");
    }
    assert_eq!(
        Reader::new(&[0x3b, 0x80, 0, 0, 0, 0, 0, 0, 0], Rules::WellFormed)
            .int()
            .ok(),
        None
    );
    assert_eq!(
        Reader::new(
            &[0x3b, 0x7f, 255, 255, 255, 255, 255, 255, 255],
            Rules::WellFormed
        )
        .int(),
        Ok(i64::MIN)
    );
}

#[test]
fn a_manifest_lists_further_models_only_if_there_are_any() {
    let mut manifest = fixtures::Fixture::new().manifest;
    let plain = manifest.encode().unwrap();
    manifest.others = vec![manifest.model.clone()];
    let several = manifest.encode().unwrap();
    assert_eq!(ServiceManifest::decode(&several).unwrap(), manifest);
    // The first model and an hour's validity are encoded as before.
    assert_eq!(several[1..plain.len()], plain[1..]);
    assert_eq!(several[plain.len()..][..2], [0x09, 0x81]);
    let mut empty = plain;
    empty[0] += 1;
    empty.extend([0x09, 0x80]);
    let refused = ServiceManifest::decode(&empty);
    assert_eq!(refused, Err(ManifestError::Field("other models")));
    manifest.others[0].dimension = 0;
    assert_eq!(manifest.encode(), Err(ManifestError::Field("model")));
}

#[test]
fn a_manifest_states_only_that_rows_have_other_lengths() {
    let mut manifest = fixtures::Fixture::new().manifest;
    let plain = manifest.encode().unwrap();
    manifest.model.normalised = false;
    let stated = manifest.encode().unwrap();
    assert_eq!(stated.len(), plain.len() + 2);
    // The member 7 of the model, which the policy version follows.
    let at = stated
        .windows(3)
        .position(|bytes| bytes == [0x07, 0xf4, 0x05]);
    let mut doubled = stated;
    doubled[at.unwrap() + 1] = 0xf5;
    let refused = ServiceManifest::decode(&doubled);
    assert_eq!(refused, Err(ManifestError::Field("normalised")));
}
