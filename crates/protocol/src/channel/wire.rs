//! The three handshake messages as bytes: deterministic CBOR, every length checked before use.

use attestation::cbor::{CborError, Reader, Rules, Writer};
use attestation::{Aead, Evidence, Kem, MAX_ENDORSED, MAX_EVIDENCE};

use super::{ChannelError, VERSION};

/// Longest client hello, bytes.
pub const MAX_CLIENT_HELLO: usize = 256;
/// Longest server hello, bytes: evidence, or an endorsed key.
pub const MAX_SERVER_HELLO: usize = MAX_EVIDENCE + 64;
/// Longest client key, bytes: an encapsulation, evidence, a signature and the confirmation.
pub const MAX_CLIENT_KEY: usize = MAX_EVIDENCE + LONGEST_ENC + 256;

pub(super) const CONFIRMATION: usize = 32;
const LONGEST_ENC: usize = 1_120;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) random: [u8; 32],
    /// In the client's order of preference; never empty.
    pub(super) kems: Vec<Kem>,
    /// The fastest at the client first; never empty.
    pub(super) aeads: Vec<Aead>,
    /// The receipt key of an attestation that the client has verified.
    pub(super) known: Option<[u8; 32]>,
    pub(super) has_evidence: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof<'a> {
    Document(Evidence<'a>),
    Endorsement {
        key_list: &'a [u8],
        signature: &'a [u8; 64],
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerHello<'a> {
    pub(super) proof: Proof<'a>,
    pub(super) wants_evidence: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientEvidence<'a> {
    pub(super) evidence: Evidence<'a>,
    pub(super) signature: &'a [u8; 64],
}

/// The client key up to its confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientKey<'a> {
    pub(super) enc: &'a [u8],
    pub(super) evidence: Option<ClientEvidence<'a>>,
}

impl ClientHello {
    /// {1: version, 2: random, 3: [kem], 4: [aead], 5: known / null, 6: bool}
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer
            .map(6)
            .uint(1)
            .uint(VERSION)
            .uint(2)
            .bytes(&self.random);
        writer.uint(3).array(self.kems.len() as u64);
        for kem in &self.kems {
            writer.uint(kem.id().into());
        }
        writer.uint(4).array(self.aeads.len() as u64);
        for aead in &self.aeads {
            writer.uint(aead.id().into());
        }
        writer.uint(5);
        match &self.known {
            Some(known) => writer.bytes(known),
            None => writer.null(),
        };
        writer.uint(6).bool(self.has_evidence);
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, ChannelError> {
        limit(bytes, MAX_CLIENT_HELLO)?;
        let mut fields = Fields::open(bytes, 6)?;
        let random = exact(fields.at(2)?.bytes()?)?;
        let kems = ids(fields.at(3)?, Kem::from_id)?;
        let aeads = ids(fields.at(4)?, Aead::from_id)?;
        let reader = fields.at(5)?;
        let known = match reader.null()? {
            true => None,
            false => Some(exact(reader.bytes()?)?),
        };
        let has_evidence = fields.at(6)?.bool()?;
        fields.finish()?;
        if kems.is_empty() || aeads.is_empty() {
            return Err(ChannelError::NoSuite);
        }
        Ok(Self {
            random,
            kems,
            aeads,
            known,
            has_evidence,
        })
    }
}

impl<'a> ServerHello<'a> {
    /// {1: version, 2: [0, document, manifest] / [1, key list, signature], 3: bool}
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.map(3).uint(1).uint(VERSION).uint(2).array(3);
        match self.proof {
            Proof::Document(Evidence { document, manifest }) => {
                writer.uint(0).bytes(document).bytes(manifest)
            }
            Proof::Endorsement {
                key_list,
                signature,
            } => writer.uint(1).bytes(key_list).bytes(signature),
        };
        writer.uint(3).bool(self.wants_evidence);
        writer.finish()
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, ChannelError> {
        limit(bytes, MAX_SERVER_HELLO)?;
        let mut fields = Fields::open(bytes, 3)?;
        let (kind, first, second) = triple(fields.at(2)?)?;
        let proof = match kind {
            0 => Proof::Document(Evidence {
                document: first,
                manifest: second,
            }),
            1 if first.len() <= MAX_ENDORSED => Proof::Endorsement {
                key_list: first,
                signature: second.try_into().map_err(|_| ChannelError::Malformed)?,
            },
            _ => return Err(ChannelError::Malformed),
        };
        let wants_evidence = fields.at(3)?.bool()?;
        fields.finish()?;
        Ok(Self {
            proof,
            wants_evidence,
        })
    }
}

impl<'a> ClientKey<'a> {
    /// {1: enc, 2: null / [document, manifest, signature]}
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.map(2).uint(1).bytes(self.enc).uint(2);
        match &self.evidence {
            None => writer.null(),
            Some(ClientEvidence {
                evidence,
                signature,
            }) => writer
                .array(3)
                .bytes(evidence.document)
                .bytes(evidence.manifest)
                .bytes(*signature),
        };
        writer.finish()
    }

    /// Splits off the confirmation, which covers everything before it.
    pub(super) fn split(
        bytes: &'a [u8],
    ) -> Result<(&'a [u8], &'a [u8; CONFIRMATION]), ChannelError> {
        limit(bytes, MAX_CLIENT_KEY)?;
        bytes
            .split_last_chunk::<CONFIRMATION>()
            .ok_or(ChannelError::Malformed)
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, ChannelError> {
        let mut reader = Reader::new(bytes, Rules::Deterministic);
        let mut map = reader.map()?;
        let mut at =
            |reader: &mut Reader<'a>, key| match reader.more(&mut map)? && reader.uint()? == key {
                true => Ok::<_, ChannelError>(()),
                false => Err(ChannelError::Malformed),
            };
        at(&mut reader, 1)?;
        let enc = reader.bytes()?;
        at(&mut reader, 2)?;
        let evidence = match reader.null()? {
            true => None,
            false => Some(ClientEvidence::read(&mut reader)?),
        };
        if reader.more(&mut map)? {
            return Err(ChannelError::Malformed);
        }
        reader.finish()?;
        Ok(Self { enc, evidence })
    }
}

impl<'a> ClientEvidence<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, ChannelError> {
        let mut array = reader.array()?;
        let mut next = |reader: &mut Reader<'a>| match reader.more(&mut array)? {
            true => Ok(reader.bytes()?),
            false => Err(ChannelError::Malformed),
        };
        let (document, manifest) = (next(reader)?, next(reader)?);
        let signature = next(reader)?;
        let signature = signature.try_into().map_err(|_| ChannelError::Malformed)?;
        if reader.more(&mut array)? {
            return Err(ChannelError::Malformed);
        }
        Ok(Self {
            evidence: Evidence { document, manifest },
            signature,
        })
    }
}

impl From<CborError> for ChannelError {
    fn from(_: CborError) -> Self {
        Self::Malformed
    }
}

fn limit(bytes: &[u8], limit: usize) -> Result<(), ChannelError> {
    match bytes.len() <= limit {
        true => Ok(()),
        false => Err(ChannelError::TooLarge {
            length: bytes.len() as u64,
            limit: limit as u64,
        }),
    }
}

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ChannelError> {
    bytes.try_into().map_err(|_| ChannelError::Malformed)
}

/// Identifiers in order, without those that this version does not know, because a newer peer may offer more.
fn ids<T>(reader: &mut Reader<'_>, known: fn(u16) -> Option<T>) -> Result<Vec<T>, ChannelError> {
    const MOST: u64 = 8;
    let mut array = reader.array()?;
    if array.left().is_none_or(|count| count > MOST) {
        return Err(ChannelError::Malformed);
    }
    let mut found = Vec::new();
    while reader.more(&mut array)? {
        let id = u16::try_from(reader.uint()?).map_err(|_| ChannelError::Malformed)?;
        found.extend(known(id));
    }
    Ok(found)
}

fn triple<'a>(reader: &mut Reader<'a>) -> Result<(u64, &'a [u8], &'a [u8]), ChannelError> {
    let mut array = reader.array()?;
    if array.left() != Some(3) {
        return Err(ChannelError::Malformed);
    }
    reader.more(&mut array)?;
    let kind = reader.uint()?;
    reader.more(&mut array)?;
    let first = reader.bytes()?;
    reader.more(&mut array)?;
    let second = reader.bytes()?;
    reader.more(&mut array)?;
    Ok((kind, first, second))
}

/// A map whose keys are 1, 2, 3 and so on; the first is the version.
struct Fields<'a> {
    reader: Reader<'a>,
    map: attestation::cbor::Container<'a>,
}

impl<'a> Fields<'a> {
    fn open(bytes: &'a [u8], count: u64) -> Result<Self, ChannelError> {
        let mut reader = Reader::new(bytes, Rules::Deterministic);
        let mut map = reader.map()?;
        if !reader.more(&mut map)? || reader.uint()? != 1 {
            return Err(ChannelError::Malformed);
        }
        // The version before the count: a later version may have more fields.
        let version = reader.uint()?;
        if version != VERSION {
            return Err(ChannelError::Version(version));
        }
        if map.left() != Some(count - 1) {
            return Err(ChannelError::Malformed);
        }
        Ok(Self { reader, map })
    }

    fn at(&mut self, key: u64) -> Result<&mut Reader<'a>, ChannelError> {
        match self.reader.more(&mut self.map)? && self.reader.uint()? == key {
            true => Ok(&mut self.reader),
            false => Err(ChannelError::Malformed),
        }
    }

    fn finish(mut self) -> Result<(), ChannelError> {
        if self.reader.more(&mut self.map)? {
            return Err(ChannelError::Malformed);
        }
        Ok(self.reader.finish()?)
    }
}
