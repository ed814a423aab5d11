//! `CiphertextForRecipient` as sent by KMS: CMS EnvelopedData in BER, in three encodings (RFC 5652, RFC 4055, RFC 3565).

use aes::Aes256;
use cipher::{Block, BlockCipherEncrypt, KeyInit};
use rand_core::CryptoRng;
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey;
use sha2::{Digest, Sha256};

use crate::der;

/// Encoding of the encrypted content. Genuine envelopes use all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `[0]` primitive.
    Primitive,
    /// `[0]` constructed of one OCTET STRING.
    OnePiece,
    /// `[0]` constructed of OCTET STRINGs of 1,000 bytes, the last one shorter.
    Pieces,
}

impl Shape {
    /// All encodings.
    pub const ALL: [Self; 3] = [Self::Primitive, Self::OnePiece, Self::Pieces];
}

/// An envelope in parts, which can be changed before encoding.
#[derive(Clone)]
pub struct Envelope {
    /// Identifier of the recipient's key: SHA-256 of its SubjectPublicKeyInfo.
    pub recipient: Vec<u8>,
    /// The content key, encrypted with RSAES-OAEP.
    pub wrapped_key: Vec<u8>,
    /// Initialization vector of CBC.
    pub iv: [u8; 16],
    /// The encrypted content.
    pub content: Vec<u8>,
    /// Encoding of the content.
    pub shape: Shape,
}

impl Envelope {
    /// Encrypts `plaintext` to the key of a SubjectPublicKeyInfo; `None` if that is not an RSA key.
    pub fn seal<R: CryptoRng + ?Sized>(
        spki: &[u8],
        plaintext: &[u8],
        shape: Shape,
        rng: &mut R,
    ) -> Option<Self> {
        let key = PublicKey::from_public_key_der(spki).ok()?;
        let mut content_key = [0; 32];
        rng.fill_bytes(&mut content_key);
        Self::seal_with(&key, spki, &content_key, plaintext, shape, rng)
    }

    /// Like `seal`, with a given content key, which may have an invalid length.
    pub fn seal_with<R: CryptoRng + ?Sized>(
        key: &PublicKey,
        spki: &[u8],
        content_key: &[u8],
        plaintext: &[u8],
        shape: Shape,
        rng: &mut R,
    ) -> Option<Self> {
        let wrapped_key = key
            .oaep_encrypt_with_rng::<Sha256, _>(rng, content_key)
            .ok()?;
        let mut iv = [0; 16];
        rng.fill_bytes(&mut iv);
        let mut aes_key = [0; 32];
        for (to, from) in aes_key.iter_mut().zip(content_key) {
            *to = *from;
        }
        // PKCS #7: one to sixteen bytes, each equal to their number.
        let padding = 16 - plaintext.len() % 16;
        let mut content = plaintext.to_vec();
        content.resize(plaintext.len() + padding, padding as u8);
        cbc_encrypt(&aes_key, &iv, &mut content);
        Some(Self {
            recipient: Sha256::digest(spki).to_vec(),
            wrapped_key,
            iv,
            content,
            shape,
        })
    }

    /// Encodes it with indefinite outer lengths, as KMS does.
    pub fn encode(&self) -> Vec<u8> {
        let recipient = der::sequence(&[
            VERSION_2,
            &der::tlv(0x80, &self.recipient),
            &rsaes_oaep_sha256(),
            &der::octet_string(&self.wrapped_key),
        ]);
        let content = match self.shape {
            Shape::Primitive => der::tlv(0x80, &self.content),
            Shape::OnePiece => indefinite(0xa0, &[&der::octet_string(&self.content)]),
            Shape::Pieces => {
                let pieces = self.content.chunks(1000).map(der::octet_string);
                indefinite(0xa0, &[&pieces.collect::<Vec<_>>().concat()])
            }
        };
        let algorithm = der::sequence(&[AES_256_CBC, &der::octet_string(&self.iv)]);
        let enveloped = indefinite(
            0x30,
            &[
                VERSION_2,
                &der::set(&recipient),
                &indefinite(0x30, &[DATA, &algorithm, &content]),
            ],
        );
        indefinite(0x30, &[ENVELOPED_DATA, &indefinite(0xa0, &[&enveloped])])
    }
}

/// Encrypts whole blocks in place with CBC.
fn cbc_encrypt(key: &[u8; 32], iv: &[u8; 16], blocks: &mut [u8]) {
    let cipher = Aes256::new(key.into());
    let mut before = *iv;
    for block in blocks.as_chunks_mut::<16>().0 {
        for (byte, mask) in block.iter_mut().zip(before) {
            *byte ^= mask;
        }
        cipher.encrypt_block(<&mut Block<Aes256>>::from(&mut *block));
        before = *block;
    }
}

/// A constructed value of indefinite length (X.690 §8.1.3.6).
fn indefinite(tag: u8, elements: &[&[u8]]) -> Vec<u8> {
    [&[tag, 0x80], elements.concat().as_slice(), &[0, 0]].concat()
}

fn rsaes_oaep_sha256() -> Vec<u8> {
    let sha256 = der::sequence(&[SHA256, NULL]);
    let parameters = der::sequence(&[
        &der::tlv(0xa0, &sha256),
        &der::tlv(0xa1, &der::sequence(&[MGF1, &sha256])),
    ]);
    der::sequence(&[RSAES_OAEP, &parameters])
}

const NULL: &[u8] = &[0x05, 0x00];
const VERSION_2: &[u8] = &[0x02, 0x01, 0x02];
const DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
const ENVELOPED_DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03";
const RSAES_OAEP: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x07";
const MGF1: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08";
const SHA256: &[u8] = b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01";
const AES_256_CBC: &[u8] = b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x01\x2a";
