//! The service manifest: how an enclave describes itself, bound into its attestation document by hash.

use sha2::{Digest, Sha256};

use crate::cbor::{CborError, Reader, Rules, Writer};
use crate::keyconfig::{Kem, KeyConfig, KeyConfigError};
use crate::time::LAST_MOMENT;

/// Largest manifest in bytes.
pub const MAX_MANIFEST: usize = 8 * 1024;

/// Longest name or version in a manifest, in bytes.
pub const MAX_TEXT: usize = 256;

/// The only version so far (manifest key 1).
pub const PROTOCOL_VERSION: u64 = 1;

/// The `user_data` that the NSM signs: SHA-256("clearseal/1 manifest" ‖ 0x00 ‖ manifest bytes).
pub fn manifest_binding(manifest: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"clearseal/1 manifest\0")
        .chain_update(manifest)
        .finalize()
        .into()
}

/// A service's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceManifest {
    /// Protocol version, 1.
    pub version: u64,
    /// Keys that requests are sealed to; one per mechanism, key ids distinct.
    pub sealing_keys: Vec<KeyConfig>,
    /// Ed25519 key that receipts are signed with.
    pub receipt_key: [u8; 32],
    /// The first of the service's models; in a [`VerifiedAttestation`](crate::VerifiedAttestation) the one that the policy demands.
    pub model: ModelIdentity,
    /// The service's other models, which requests may name too.
    pub others: Vec<ModelIdentity>,
    /// Version of the policy that the service runs under.
    pub policy_version: String,
    /// Whether its answers may be relied on.
    pub security_mode: SecurityMode,
    /// Start of validity, Unix seconds.
    pub not_before: u64,
    /// End of validity, Unix seconds, after `not_before`.
    pub not_after: u64,
}

/// Exact identity of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    /// Name.
    pub id: String,
    /// Version.
    pub version: String,
    /// SHA-256 of the artifact set.
    pub sha256: [u8; 32],
    /// Scheme of that hash.
    pub hash_scheme: HashScheme,
    /// Length of an embedding.
    pub dimension: u32,
    /// Longest text that is not truncated, in tokens.
    pub max_tokens: u32,
    /// Whether embeddings have unit length.
    pub normalised: bool,
}

/// The model that a policy demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPin {
    /// Name.
    pub id: String,
    /// SHA-256 of the artifact set.
    pub sha256: [u8; 32],
}

impl ModelPin {
    /// The pin of this very model.
    pub fn of(model: &ModelIdentity) -> Self {
        Self {
            id: model.id.clone(),
            sha256: model.sha256,
        }
    }

    fn is_of(&self, model: &ModelIdentity) -> bool {
        is_same_model(&self.id, &model.id) && self.sha256 == model.sha256
    }
}

/// Whether two names are of one model: they are equal, or only one has an organisation (`org/name`) and the names after the slash
/// are equal.
pub fn is_same_model(a: &str, b: &str) -> bool {
    let extends = |long: &str, short: &str| {
        let organisation = long.strip_suffix(short);
        organisation.is_some_and(|organisation| organisation.ends_with('/')) && !short.contains('/')
    };
    a == b || extends(a, b) || extends(b, a)
}

/// How the hash over a model's files is made (AIR v1, `model_hash_scheme`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashScheme {
    /// Hash of the only file.
    Sha256Single,
    /// Hash of the files' concatenated contents.
    Sha256Concat,
    /// Hash of a list of the files' hashes.
    Sha256Manifest,
}

impl HashScheme {
    const ALL: [Self; 3] = [Self::Sha256Single, Self::Sha256Concat, Self::Sha256Manifest];

    /// Name in manifests and receipts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha256Single => "sha256-single",
            Self::Sha256Concat => "sha256-concat",
            Self::Sha256Manifest => "sha256-manifest",
        }
    }

    /// The scheme with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.as_str() == name)
    }
}

/// Whether a service's answers may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityMode {
    /// They may.
    Production,
    /// They may not: the service is on trial.
    Evaluation,
}

impl SecurityMode {
    /// Name in manifests and receipts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Evaluation => "evaluation",
        }
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Production, Self::Evaluation]
            .into_iter()
            .find(|mode| mode.as_str() == name)
    }
}

/// Why a manifest cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// More than [`MAX_MANIFEST`].
    #[error("larger than {MAX_MANIFEST} bytes")]
    TooLarge,
    /// Not deterministic CBOR, or of another shape.
    #[error("{0}")]
    Cbor(#[from] CborError),
    /// The list of sealing keys.
    #[error("{0}")]
    SealingKeys(#[from] KeyConfigError),
    /// A map of another length.
    #[error("a map does not have the {0} entries of its version")]
    Entries(u64),
    /// An entry at the wrong position.
    #[error("the entry {0} is missing or out of order")]
    Missing(&'static str),
    /// A field whose value makes no sense.
    #[error("{0} has an invalid value")]
    Field(&'static str),
}

impl ServiceManifest {
    /// Deterministic CBOR. Refuses what [`decode`](Self::decode) would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, ManifestError> {
        self.check()?;
        check_text(&self.policy_version, "policy version")?;
        let mut models = std::iter::once(&self.model).chain(&self.others);
        models.try_for_each(ModelIdentity::check)?;
        let mut writer = Writer::new();
        // A member only of services with several models, so that each manifest has one encoding.
        writer.map(8 + u64::from(!self.others.is_empty()));
        writer.uint(1).uint(self.version);
        writer
            .uint(2)
            .bytes(&KeyConfig::encode_list(&self.sealing_keys)?);
        writer.uint(3).bytes(&self.receipt_key);
        self.model.write(writer.uint(4));
        writer.uint(5).text(&self.policy_version);
        writer.uint(6).text(self.security_mode.as_str());
        writer
            .uint(7)
            .uint(self.not_before)
            .uint(8)
            .uint(self.not_after);
        if !self.others.is_empty() {
            writer.uint(9).array(self.others.len() as u64);
            for model in &self.others {
                model.write(&mut writer);
            }
        }
        let bytes = writer.finish();
        if bytes.len() > MAX_MANIFEST {
            Err(ManifestError::TooLarge)
        } else {
            Ok(bytes)
        }
    }

    /// Reads a manifest: exactly the known fields, in their only encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_MANIFEST {
            return Err(ManifestError::TooLarge);
        }
        let mut reader = Reader::new(bytes, Rules::Deterministic);
        let map = reader.map()?;
        let is_one_of_several = map.left() == Some(9);
        let mut fields = Entries::new(map, if is_one_of_several { 9 } else { 8 })?;
        let version = fields.next(&mut reader, "version")?.uint()?;
        if version != PROTOCOL_VERSION {
            return Err(ManifestError::Field("version"));
        }
        let sealing_keys =
            KeyConfig::decode_list(fields.next(&mut reader, "sealing keys")?.bytes()?)?;
        let receipt_key = array(
            fields.next(&mut reader, "receipt key")?.bytes()?,
            "receipt key",
        )?;
        let model = ModelIdentity::read(fields.next(&mut reader, "model")?)?;
        let policy_version = fields.text(&mut reader, "policy version")?;
        let mode = fields.next(&mut reader, "security mode")?.text()?;
        let security_mode =
            SecurityMode::from_name(mode).ok_or(ManifestError::Field("security mode"))?;
        let not_before = fields.next(&mut reader, "not before")?.uint()?;
        let not_after = fields.next(&mut reader, "not after")?.uint()?;
        let mut others = Vec::new();
        if is_one_of_several {
            let mut list = fields.next(&mut reader, "other models")?.array()?;
            while reader.more(&mut list)? {
                others.push(ModelIdentity::read(&mut reader)?);
            }
            if others.is_empty() {
                return Err(ManifestError::Field("other models"));
            }
        }
        reader.finish()?;
        let manifest = Self {
            version,
            sealing_keys,
            receipt_key,
            model,
            others,
            policy_version,
            security_mode,
            not_before,
            not_after,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// The X25519 key, which the document repeats as `public_key`.
    pub fn x25519_key(&self) -> Option<&[u8]> {
        self.sealing_keys
            .iter()
            .find(|key| key.kem == Kem::X25519)
            .map(|key| key.public_key.as_slice())
    }

    /// The keys to seal to, in order of preference.
    pub fn preferred_keys(&self) -> impl Iterator<Item = &KeyConfig> {
        let of = |kem: Kem| self.sealing_keys.iter().filter(move |key| key.kem == kem);
        Kem::ALL.into_iter().flat_map(of)
    }

    /// Makes the model of this pin the first; false if the service does not hold it.
    pub(crate) fn choose_model(&mut self, pin: &ModelPin) -> bool {
        if pin.is_of(&self.model) {
            return true;
        }
        let other = self.others.iter_mut().find(|model| pin.is_of(model));
        other
            .map(|other| std::mem::swap(other, &mut self.model))
            .is_some()
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.version != PROTOCOL_VERSION {
            return Err(ManifestError::Field("version"));
        }
        // One key per mechanism and per id, so the attested one is never ambiguous.
        let keys = &self.sealing_keys;
        let doubled = |(at, key): (usize, &KeyConfig)| {
            keys[..at]
                .iter()
                .any(|before| before.key_id == key.key_id || before.kem == key.kem)
        };
        if keys.is_empty() || keys.iter().enumerate().any(doubled) {
            return Err(ManifestError::Field("sealing keys"));
        }
        // RFC 3339 ends with the year 9999, and so do all displays of these dates.
        if self.not_before >= self.not_after || self.not_after > LAST_MOMENT / 1000 {
            return Err(ManifestError::Field("validity"));
        }
        Ok(())
    }
}

impl ModelIdentity {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ManifestError> {
        let map = reader.map()?;
        let normalised = map.left() != Some(7);
        let count = if normalised { 6 } else { 7 };
        let mut fields = Entries::new(map, count)?;
        let id = fields.text(reader, "model id")?;
        let version = fields.text(reader, "model version")?;
        let sha256 = array(fields.next(reader, "model hash")?.bytes()?, "model hash")?;
        let scheme = fields.next(reader, "hash scheme")?.text()?;
        let hash_scheme =
            HashScheme::from_name(scheme).ok_or(ManifestError::Field("hash scheme"))?;
        let dimension = fields.count(reader, "dimension")?;
        let max_tokens = fields.count(reader, "max tokens")?;
        if !normalised && fields.next(reader, "normalised")?.bool()? {
            return Err(ManifestError::Field("normalised"));
        }
        Ok(Self {
            id,
            version,
            sha256,
            hash_scheme,
            dimension,
            max_tokens,
            normalised,
        })
    }

    fn write(&self, writer: &mut Writer) {
        // A member only of models whose rows have other lengths, so that each manifest has one encoding.
        writer.map(6 + u64::from(!self.normalised));
        writer.uint(1).text(&self.id).uint(2).text(&self.version);
        writer.uint(3).bytes(&self.sha256);
        writer.uint(4).text(self.hash_scheme.as_str());
        writer.uint(5).uint(self.dimension.into());
        writer.uint(6).uint(self.max_tokens.into());
        if !self.normalised {
            writer.uint(7).bool(false);
        }
    }

    fn check(&self) -> Result<(), ManifestError> {
        check_text(&self.id, "model id")?;
        check_text(&self.version, "model version")?;
        match self.dimension == 0 || self.max_tokens == 0 {
            true => Err(ManifestError::Field("model")),
            false => Ok(()),
        }
    }
}

/// Reads the entries of a map whose keys are 1, 2, 3 and so on.
struct Entries<'a> {
    map: crate::cbor::Container<'a>,
    key: u64,
}

impl<'a> Entries<'a> {
    fn new(map: crate::cbor::Container<'a>, count: u64) -> Result<Self, ManifestError> {
        if map.left() == Some(count) {
            Ok(Self { map, key: 0 })
        } else {
            Err(ManifestError::Entries(count))
        }
    }

    fn next<'r>(
        &mut self,
        reader: &'r mut Reader<'a>,
        name: &'static str,
    ) -> Result<&'r mut Reader<'a>, ManifestError> {
        self.key += 1;
        if reader.more(&mut self.map)? && reader.uint()? == self.key {
            Ok(reader)
        } else {
            Err(ManifestError::Missing(name))
        }
    }

    fn text(
        &mut self,
        reader: &mut Reader<'a>,
        name: &'static str,
    ) -> Result<String, ManifestError> {
        let text = self.next(reader, name)?.text()?;
        check_text(text, name)?;
        Ok(text.to_owned())
    }

    /// A positive number of 32 bits.
    fn count(&mut self, reader: &mut Reader<'a>, name: &'static str) -> Result<u32, ManifestError> {
        let value = u32::try_from(self.next(reader, name)?.uint()?).unwrap_or(0);
        match value {
            0 => Err(ManifestError::Field(name)),
            value => Ok(value),
        }
    }
}

fn check_text(text: &str, name: &'static str) -> Result<(), ManifestError> {
    match text.is_empty() || text.len() > MAX_TEXT {
        true => Err(ManifestError::Field(name)),
        false => Ok(()),
    }
}

fn array(bytes: &[u8], name: &'static str) -> Result<[u8; 32], ManifestError> {
    bytes.try_into().map_err(|_| ManifestError::Field(name))
}
