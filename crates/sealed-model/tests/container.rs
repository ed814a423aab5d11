//! The format of a container, and every deviation that must be refused.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sealed_model::{
    CHUNK, ContainerError, DataKey, Digests, FIXED, FileEntry, FileNameError, Header, Manifest,
    Opener, Sealer, TAG,
};

const KEY: [u8; 32] = [7; 32];
const SALT: [u8; 32] = [9; 32];

type Files = Vec<(String, Vec<u8>)>;

/// Three chunks, the last not full; a file ends within the first.
fn files() -> Files {
    let weights = (0..2 * CHUNK + 1000)
        .map(|at| (at * 31 % 253) as u8)
        .collect();
    vec![
        ("config.json".to_owned(), b"{}".to_vec()),
        ("1_Pooling/config.json".to_owned(), b"{ }".to_vec()),
        ("model.safetensors".to_owned(), weights),
    ]
}

fn entries(files: &Files) -> Vec<FileEntry> {
    files
        .iter()
        .map(|(name, contents)| FileEntry::of(name, contents))
        .collect()
}

fn seal_as(manifest: Manifest, files: &Files, salt: &[u8; 32], key: &[u8; 32]) -> Vec<u8> {
    let order: Vec<_> = manifest
        .files()
        .iter()
        .map(|file| file.name.clone())
        .collect();
    let contents = |name: &String| {
        files
            .iter()
            .find(|(found, _)| found == name)
            .unwrap()
            .1
            .as_slice()
    };
    let plain: Vec<u8> = order.iter().flat_map(contents).copied().collect();
    let mut sealer = Sealer::new(manifest, salt, &DataKey::new(key)).unwrap();
    let mut container = sealer.header().to_vec();
    let mut at = 0;
    while let Some(length) = sealer.wants() {
        let mut chunk = plain[at..at + length].to_vec();
        at += length;
        sealer.seal(&mut chunk).unwrap();
        container.extend(chunk);
    }
    assert_eq!(container.len() as u64, sealer.container_length());
    container
}

fn seal(files: &Files) -> Vec<u8> {
    seal_as(Manifest::new(entries(files)).unwrap(), files, &SALT, &KEY)
}

/// Opens like a reader: header, key, chunks in order, digests; returns all plaintext.
fn open(container: &[u8], key: &[u8; 32]) -> Result<(Manifest, Vec<u8>), ContainerError> {
    let (header, start) = Header::read(container)?;
    let opener = Opener::new(header, &DataKey::new(key))?;
    let mut digests = Digests::new(opener.header().manifest());
    let mut rest = container[start..].to_vec();
    let mut plain = Vec::new();
    for index in 0..opener.header().chunks() {
        let length = opener.header().chunk_length(index).unwrap();
        let tail = rest.split_off(length.min(rest.len()));
        let opened = opener.open(index, &mut rest)?;
        digests.update(opened)?;
        plain.extend_from_slice(opened);
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(ContainerError::TrailingBytes);
    }
    digests.finish()?;
    Ok((opener.header().manifest().clone(), plain))
}

fn code(container: &[u8]) -> &'static str {
    open(container, &KEY)
        .err()
        .map_or("accepted", |error| error.code())
}

#[test]
fn sealed_files_are_opened_small_ones_first() {
    let (manifest, plain) = open(&seal(&files()), &KEY).unwrap();
    let names: Vec<_> = manifest
        .files()
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["config.json", "1_Pooling/config.json", "model.safetensors"]
    );
    assert!(plain.starts_with(b"{}{ }") && plain[5..] == files()[2].1);
}

/// Another implementation must make exactly these bytes: a changed format fails here.
#[test]
fn a_container_depends_only_on_files_salt_and_key() {
    assert_eq!(seal(&files()), seal(&files()));
    let tiny = vec![("a".to_owned(), b"hello".to_vec())];
    let container = seal(&tiny);
    assert_eq!(container.len(), FIXED + 2 + 2 + 1 + 8 + 32 + TAG + 5 + TAG);
    assert_eq!(
        &container[..20],
        b"\x89CSM\r\n\x1a\n\0\x01\0\x01\0\x10\0\0\0\0\0\x2d"
    );
    assert_eq!(container[20..52], SALT);
    assert_eq!(&container[84..97], b"\0\x01\0\x01a\0\0\0\0\0\0\0\x05");
    let other = seal_as(
        Manifest::new(entries(&tiny)).unwrap(),
        &tiny,
        &[8; 32],
        &KEY,
    );
    assert_ne!(container[97 + 32..], other[97 + 32..]);
}

#[test]
fn the_digest_of_the_manifest_follows_its_definition() {
    let mut entry = FileEntry::of("b/c", b"");
    entry.sha256 = [0xab; 32];
    let other = FileEntry {
        name: "a".to_owned(),
        ..entry.clone()
    };
    let digest = Manifest::new(vec![entry, other]).unwrap().digest();
    let line = |name: &str| format!("{name}\0{}\n", "ab".repeat(32));
    let expected = FileEntry::of("", (line("a") + &line("b/c")).as_bytes()).sha256;
    assert_eq!(digest, expected);
}

#[test]
fn every_error_has_its_code() {
    let good = seal(&files());
    let (header, start) = Header::read(&good).unwrap();
    let chunk = CHUNK + TAG;
    let changed = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        bad
    };
    let swapped = |a: usize, b: usize| {
        let mut bad = good[..start].to_vec();
        let part = |index: usize| {
            &good[start + index * chunk..(start + (index + 1) * chunk).min(good.len())]
        };
        let mut order = [0, 1, 2];
        order.swap(a, b);
        order.iter().for_each(|index| bad.extend(part(*index)));
        bad
    };
    let other_salt = seal_as(header.manifest().clone(), &files(), &[8; 32], &KEY);
    let other_key = seal_as(header.manifest().clone(), &files(), &SALT, &[6; 32]);
    let spliced = [&other_salt[..start], &good[start..]].concat();
    let doubled = [&good[..start + chunk], &good[start..]].concat();
    for (what, bad, expected) in [
        ("nothing", Vec::new(), "CONTAINER_NOT_ONE"),
        (
            "another file",
            b"PK\x03\x04 a zip archive".to_vec(),
            "CONTAINER_NOT_ONE",
        ),
        ("a transfer as text", changed(5, b' '), "CONTAINER_NOT_ONE"),
        ("a later version", changed(9, 2), "CONTAINER_VERSION"),
        ("another suite", changed(11, 2), "CONTAINER_SUITE"),
        ("other chunks", changed(13, 0x20), "CONTAINER_CHUNK_SIZE"),
        (
            "a huge header",
            changed(16, 0xff),
            "CONTAINER_HEADER_TOO_LARGE",
        ),
        (
            "a shorter manifest",
            changed(19, good[19] - 1),
            "CONTAINER_HEADER_MALFORMED",
        ),
        (
            "a longer manifest",
            changed(19, good[19] + 1),
            "CONTAINER_HEADER_MALFORMED",
        ),
        ("more files", changed(85, 4), "CONTAINER_HEADER_MALFORMED"),
        ("fewer files", changed(85, 2), "CONTAINER_HEADER_MALFORMED"),
        ("no files", changed(85, 0), "CONTAINER_HEADER_MALFORMED"),
        (
            "a climbing name",
            {
                let mut bad = good.clone();
                bad[88..92].copy_from_slice(b"../x");
                bad
            },
            "CONTAINER_BAD_PATH",
        ),
        (
            "a name of two lines",
            changed(88, b'\n'),
            "CONTAINER_BAD_PATH",
        ),
        (
            "a name that is not text",
            changed(88, 0xff),
            "CONTAINER_BAD_PATH",
        ),
        ("another salt", changed(20, 0), "CONTAINER_WRONG_KEY"),
        (
            "another commitment",
            changed(52, good[52] ^ 1),
            "CONTAINER_WRONG_KEY",
        ),
        ("another key", other_key, "CONTAINER_WRONG_KEY"),
        (
            "another name",
            changed(88, b'k'),
            "CONTAINER_HEADER_ALTERED",
        ),
        (
            "another digest",
            changed(start - TAG - 1, good[start - TAG - 1] ^ 1),
            "CONTAINER_HEADER_ALTERED",
        ),
        (
            "another header tag",
            changed(start - 1, good[start - 1] ^ 1),
            "CONTAINER_HEADER_ALTERED",
        ),
        (
            "the header of another container",
            spliced,
            "CONTAINER_CHUNK_ALTERED",
        ),
        (
            "a changed byte",
            changed(start + 5, good[start + 5] ^ 1),
            "CONTAINER_CHUNK_ALTERED",
        ),
        (
            "a changed tag",
            changed(good.len() - 1, good[good.len() - 1] ^ 1),
            "CONTAINER_CHUNK_ALTERED",
        ),
        (
            "two chunks exchanged",
            swapped(0, 1),
            "CONTAINER_CHUNK_ORDER",
        ),
        ("a chunk twice", doubled, "CONTAINER_CHUNK_ORDER"),
        (
            "the last chunk earlier",
            swapped(1, 2),
            "CONTAINER_CHUNK_ALTERED",
        ),
        (
            "no last chunk",
            good[..start + 2 * chunk].to_vec(),
            "CONTAINER_TRUNCATED",
        ),
        ("no chunks", good[..start].to_vec(), "CONTAINER_TRUNCATED"),
        ("half a header", good[..100].to_vec(), "CONTAINER_TRUNCATED"),
        (
            "a byte less",
            good[..good.len() - 1].to_vec(),
            "CONTAINER_TRUNCATED",
        ),
        (
            "a byte more",
            [&good[..], &[0]].concat(),
            "CONTAINER_TRAILING_BYTES",
        ),
    ] {
        assert_eq!(code(&bad), expected, "{what}");
    }
    assert_eq!(code(&good), "accepted");
}

#[test]
fn an_altered_chunk_is_left_sealed_and_a_misplaced_one_is_cleared() {
    let good = seal(&files());
    let (header, start) = Header::read(&good).unwrap();
    let opener = Opener::new(header, &DataKey::new(&KEY)).unwrap();
    let mut chunk = good[start..start + CHUNK + TAG].to_vec();
    chunk[0] ^= 1;
    let before = chunk.clone();
    assert_eq!(
        opener.open(0, &mut chunk),
        Err(ContainerError::ChunkAltered(0))
    );
    assert!(chunk == before);
    chunk[0] ^= 1;
    let order = ContainerError::ChunkOrder {
        at: 1,
        sealed_as: 0,
    };
    assert_eq!(opener.open(1, &mut chunk), Err(order));
    assert!(chunk[..CHUNK].iter().all(|byte| *byte == 0));
    assert_eq!(
        opener.open(3, &mut chunk),
        Err(ContainerError::TrailingBytes)
    );
}

#[test]
fn sealed_bytes_that_the_manifest_does_not_name_are_refused() {
    let mut entries = entries(&files());
    entries[0].sha256[0] ^= 1;
    let lying = seal_as(Manifest::new(entries).unwrap(), &files(), &SALT, &KEY);
    let error = open(&lying, &KEY).unwrap_err();
    assert!(
        matches!(&error, ContainerError::FileDigest { name, .. } if name == "config.json"),
        "{error}"
    );
}

#[test]
fn file_sets_are_bounded_and_plain() {
    let entry = |name: &str, size| FileEntry {
        name: name.to_owned(),
        size,
        sha256: [0; 32],
    };
    let set = |files| Manifest::new(files).map(|_| ()).unwrap_err();
    for (name, why) in [
        ("", FileNameError::Length),
        (&"x".repeat(256) as &str, FileNameError::Length),
        ("/etc/passwd", FileNameError::Part),
        ("a//b", FileNameError::Part),
        ("a/", FileNameError::Part),
        ("..", FileNameError::Part),
        ("a/../b", FileNameError::Part),
        ("./a", FileNameError::Part),
        ("a\\b", FileNameError::Character),
        ("a\0b", FileNameError::Character),
        ("a\u{85}b", FileNameError::Character),
    ] {
        assert_eq!(
            set(vec![entry(name, 1)]),
            ContainerError::BadPath(why),
            "{name:?}"
        );
    }
    assert_eq!(
        set(vec![entry("a", 1), entry("a", 2)]).code(),
        "CONTAINER_DUPLICATE_NAME"
    );
    assert_eq!(set(Vec::new()).code(), "CONTAINER_FILE_SET");
    assert_eq!(
        set((0..1025).map(|at| entry(&at.to_string(), 1)).collect()).code(),
        "CONTAINER_FILE_SET"
    );
    assert_eq!(
        set(vec![entry("a", u64::MAX), entry("b", u64::MAX)]).code(),
        "CONTAINER_FILE_SET"
    );
    assert_eq!(set(vec![entry("a", 1 << 53)]).code(), "CONTAINER_FILE_SET");
    let long = |at: usize| entry(&format!("{at:0>250}"), 1);
    let manifest = Manifest::new((0..300).map(long).collect()).unwrap();
    let sealer = Sealer::new(manifest, &SALT, &DataKey::new(&KEY));
    assert_eq!(sealer.err().unwrap().code(), "CONTAINER_HEADER_TOO_LARGE");
}

#[test]
fn files_in_another_order_are_another_container_and_refused() {
    let pair = vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])];
    let mut container = seal(&pair);
    // Two entries of 43 bytes.
    let (first, second) = (86..129, 129..172);
    let moved: Vec<u8> = [&container[second.clone()], &container[first.clone()]].concat();
    container[first.start..second.end].copy_from_slice(&moved);
    assert_eq!(code(&container), "CONTAINER_FILE_ORDER");
    container[129 + 2] = b'b';
    assert_eq!(code(&container), "CONTAINER_DUPLICATE_NAME");
}

#[test]
fn empty_files_are_files() {
    for set in [
        vec![("a", "")],
        vec![("a", ""), ("b", "")],
        vec![("a", ""), ("b", "x")],
    ] {
        let files: Files = set
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
            .collect();
        let (manifest, _) = open(&seal(&files), &KEY).unwrap();
        assert_eq!(manifest.files().len(), files.len());
    }
}

#[test]
fn a_sealer_takes_the_chunks_that_it_announced() {
    let manifest = Manifest::new(entries(&files())).unwrap();
    let mut sealer = Sealer::new(manifest, &SALT, &DataKey::new(&KEY)).unwrap();
    assert_eq!(
        sealer.seal(&mut vec![0; CHUNK - 1]).unwrap_err().code(),
        "CONTAINER_CHUNK_LENGTH"
    );
    for _ in 0..2 {
        sealer.seal(&mut vec![0; CHUNK]).unwrap();
    }
    sealer.seal(&mut vec![0; 1005]).unwrap();
    assert_eq!(sealer.wants(), None);
    assert_eq!(
        sealer.seal(&mut Vec::new()).unwrap_err().code(),
        "CONTAINER_CHUNK_LENGTH"
    );
}

fn small_files() -> impl Strategy<Value = Files> {
    prop::collection::btree_map(
        "[a-z]{1,8}(/[a-z]{1,3})?",
        prop::collection::vec(any::<u8>(), 0..300),
        1..6,
    )
    .prop_map(|files| files.into_iter().collect())
}

proptest! {
    #[test]
    fn any_file_set_comes_back(files in small_files(), key: [u8; 32], salt: [u8; 32]) {
        let manifest = Manifest::new(entries(&files)).unwrap();
        let container = seal_as(manifest.clone(), &files, &salt, &key);
        let (read, plain) = open(&container, &key).unwrap();
        prop_assert_eq!(&read, &manifest);
        prop_assert_eq!(plain.len() as u64, manifest.total());
        prop_assert_eq!(Header::length(&container).unwrap(), Header::read(&container).unwrap().1);
    }

    #[test]
    fn no_changed_byte_is_accepted(files in small_files(), at: prop::sample::Index, bit in 0_u8..8) {
        let mut container = seal(&files);
        let at = at.index(container.len());
        container[at] ^= 1 << bit;
        prop_assert!(open(&container, &KEY).is_err(), "byte {}", at);
    }

    #[test]
    fn no_prefix_is_accepted(files in small_files(), at: prop::sample::Index) {
        let container = seal(&files);
        prop_assert!(open(&container[..at.index(container.len())], &KEY).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let start = b"\x89CSM\r\n\x1a\n\0\x01\0\x01\0\x10\0\0\0\0\0";
        for bytes in [bytes.clone(), [start, bytes.as_slice()].concat()] {
            if let Ok((header, length)) = Header::read(&bytes) {
                prop_assert!(length <= bytes.len());
                prop_assert!(header.container_length() >= length as u64);
            }
        }
    }
}
