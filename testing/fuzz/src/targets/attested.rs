//! What travels beside a document: manifest, key list, and the map that holds both.

use super::near_misses;
use crate::scene::scene;
use attestation::cbor::{Reader, Rules};
use attestation::{Evidence, KeyConfig, MAX_KEY_LIST, ServiceManifest};

/// A manifest has one encoding, but for key configurations that this version does not know and so skips.
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
    let good = &scene().manifest;
    let one_key = ServiceManifest {
        sealing_keys: good.sealing_keys[1..].to_vec(),
        ..good.clone()
    };
    let production = ServiceManifest {
        security_mode: attestation::SecurityMode::Production,
        ..one_key.clone()
    };
    let others = [one_key, production].map(|manifest| manifest.encode().unwrap());
    near_misses(&scene().manifest_bytes)
        .into_iter()
        .chain(others)
        .collect()
}

/// Known configurations survive the round trip; the rest is skipped and never mistaken for one.
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
    let configs = &scene().manifest.sealing_keys;
    let mut seeds = near_misses(&KeyConfig::encode_list(&configs[1..]).unwrap());
    seeds.push(KeyConfig::encode_list(configs).unwrap());
    // A mechanism that nobody here knows, and a known one with suites that nobody knows.
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
        document: &scene().document,
        manifest: &scene().manifest_bytes,
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

/// The second value of a manifest that was read.
fn raw_key_list(manifest: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(manifest, Rules::Deterministic);
    reader.map().ok()?;
    for _ in 0..3 {
        reader.uint().ok()?;
    }
    reader.bytes().ok().map(<[u8]>::to_vec)
}
