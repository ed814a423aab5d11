//! Settings of an index, which never change.

use scan::{MAX_DIMENSIONS, Precision};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::Hash;
use crate::codec::{Reader, malformed, put_short};
use crate::error::IndexError;
use crate::serde_bytes::hex;

/// Longest name of a model, and longest prompt, in bytes.
const MAX_NAME: usize = 4096;

/// How the vectors of an index are made and stored. Fixed when the index is made: vectors of different models or after different prompts
/// cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Name of the model.
    pub model: String,
    /// Hash of the model's files, as in a receipt.
    #[serde(with = "hex")]
    pub model_hash: Hash,
    /// Text that the model reads before the text of every row. Queries may have another one.
    pub prompt: Option<String>,
    /// Numbers of a vector.
    pub dimensions: u32,
    /// How they are stored.
    #[serde(
        serialize_with = "write_precision",
        deserialize_with = "read_precision"
    )]
    pub precision: Precision,
}

fn write_precision<S: Serializer>(precision: &Precision, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(precision.name())
}

fn read_precision<'de, D: Deserializer<'de>>(from: D) -> Result<Precision, D::Error> {
    let name = String::deserialize(from)?;
    let found = Precision::ALL
        .into_iter()
        .find(|precision| precision.name() == name);
    found.ok_or_else(|| de::Error::custom("expected `f32`, `f16` or `int8`"))
}

impl Settings {
    /// Refuses what no index can have.
    ///
    /// # Errors
    /// [`IndexError::Settings`].
    pub fn check(&self) -> Result<(), IndexError> {
        let prompt = self.prompt.as_deref().unwrap_or_default();
        if self.model.is_empty() || self.model.len() > MAX_NAME || prompt.len() > MAX_NAME {
            return Err(IndexError::Settings(
                "the model's name or the prompt has more than 4096 bytes, or the name is empty",
            ));
        }
        if !(1..=MAX_DIMENSIONS).contains(&self.size()) {
            return Err(IndexError::Settings(
                "an index has vectors of 1 to 4096 dimensions",
            ));
        }
        Ok(())
    }

    /// Numbers of a vector.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.dimensions).unwrap_or(usize::MAX)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let prompt = self.prompt.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.model.len() + prompt
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_short(out, self.model.as_bytes());
        out.extend(self.model_hash);
        out.push(self.prompt.is_some().into());
        put_short(out, self.prompt.as_deref().unwrap_or_default().as_bytes());
        out.extend(self.dimensions.to_be_bytes());
        out.push(self.precision.code());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, IndexError> {
        let model = reader.short_text()?.to_owned();
        let model_hash = reader.hash()?;
        let has_prompt = reader.u8()?;
        let prompt = reader.short_text()?.to_owned();
        let prompt = match has_prompt {
            0 if prompt.is_empty() => None,
            1 => Some(prompt),
            _ => return malformed("a prompt"),
        };
        let dimensions = reader.u32()?;
        let Some(precision) = Precision::from_code(reader.u8()?) else {
            return malformed("a precision");
        };
        let settings = Self {
            model,
            model_hash,
            prompt,
            dimensions,
            precision,
        };
        settings.check()?;
        Ok(settings)
    }

    /// SHA-256("clearseal/1 index settings" ‖ 0x00 ‖ encoded settings).
    pub(crate) fn digest(&self) -> Hash {
        let mut encoded = Vec::new();
        self.encode(&mut encoded);
        Sha256::new()
            .chain_update(b"clearseal/1 index settings\0")
            .chain_update(encoded)
            .finalize()
            .into()
    }
}
