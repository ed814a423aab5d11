//! The sealed container of a model: arbitrary headers, and chunks after a genuine header.

use sealed_model::{DataKey, Digests, FileEntry, Header, Manifest, Opener, Sealer};

const KEY: [u8; 32] = [0x5c; 32];

/// Everything that is opened equals what was sealed; all parsed header fields are within their limits.
pub(super) fn run(data: &[u8]) {
    let length = Header::length(data);
    let Ok((header, end)) = Header::read(data) else {
        return;
    };
    assert_eq!(length, Ok(end));
    assert!(end <= data.len() && header.container_length() >= end as u64);
    assert_eq!(header.chunk_offset(0), end as u64);
    assert!(header.chunk_length(header.chunks()).is_none());
    let manifest = header.manifest().clone();
    assert_eq!(
        Manifest::new(manifest.files().to_vec()),
        Ok(manifest.clone())
    );
    let salt = *header.salt();
    let Ok(opener) = Opener::new(header, &DataKey::new(&KEY)) else {
        return;
    };
    // Only containers sealed with this key get here, so the header is the one for this manifest and salt.
    let sealer = Sealer::new(manifest, &salt, &DataKey::new(&KEY)).expect("it was sealed before");
    assert_eq!(sealer.header(), &data[..end]);
    let mut rest = data[end..].to_vec();
    let mut digests = Digests::new(opener.header().manifest());
    for index in 0..opener.header().chunks() {
        let length = opener
            .header()
            .chunk_length(index)
            .unwrap_or(0)
            .min(rest.len());
        let tail = rest.split_off(length);
        let Ok(plain) = opener.open(index, &mut rest) else {
            return;
        };
        digests
            .update(plain)
            .expect("only what the manifest names was sealed");
        rest = tail;
    }
    digests.finish().expect("every chunk was opened");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let sets: [&[(&str, &[u8])]; 4] = [
        &[("a", b"hello")],
        &[
            ("config.json", b"{}"),
            ("1_Pooling/config.json", b"{ }"),
            ("model.safetensors", &[7; 300]),
        ],
        &[("empty", b"")],
        &[("a", b"1"), ("b", b"2"), ("c", b"")],
    ];
    let sealed = sets.map(|files| {
        let entries = files
            .iter()
            .map(|(name, contents)| FileEntry::of(name, contents))
            .collect();
        let manifest = Manifest::new(entries).expect("plain names");
        let find = |name: &str| {
            files
                .iter()
                .find(|(found, _)| *found == name)
                .map_or(&[][..], |file| file.1)
        };
        let mut plain: Vec<u8> = manifest
            .files()
            .iter()
            .flat_map(|file| find(&file.name))
            .copied()
            .collect();
        let mut sealer =
            Sealer::new(manifest, &[3; 32], &DataKey::new(&KEY)).expect("a short header");
        sealer.seal(&mut plain).expect("one chunk");
        [sealer.header(), &plain].concat()
    });
    sealed
        .iter()
        .flat_map(|container| super::near_misses(container))
        .collect()
}
