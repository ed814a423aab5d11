//! Tests the writer with the reader, the reader with damaged images, and signatures.
#![allow(clippy::unwrap_used)]

use base64ct::{Base64, Encoding};
use image::eif::BuildMetadata;
use image::{Digest, Eif, EifError, EifSigner, Metadata, SignatureError, signature};
use p384::ecdsa::signature::Signer as _;
use p384::ecdsa::{Signature, SigningKey};
use proptest::prelude::*;
use serde_json::{Value, json};

const HEADER: usize = 548;

fn sample(kernel: Vec<u8>, command_line: String, ramdisks: Vec<Vec<u8>>) -> Eif {
    Eif {
        kernel,
        command_line,
        ramdisks,
        metadata: Metadata {
            name: "clearseal".to_owned(),
            version: "1".to_owned(),
            build: BuildMetadata {
                time: "2026-01-01T00:00:00Z".to_owned(),
                tool: "t".to_owned(),
                tool_version: "1".to_owned(),
                system: "Linux".to_owned(),
                kernel: "6.12".to_owned(),
            },
            docker: json!({}),
            custom: json!({}),
        },
        signature: None,
    }
}

fn small() -> Eif {
    sample(
        b"kernel".to_vec(),
        "console=ttyS0".to_owned(),
        vec![b"boot".to_vec(), b"app".to_vec()],
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        kernel in proptest::collection::vec(any::<u8>(), 0..2000),
        command_line in "[ -~]{0,100}",
        ramdisks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..500), 1..=28),
    ) {
        let image = sample(kernel, command_line, ramdisks);
        let file = image.to_bytes().unwrap();
        prop_assert_eq!(Eif::parse(&file).unwrap(), image.clone());
        // A second encoding is identical.
        prop_assert_eq!(image.to_bytes().unwrap(), file);
    }

    #[test]
    fn other_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
        prop_assert!(Eif::parse(&bytes).is_err());
        prop_assert!(signature::measure(&bytes).is_err());
    }
}

#[test]
fn every_changed_bit_and_every_cut_is_refused() {
    let file = small().to_bytes().unwrap();
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut changed = file.clone();
            changed[at] ^= 1 << bit;
            assert!(Eif::parse(&changed).is_err(), "byte {at}, bit {bit}");
        }
        assert!(Eif::parse(&file[..at]).is_err(), "{at} bytes");
    }
}

/// Corrects the checksum of a changed file.
fn repair_checksum(mut file: Vec<u8>) -> Vec<u8> {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&file[..HEADER - 4]);
    crc.update(&file[HEADER..]);
    let sum = crc.finalize().to_be_bytes();
    file[HEADER - 4..HEADER].copy_from_slice(&sum);
    file
}

#[test]
fn a_repaired_checksum_hides_no_change() {
    let image = small();
    let file = image.to_bytes().unwrap();
    let metadata = file
        .windows(9)
        .position(|window| window == b"ImageName")
        .unwrap();
    let (mut refused, mut measured_otherwise) = (0, 0);
    for at in (0..HEADER - 4).chain(HEADER..file.len()) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        match Eif::parse(&repair_checksum(changed)) {
            Err(_) => refused += 1,
            Ok(other) if other.measure() != image.measure() => measured_otherwise += 1,
            // Not measured: metadata, and the header's two recommendations and unused field.
            Ok(other) => assert!(
                other.metadata != image.metadata
                    || (8..24).contains(&at)
                    || (540..544).contains(&at)
                    || at >= metadata
                    || (28 + 8 * 5..540).contains(&at),
                "byte {at}"
            ),
        }
    }
    assert!(refused > 40 && measured_otherwise >= 6 + 13 + 4 + 3);
}

/// `nitro-cli` describes the container, and writes `null` where `--metadata` is not given.
#[test]
fn metadata_of_other_builders_is_read() {
    for custom in [Value::Null, json!({ "team": "x", "list": [1] })] {
        let mut image = small();
        image.metadata.docker = json!({ "Architecture": "amd64", "Config": { "Env": ["A=b"] } });
        image.metadata.custom = custom;
        assert_eq!(Eif::parse(&image.to_bytes().unwrap()), Ok(image));
    }
}

#[test]
fn an_image_for_arm_is_refused_by_name() {
    let mut file = small().to_bytes().unwrap();
    file[7] = 1;
    let refused = Eif::parse(&repair_checksum(file.clone()));
    assert_eq!(refused, Err(EifError::Architecture));
    file[7] = 2;
    let refused = Eif::parse(&repair_checksum(file));
    assert!(matches!(refused, Err(EifError::Field { value: 2, .. })));
}

#[test]
fn forged_sizes_and_sections_are_refused() {
    let file = small().to_bytes().unwrap();
    let change = |at: usize, bytes: &[u8]| {
        let mut changed = file.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        Eif::parse(&repair_checksum(changed)).unwrap_err()
    };
    // The kernel's size in the table, in the section's head, and in both.
    assert!(matches!(change(284, &[0xff; 8]), EifError::Field { .. }));
    assert!(matches!(
        change(HEADER + 4, &[0xff; 8]),
        EifError::Field { .. }
    ));
    let mut both = file.clone();
    both[284..292].copy_from_slice(&[0xff; 8]);
    both[HEADER + 4..HEADER + 12].copy_from_slice(&[0xff; 8]);
    assert_eq!(
        Eif::parse(&repair_checksum(both)),
        Err(EifError::Truncated("a section"))
    );
    assert!(matches!(
        change(HEADER, &[0, 2]),
        EifError::Sections(_) | EifError::Text(_)
    ));
    assert!(matches!(change(HEADER, &[0, 9]), EifError::Field { .. }));
    assert!(matches!(change(26, &[0, 33]), EifError::Field { .. }));
    assert!(matches!(change(26, &[0, 4]), EifError::Sections(_)));
    let longer = [&file[..], b"x"].concat();
    assert!(matches!(
        Eif::parse(&repair_checksum(longer)),
        Err(EifError::Sections(_))
    ));
}

#[test]
fn an_image_has_ramdisks_but_not_too_many() {
    for count in [0, 29] {
        let image = sample(vec![], String::new(), vec![vec![]; count]);
        assert_eq!(image.to_bytes(), Err(EifError::Ramdisks(count)));
    }
}

/// A certificate of the key, created by the forge, and the key in OpenSSL's form.
fn credentials(seed: u8) -> (String, String) {
    let key = SigningKey::from_slice(&[seed; 48]).unwrap();
    let spki = forge::der::ec_public_key(
        forge::der::P384,
        key.verifying_key().to_sec1_point(false).as_bytes(),
    );
    let certificate = certificate(&spki, &key);
    let pem = |label: &str, der: &[u8]| {
        let lines = Base64::encode_string(der);
        let lines: Vec<&str> = lines
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            lines.join("\n")
        )
    };
    let private = p384::SecretKey::from(&key)
        .to_sec1_pem(Default::default())
        .unwrap();
    (private.to_string(), pem("CERTIFICATE", &certificate))
}

/// A self-signed certificate with only the fields that RFC 5280 §4.1 requires.
fn certificate(spki: &[u8], key: &SigningKey) -> Vec<u8> {
    use forge::der::{COMMON_NAME, ECDSA_SHA384, bit_string, integer, name, sequence, time};
    let subject = name(&[(COMMON_NAME, "signer of images")]);
    let validity = sequence(&[&time(1_700_000_000), &time(1_900_000_000)]);
    let version = forge::der::tlv(0xa0, &integer(&[2]));
    let to_sign = sequence(&[
        &version,
        &integer(&[1]),
        ECDSA_SHA384,
        &subject,
        &validity,
        &subject,
        spki,
    ]);
    let signature: Signature = key.sign(&to_sign);
    let signature = signature.to_der();
    sequence(&[&to_sign, ECDSA_SHA384, &bit_string(signature.as_bytes())])
}

#[test]
fn a_signature_is_over_one_image_and_gives_pcr8() {
    let (key, certificate) = credentials(7);
    let signer = EifSigner::from_pem(&key, &certificate).unwrap();
    let mut image = small();
    let pcr0 = image.measure().pcr0;
    let section = signer.sign(&pcr0);
    assert_eq!(section, signer.sign(&pcr0));
    let pcr8 = signature::verify(&section, &pcr0).unwrap();
    image.signature = Some(section.clone());
    let again = Eif::parse(&image.to_bytes().unwrap()).unwrap();
    assert_eq!(again.measure().pcr8, Some(pcr8));
    assert_eq!(again.measure().pcr0, pcr0);

    let other = Digest::of(&[b"other"]);
    assert_eq!(
        signature::verify(&section, &other),
        Err(SignatureError::Invalid)
    );
    let name = b"\x69signature\x98";
    let end = section
        .windows(name.len())
        .position(|window| window == name)
        .unwrap();
    let pem = 25..end;
    for at in 0..section.len() {
        let mut changed = section.clone();
        changed[at] ^= 1;
        assert!(signature::verify(&section[..at], &pcr0).is_err());
        // PEM has several encodings of one certificate; any other certificate gives another PCR8.
        let same = signature::verify(&changed, &pcr0) == Ok(pcr8);
        assert!(!same || pem.contains(&at), "byte {at}");
    }
}

#[test]
fn a_key_and_another_keys_certificate_are_refused() {
    let ((key, _), (_, certificate)) = (credentials(7), credentials(8));
    assert_eq!(
        EifSigner::from_pem(&key, &certificate).err(),
        Some(SignatureError::OtherKey)
    );
    assert_eq!(
        EifSigner::from_pem("no", &certificate).err(),
        Some(SignatureError::Key)
    );
    assert_eq!(
        EifSigner::from_pem(&key, "no").err(),
        Some(SignatureError::Certificate)
    );
}
