//! Data next to a document: the manifest, the key list, and the map that contains both.

use attestation::cbor::{Reader, Rules};
use attestation::{Evidence, KeyConfig, MAX_KEY_LIST, ServiceManifest};

use super::near_misses;
use crate::fixture::fixture;

/// A manifest has one encoding, except for key configurations that this version does not know and skips.
pub(super) fn manifest(data: &[u8]) {
    let Ok(manifest) = ServiceManifest::decode(data) else {
        return;
    };
    let encoded = manifest
        .encode()
        .expect("what was read can be written again");
    assert_eq!(ServiceManifest::decode(&encoded).as_ref(), Ok(&manifest));
    if raw_key_list(data) == KeyConfig::encode_list(&manifest.sealing_keys).ok() {
        assert_eq!(encoded, data);
    }
}

pub(super) fn manifest_seeds() -> Vec<Vec<u8>> {
    let good = fixture().manifest();
    let one_key = ServiceManifest {
        sealing_keys: good.sealing_keys[1..].to_vec(),
        ..good.clone()
    };
    let production = ServiceManifest {
        security_mode: attestation::SecurityMode::Production,
        ..one_key.clone()
    };
    let others = [one_key, production].map(|manifest| manifest.encode().unwrap());
    near_misses(&fixture().manifest_bytes)
        .into_iter()
        .chain(others)
        .collect()
}

/// Known configurations survive a round trip; unknown ones are skipped and never taken for known ones.
pub(super) fn key_list(data: &[u8]) {
    let Ok(configs) = KeyConfig::decode_list(data) else {
        return;
    };
    assert!(data.len() <= MAX_KEY_LIST);
    for config in &configs {
        assert_eq!(config.public_key.len(), config.kem.public_key_len());
        assert!(!config.symmetric.is_empty());
    }
    let encoded = KeyConfig::encode_list(&configs).expect("what was read can be written again");
    assert!(encoded.len() <= data.len());
    assert_eq!(KeyConfig::decode_list(&encoded), Ok(configs));
}

pub(super) fn key_list_seeds() -> Vec<Vec<u8>> {
    let configs = &fixture().manifest().sealing_keys;
    let mut seeds = near_misses(&KeyConfig::encode_list(&configs[1..]).unwrap());
    seeds.push(KeyConfig::encode_list(configs).unwrap());
    // An unknown mechanism, and a known one with unknown suites.
    seeds.push([&[0, 9, 7, 0x12, 0x34][..], &[0; 6]].concat());
    let mut unknown = KeyConfig::encode_list(&configs[1..]).unwrap();
    if let Some(aead) = unknown.last_mut() {
        *aead = 0xff;
    }
    seeds.push(unknown);
    seeds
}

/// Evidence has one encoding.
pub(super) fn evidence(data: &[u8]) {
    if let Ok(evidence) = Evidence::parse(data) {
        assert_eq!(evidence.encode(), data);
    }
}

pub(super) fn evidence_seeds() -> Vec<Vec<u8>> {
    let evidence = Evidence {
        document: &fixture().document,
        manifest: &fixture().manifest_bytes,
    };
    let empty = Evidence {
        document: &[],
        manifest: &[],
    };
    near_misses(&evidence.encode())
        .into_iter()
        .chain([empty.encode()])
        .collect()
}

/// The manifest's second value.
fn raw_key_list(manifest: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(manifest, Rules::Deterministic);
    reader.map().ok()?;
    for _ in 0..3 {
        reader.uint().ok()?;
    }
    reader.bytes().ok().map(<[u8]>::to_vec)
}
