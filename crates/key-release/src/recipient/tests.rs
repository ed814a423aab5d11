//! Opens envelopes of KMS, of OpenSSL and of the forge, and refuses edited ones.

use std::path::Path;
use std::process::Command;

use base64ct::{Base64, Encoding};
use forge::envelope::{Envelope as Forged, Shape};
use rand_chacha::ChaCha20Rng;
use rand_core::{Infallible, Rng, SeedableRng, TryCryptoRng, TryRng};
use rsa::pkcs1::EncodeRsaPrivateKey;

use super::*;
use crate::envelope::{MAX_ENVELOPE, Part};

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// A private key in PKCS #1, from which a test makes as many equal [`RecipientKey`]s as it needs.
struct Fixture {
    pkcs1: Vec<u8>,
    spki: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        let key = RecipientKey::generate(&mut rng(1)).unwrap();
        Self {
            pkcs1: key.private.to_pkcs1_der().unwrap().as_bytes().to_vec(),
            spki: key.spki.clone(),
        }
    }

    fn key(&self) -> RecipientKey {
        RecipientKey::from_pkcs1(&self.pkcs1)
    }

    fn seal(&self, plaintext: &[u8], shape: Shape) -> Forged {
        Forged::seal(&self.spki, plaintext, shape, &mut rng(2)).unwrap()
    }

    fn open(&self, envelope: &[u8]) -> Result<[u8; 32], KeyReleaseRefused> {
        let opened = self.key().open(envelope, &mut rng(3));
        opened.map(|key| *key.expose())
    }
}

/// An envelope of KMS whose key is known.
struct KmsEnvelope {
    envelope: Vec<u8>,
    fixture: Fixture,
    plaintext: [u8; 32],
}

fn kms_envelope() -> Option<KmsEnvelope> {
    let file = forge::shared_vectors()?.join("kms/edgebit_data_key.json");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let base64 = |name: &str| Base64::decode_vec(json[name].as_str().unwrap());
    let pkcs1 = base64("rsa_key_pkcs1_der_base64").unwrap();
    let spki = RecipientKey::from_pkcs1(&pkcs1).spki;
    let plaintext = base16ct::lower::decode_vec(json["plaintext_hex"].as_str().unwrap());
    Some(KmsEnvelope {
        envelope: base64("envelope_base64").unwrap(),
        fixture: Fixture { pkcs1, spki },
        plaintext: plaintext.unwrap().try_into().unwrap(),
    })
}

#[test]
fn a_genuine_envelope_is_opened_with_its_key() {
    let Some(kms) = kms_envelope() else {
        return;
    };
    assert_eq!(kms.fixture.open(&kms.envelope), Ok(kms.plaintext));
}

#[test]
fn genuine_envelopes_are_parsed_and_the_forge_writes_the_same_bytes() {
    let Some(folder) = forge::shared_vectors() else {
        return;
    };
    let mut genuine: Vec<_> = (1..=4)
        .map(|number| std::fs::read(folder.join(format!("kms/envelope_{number}.ber"))).unwrap())
        .collect();
    genuine.extend(kms_envelope().map(|kms| kms.envelope));
    let mut shapes = Vec::new();
    for bytes in &genuine {
        let envelope = Envelope::parse(bytes).unwrap();
        let mut content = Vec::new();
        let mut pieces = 0;
        for piece in envelope.content.pieces() {
            content.extend_from_slice(piece);
            pieces += 1;
        }
        assert_eq!(content.len(), envelope.content_len());
        let written: Vec<Shape> = Shape::ALL
            .into_iter()
            .filter(|shape| {
                let forged = Forged {
                    recipient: envelope.recipient.to_vec(),
                    wrapped_key: envelope.wrapped_key.to_vec(),
                    iv: *envelope.iv,
                    content: content.clone(),
                    shape: *shape,
                };
                &forged.encode() == bytes
            })
            .collect();
        assert!(!written.is_empty(), "{} bytes", bytes.len());
        shapes.push((pieces, written));
    }
    let seen = |shape| shapes.iter().any(|(_, written)| written.contains(&shape));
    assert!(Shape::ALL.into_iter().all(seen), "{shapes:?}");
    assert!(shapes.iter().any(|(pieces, _)| *pieces > 1), "{shapes:?}");
}

#[test]
fn every_shape_is_opened() {
    let fixture = Fixture::new();
    for shape in Shape::ALL {
        let envelope = fixture.seal(&[7; 32], shape).encode();
        assert_eq!(fixture.open(&envelope), Ok([7; 32]), "{shape:?}");
        if shape == Shape::OnePiece {
            assert_eq!(envelope.len(), 493);
        }
    }
}

#[test]
fn pieces_of_any_size_are_put_together() {
    let fixture = Fixture::new();
    let forged = fixture.seal(&[7; 32], Shape::OnePiece);
    let whole = forge::der::octet_string(&forged.content);
    for cut in 1..forged.content.len() {
        let (one, two) = forged.content.split_at(cut);
        let two = [forge::der::octet_string(one), forge::der::octet_string(two)].concat();
        let envelope = replace(&forged.encode(), &whole, &two);
        assert_eq!(fixture.open(&envelope), Ok([7; 32]), "{cut}");
    }
}

#[test]
fn every_fault_inside_has_the_same_error() {
    let fixture = Fixture::new();
    let good = fixture.seal(&[7; 32], Shape::OnePiece);
    let other = RecipientKey::generate(&mut rng(9)).unwrap();
    let seal_with = |content_key: &[u8]| {
        let key = RecipientKey::from_pkcs1(&fixture.pkcs1);
        let key = key.private.as_public_key();
        Forged::seal_with(
            key,
            &fixture.spki,
            content_key,
            &[7; 32],
            Shape::OnePiece,
            &mut rng(4),
        )
        .unwrap()
    };
    // The unchanged case succeeds, so each failure below has the named cause.
    assert_eq!(fixture.open(&seal_with(&[5; 32]).encode()), Ok([7; 32]));
    let to_other = Forged::seal(
        other.public_key_der(),
        &[7; 32],
        Shape::OnePiece,
        &mut rng(5),
    )
    .unwrap();
    let cases = [
        ("for another key", to_other.clone()),
        (
            "encrypted to another key, under this one's name",
            Forged {
                recipient: good.recipient.clone(),
                ..to_other
            },
        ),
        (
            "under another key's name",
            Forged {
                recipient: vec![0; 32],
                ..good.clone()
            },
        ),
        (
            "an encrypted key above the modulus",
            Forged {
                wrapped_key: vec![0xff; 256],
                ..good.clone()
            },
        ),
        (
            "an encrypted key of zeros",
            Forged {
                wrapped_key: vec![0; 256],
                ..good.clone()
            },
        ),
        ("a content key of 16 bytes", seal_with(&[5; 16])),
        ("a content key of 31 bytes", seal_with(&[5; 31])),
        ("a content key of 33 bytes", seal_with(&[5; 33])),
        ("no content key", seal_with(&[])),
        ("31 bytes", fixture.seal(&[7; 31], Shape::OnePiece)),
        ("47 bytes", fixture.seal(&[7; 47], Shape::OnePiece)),
        ("no byte", fixture.seal(&[], Shape::Primitive)),
        ("48 bytes", fixture.seal(&[7; 48], Shape::Pieces)),
        ("4,096 bytes", fixture.seal(&[7; 4096], Shape::Pieces)),
    ];
    for (case, forged) in cases {
        assert!(Envelope::parse(&forged.encode()).is_ok(), "{case}");
        assert_eq!(
            fixture.open(&forged.encode()),
            Err(KeyReleaseRefused),
            "{case}"
        );
    }
}

/// Padding of another length, which PKCS #7 allows, is refused: there is no padding oracle.
#[test]
fn only_a_whole_block_of_padding_is_accepted() {
    let fixture = Fixture::new();
    let good = fixture.seal(&[7; 32], Shape::OnePiece);
    let mut accepted = 0;
    for last in 1..=255_u8 {
        let mut edited = good.clone();
        // CBC: flipping bits of one block flips the same bits of the next one's plaintext.
        edited.content[31] ^= 0x10 ^ last;
        accepted += u32::from(fixture.open(&edited.encode()).is_ok());
    }
    // Only 0x10, which changes nothing.
    assert_eq!(accepted, 1);
}

/// A thousand edits of a genuine envelope. With CBC, an edit of the IV or of the first block changes the data key and not the
/// padding. Such a key differs from the genuine one, and the model's container refuses it.
#[test]
fn a_thousand_edited_envelopes_have_one_error_and_one_attempt_each() {
    let KmsEnvelope {
        envelope,
        fixture,
        plaintext,
    } = kms_envelope().unwrap_or_else(|| {
        let fixture = Fixture::new();
        KmsEnvelope {
            envelope: fixture.seal(&[7; 32], Shape::OnePiece).encode(),
            fixture,
            plaintext: [7; 32],
        }
    });
    let malleable = {
        let read = Envelope::parse(&envelope).unwrap();
        let content: [u8; 48] = read.content().unwrap();
        let iv = position(&envelope, read.iv);
        let first = position(&envelope, &content[..16]);
        move |at: usize| (iv..iv + 16).contains(&at) || (first..first + 16).contains(&at)
    };
    let mut edits = rng(6);
    let (mut refused, mut changed_keys) = (0, 0);
    for _ in 0..1000 {
        let mut edited = envelope.clone();
        let at = edits.next_u32() as usize % edited.len();
        let kind = edits.next_u32() % 5;
        match kind {
            0 | 1 => edited[at] ^= 1 << (edits.next_u32() % 8),
            2 => edited.truncate(at),
            3 => edited.insert(at, (edits.next_u32() % 256) as u8),
            _ => {
                edited.remove(at);
            }
        }
        match fixture.open(&edited) {
            Err(KeyReleaseRefused) => refused += 1,
            Ok(key) => {
                assert!(kind < 2 && malleable(at), "kind {kind} at {at}");
                assert_ne!(key, plaintext, "kind {kind} at {at}");
                changed_keys += 1;
            }
        }
    }
    assert_eq!(refused + changed_keys, 1000);
    assert!(
        refused > 900 && changed_keys > 0,
        "{refused} and {changed_keys}"
    );
}

/// A malformed envelope costs the same RSA operation, which the randomness for blinding shows.
#[test]
fn a_malformed_envelope_costs_the_same_work() {
    struct Counting(ChaCha20Rng, usize);
    impl TryRng for Counting {
        type Error = Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            self.1 += 4;
            self.0.try_next_u32()
        }
        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            self.1 += 8;
            self.0.try_next_u64()
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            self.1 += bytes.len();
            self.0.try_fill_bytes(bytes)
        }
    }
    impl TryCryptoRng for Counting {}

    let fixture = Fixture::new();
    let good = fixture.seal(&[7; 32], Shape::OnePiece).encode();
    let open_and_count = |envelope: &[u8]| {
        let mut counting = Counting(rng(7), 0);
        let opened = fixture.key().open(envelope, &mut counting).is_ok();
        (opened, counting.1)
    };
    let (opened, whole) = open_and_count(&good);
    assert!(opened && whole > 32 + 256, "{whole}");
    for bad in [&[][..], &good[..good.len() - 1], &[0x30; 100], &good[1..]] {
        assert_eq!(open_and_count(bad), (false, whole));
    }
}

#[test]
fn each_part_is_named_where_it_differs() {
    let fixture = Fixture::new();
    let good = fixture.seal(&[7; 32], Shape::OnePiece).encode();
    let part = |bytes: &[u8]| Envelope::parse(bytes).err().map(|error| error.part);
    assert_eq!(part(&good), None);
    let seen = |name: &[u8]| position(&good, name);
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        part(&bytes)
    };
    let wrapped = seen(&[0x04, 0x82, 0x01, 0x00]);
    for (case, found, expected) in [
        ("nothing", part(&[]), Part::ContentInfo),
        ("outer tag", flipped(0), Part::ContentInfo),
        ("type", flipped(5), Part::ContentType),
        ("explicit tag", flipped(13), Part::ContentInfo),
        ("inner tag", flipped(15), Part::EnvelopedData),
        ("version", flipped(19), Part::Version),
        ("recipients", flipped(20), Part::Recipient),
        ("recipient's version", flipped(30), Part::Version),
        ("identifier's tag", flipped(31), Part::RecipientId),
        ("identifier's length", flipped(32), Part::RecipientId),
        ("hash of OAEP", flipped(65 + 40), Part::KeyAlgorithm),
        ("encrypted key's tag", flipped(wrapped), Part::EncryptedKey),
        (
            "encrypted key's length",
            flipped(wrapped + 3),
            Part::EncryptedKey,
        ),
        (
            "content's algorithm",
            flipped(seen(&[0x30, 0x1d]) + 12),
            Part::ContentAlgorithm,
        ),
        (
            "content's tag",
            flipped(seen(&[0xa0, 0x80, 0x04, 0x30])),
            Part::EncryptedContent,
        ),
        (
            "a byte after the end",
            part(&[&good[..], &[0]].concat()),
            Part::TrailingBytes,
        ),
        (
            "too many bytes",
            part(&vec![0x30; MAX_ENVELOPE + 1]),
            Part::Size,
        ),
        (
            "a length that is longer than needed",
            part(&replace(&good, &[0x80, 0x20], &[0x80, 0x81, 0x20])),
            Part::RecipientId,
        ),
        (
            "no content",
            part(&replace(
                &good,
                &good[good.len() - 62..good.len() - 12],
                &[],
            )),
            Part::EncryptedContent,
        ),
    ] {
        assert_eq!(found, Some(expected), "{case}");
    }
    for end in 0..good.len() {
        assert!(part(&good[..end]).is_some(), "{end}");
    }
}

#[test]
fn a_second_recipient_and_attributes_are_refused() {
    let fixture = Fixture::new();
    let good = fixture.seal(&[7; 32], Shape::Primitive).encode();
    let recipients = position(&good, &[0x31, 0x82, 0x01, 0x6b]);
    let one = good[recipients + 4..recipients + 4 + 0x16b].to_vec();
    let two = [&[0x31, 0x82, 0x02, 0xd6], &one[..], &one[..]].concat();
    let doubled = replace(&good, &good[recipients..recipients + 4 + 0x16b], &two);
    assert_eq!(
        Envelope::parse(&doubled).err().map(|error| error.part),
        Some(Part::Recipient)
    );
    // unprotectedAttrs [1] after the encrypted content info.
    let end = good.len() - 6;
    let attributed = [&good[..end], &[0xa1, 0x00], &good[end..]].concat();
    assert_eq!(
        Envelope::parse(&attributed).err().map(|error| error.part),
        Some(Part::EnvelopedData)
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
        let _ = Envelope::parse(&bytes);
    }

    #[test]
    fn an_envelope_is_no_larger_than_its_bytes(at in 0_usize..493, byte: u8) {
        let forged = Forged { recipient: vec![1; 32], wrapped_key: vec![2; 256], iv: [3; 16], content: vec![4; 48], shape: Shape::OnePiece };
        let mut bytes = forged.encode();
        bytes[at] = byte;
        if let Ok(envelope) = Envelope::parse(&bytes) {
            proptest::prop_assert!(envelope.content_len() <= bytes.len());
            proptest::prop_assert!(envelope.content_len() == 48);
        }
    }
}

/// `openssl cms -encrypt` is an independent implementation, in DER and as a stream (BER).
#[test]
fn envelopes_of_openssl_are_opened() {
    if Command::new("openssl").arg("version").output().is_err() {
        forge::tell_skipped("no openssl");
        return;
    }
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("key.der", &fixture.pkcs1);
    write("plain", &[7; 32]);
    // OpenSSL reads the identifier from the certificate.
    let identifier = base16ct::lower::encode_string(&Sha256::digest(&fixture.spki));
    let configuration = format!(
        "[req]\ndistinguished_name=name\nx509_extensions=extensions\nprompt=no\n[name]\nCN=test\n[extensions]\nsubjectKeyIdentifier={identifier}\n"
    );
    write("req.cnf", configuration.as_bytes());
    openssl(
        folder.path(),
        "req -x509 -new -key key.der -keyform DER -config req.cnf -out certificate.pem -days 1",
    );
    for form in ["", "-stream"] {
        openssl(
            folder.path(),
            &format!(
                "cms -encrypt -binary -aes-256-cbc -in plain -outform DER -out envelope -keyid {form} -recip certificate.pem \
                 -keyopt rsa_padding_mode:oaep -keyopt rsa_oaep_md:sha256 -keyopt rsa_mgf1_md:sha256"
            ),
        );
        let envelope = std::fs::read(folder.path().join("envelope")).unwrap();
        assert_eq!(Envelope::parse(&envelope).err(), None, "{form}");
        assert_eq!(fixture.open(&envelope), Ok([7; 32]), "{form}");
    }
    // Identified by issuer and serial number, or without OAEP: well-formed CMS in forms that KMS does not write.
    for other in [
        "-recip certificate.pem -keyopt rsa_padding_mode:oaep -keyopt rsa_oaep_md:sha256 -keyopt rsa_mgf1_md:sha256",
        "-keyid -recip certificate.pem",
        "-keyid -recip certificate.pem -keyopt rsa_padding_mode:oaep",
    ] {
        openssl(
            folder.path(),
            &format!(
                "cms -encrypt -binary -aes-256-cbc -in plain -outform DER -out envelope {other}"
            ),
        );
        let envelope = std::fs::read(folder.path().join("envelope")).unwrap();
        assert!(Envelope::parse(&envelope).is_err(), "{other}");
        assert_eq!(fixture.open(&envelope), Err(KeyReleaseRefused), "{other}");
    }
}

/// A simulated envelope is accepted by a reader that opens genuine ones.
#[test]
fn openssl_opens_envelopes_of_the_forge() {
    if Command::new("openssl").arg("version").output().is_err() {
        forge::tell_skipped("no openssl");
        return;
    }
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("key.der"), &fixture.pkcs1).unwrap();
    openssl(
        folder.path(),
        "rsa -inform DER -in key.der -outform PEM -out key.pem",
    );
    // The longest plaintext that KMS encrypts, so that `Shape::Pieces` has several.
    for plaintext in [vec![7; 32], vec![8; 4096]] {
        for shape in Shape::ALL {
            let envelope = fixture.seal(&plaintext, shape).encode();
            std::fs::write(file("envelope"), envelope).unwrap();
            openssl(
                folder.path(),
                "cms -decrypt -binary -inform DER -in envelope -inkey key.pem -out opened",
            );
            let opened = std::fs::read(file("opened")).unwrap();
            assert_eq!(opened, plaintext, "{shape:?}");
        }
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn position(bytes: &[u8], part: &[u8]) -> usize {
    let mut windows = bytes.windows(part.len());
    windows.position(|window| window == part).unwrap()
}

fn replace(bytes: &[u8], part: &[u8], by: &[u8]) -> Vec<u8> {
    let at = position(bytes, part);
    [&bytes[..at], by, &bytes[at + part.len()..]].concat()
}
