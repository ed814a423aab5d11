//! Parses `CiphertextForRecipient`: CMS EnvelopedData (RFC 5652 §6) in exactly the forms that KMS writes.
//!
//! ```text
//! ContentInfo            SEQUENCE   BER, usually of indefinite length
//!   contentType          id-envelopedData
//!   content              [0]
//!     EnvelopedData      SEQUENCE
//!       version          2
//!       recipientInfos   SET, exactly one
//!         KeyTransRecipientInfo
//!           version      2
//!           rid          [0], 32 bytes: SHA-256 of the key's SubjectPublicKeyInfo
//!           algorithm    RSAES-OAEP, SHA-256, MGF1 with SHA-256, no label; parameters NULL (KMS) or absent
//!           encryptedKey OCTET STRING, 256 bytes
//!       encryptedContentInfo
//!         contentType    id-data
//!         algorithm      AES-256-CBC, IV of 16 bytes
//!         content        [0] primitive, or [0] constructed of OCTET STRINGs
//! ```

use crate::ber::Reader;

/// Largest accepted envelope in bytes: KMS decrypts at most 4,096 bytes.
pub const MAX_ENVELOPE: usize = 8 * 1024;

/// A well-formed envelope. It is not authenticated: anyone who knows the public key can make one.
pub struct Envelope<'a> {
    pub(crate) recipient: &'a [u8; 32],
    pub(crate) wrapped_key: &'a [u8; 256],
    pub(crate) iv: &'a [u8; 16],
    pub(crate) content: Content<'a>,
}

impl<'a> Envelope<'a> {
    /// Reads an envelope to its last byte. Borrows; allocates nothing.
    ///
    /// The outcome depends only on public bytes, which the host knows.
    ///
    /// # Errors
    /// [`Malformed`] with the part that differs from KMS's form.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() > MAX_ENVELOPE {
            return Err(Malformed {
                part: Part::Size,
                at: MAX_ENVELOPE,
            });
        }
        let mut reader = Reader::new(bytes);
        let envelope = reader.constructed(SEQUENCE, Part::ContentInfo, |info| {
            info.literal(ENVELOPED_DATA, Part::ContentType)?;
            info.constructed(CONSTRUCTED_0, Part::ContentInfo, |content| {
                content.constructed(SEQUENCE, Part::EnvelopedData, read_enveloped_data)
            })
        })?;
        if !reader.at_end() {
            return Err(reader.malformed(Part::TrailingBytes));
        }
        Ok(envelope)
    }

    /// SHA-256 of the SubjectPublicKeyInfo of the stated recipient key.
    pub fn recipient(&self) -> &'a [u8; 32] {
        self.recipient
    }

    /// Bytes of the encrypted content, a multiple of 16.
    pub fn content_len(&self) -> usize {
        self.content.pieces().map(<[u8]>::len).sum()
    }

    /// Joins the pieces of the encrypted content; `None` where its length is not `N`.
    pub(crate) fn content<const N: usize>(&self) -> Option<[u8; N]> {
        let mut content = [0; N];
        let mut rest = &mut content[..];
        for piece in self.content.pieces() {
            let (to, after) = rest.split_at_mut_checked(piece.len())?;
            to.copy_from_slice(piece);
            rest = after;
        }
        rest.is_empty().then_some(content)
    }
}

/// The bytes are not an envelope in KMS's form. Reveals nothing of the plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ENVELOPE_MALFORMED: {part} is not as KMS writes it, at byte {at}")]
pub struct Malformed {
    /// The part that differs.
    pub part: Part,
    /// Offset in bytes.
    pub at: usize,
}

/// A part of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Part {
    /// More than [`MAX_ENVELOPE`] bytes.
    #[error("the size")]
    Size,
    /// The outermost structure.
    #[error("the content info")]
    ContentInfo,
    /// Its type.
    #[error("the content type")]
    ContentType,
    /// The enveloped data.
    #[error("the enveloped data")]
    EnvelopedData,
    /// Version of the enveloped data or of the recipient.
    #[error("a version")]
    Version,
    /// The only recipient.
    #[error("the recipient")]
    Recipient,
    /// Identifier of the recipient's key.
    #[error("the recipient's identifier")]
    RecipientId,
    /// Algorithm that encrypts the content's key.
    #[error("the algorithm of the encrypted key")]
    KeyAlgorithm,
    /// The content's key.
    #[error("the encrypted key")]
    EncryptedKey,
    /// The encrypted content and its description.
    #[error("the encrypted content info")]
    ContentDescription,
    /// Algorithm that encrypts the content.
    #[error("the algorithm of the content")]
    ContentAlgorithm,
    /// The encrypted content.
    #[error("the encrypted content")]
    EncryptedContent,
    /// Bytes after the end.
    #[error("what follows the envelope")]
    TrailingBytes,
}

/// The encrypted content, whole or in pieces.
pub(crate) enum Content<'a> {
    Primitive(&'a [u8]),
    /// A reader at the first of the OCTET STRINGs, which have all been validated.
    Pieces(Reader<'a>),
}

impl<'a> Content<'a> {
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (one, mut pieces) = match self {
            Self::Primitive(content) => (Some(*content), None),
            Self::Pieces(pieces) => (None, Some(pieces.clone())),
        };
        let rest = std::iter::from_fn(move || {
            let pieces = pieces.as_mut().filter(|pieces| !pieces.at_end())?;
            pieces.primitive(OCTET_STRING, Part::EncryptedContent).ok()
        });
        one.into_iter().chain(rest)
    }
}

struct Recipient<'a> {
    key_hash: &'a [u8; 32],
    wrapped_key: &'a [u8; 256],
}

fn read_enveloped_data<'a>(data: &mut Reader<'a>) -> Result<Envelope<'a>, Malformed> {
    data.literal(VERSION_2, Part::Version)?;
    let Recipient {
        key_hash: recipient,
        wrapped_key,
    } = data.constructed(SET, Part::Recipient, |recipients| {
        recipients.constructed(SEQUENCE, Part::Recipient, |info| {
            info.literal(VERSION_2, Part::Version)?;
            let key_hash = info.array(PRIMITIVE_0, Part::RecipientId)?;
            let algorithm = match info.starts_with(RSAES_OAEP_SHA256_ABSENT) {
                true => RSAES_OAEP_SHA256_ABSENT,
                false => RSAES_OAEP_SHA256,
            };
            info.literal(algorithm, Part::KeyAlgorithm)?;
            let wrapped_key = info.array(OCTET_STRING, Part::EncryptedKey)?;
            Ok(Recipient {
                key_hash,
                wrapped_key,
            })
        })
    })?;
    data.constructed(SEQUENCE, Part::ContentDescription, |info| {
        info.literal(DATA, Part::ContentType)?;
        info.literal(AES_256_CBC, Part::ContentAlgorithm)?;
        let iv = info.array(OCTET_STRING, Part::ContentAlgorithm)?;
        let at = info.clone();
        let content = read_content(info)?;
        let envelope = Envelope {
            recipient,
            wrapped_key,
            iv,
            content,
        };
        match envelope.content_len() {
            0 => Err(at.malformed(Part::EncryptedContent)),
            length if length.is_multiple_of(16) => Ok(envelope),
            _ => Err(at.malformed(Part::EncryptedContent)),
        }
    })
}

fn read_content<'a>(info: &mut Reader<'a>) -> Result<Content<'a>, Malformed> {
    let part = Part::EncryptedContent;
    if info.starts_with(&[PRIMITIVE_0]) {
        return info.primitive(PRIMITIVE_0, part).map(Content::Primitive);
    }
    info.constructed(CONSTRUCTED_0, part, |pieces| {
        let first = pieces.clone();
        while !pieces.at_end() {
            if pieces.primitive(OCTET_STRING, part)?.is_empty() {
                return Err(pieces.malformed(part));
            }
        }
        Ok(Content::Pieces(first))
    })
}

const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const PRIMITIVE_0: u8 = 0x80;
const CONSTRUCTED_0: u8 = 0xa0;

/// INTEGER 2: the version where a recipient is identified by its key (RFC 5652 §6.1, §6.2.1).
const VERSION_2: &[u8] = &[0x02, 0x01, 0x02];

/// 1.2.840.113549.1.7.3
const ENVELOPED_DATA: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x03,
];

/// 1.2.840.113549.1.7.1
const DATA: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01,
];

/// AlgorithmIdentifier of RSAES-OAEP (RFC 4055 §4.1) with explicit parameters: hashAlgorithm SHA-256, maskGenAlgorithm MGF1 with
/// SHA-256, and no pSourceAlgorithm, which means the empty label. Each SHA-256 has the parameters NULL.
const RSAES_OAEP_SHA256: &[u8] = &[
    0x30, 0x3c, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x07, 0x30, 0x2f, 0xa0,
    0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
    0xa1, 0x1c, 0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30,
    0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
];

/// The same with absent parameters for each SHA-256. RFC 4055 §2.1 requires to accept both; OpenSSL writes this one.
const RSAES_OAEP_SHA256_ABSENT: &[u8] = &[
    0x30, 0x38, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x07, 0x30, 0x2b, 0xa0,
    0x0d, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0xa1, 0x1a,
    0x30, 0x18, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30, 0x0b, 0x06,
    0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01,
];

/// Start of the AlgorithmIdentifier of AES-256-CBC (RFC 3565 §2.2), 2.16.840.1.101.3.4.1.42; the IV follows.
const AES_256_CBC: &[u8] = &[
    0x30, 0x1d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a,
];
