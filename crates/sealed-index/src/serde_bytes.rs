//! Hashes as lowercase hex, and runs of hashes as base64url without padding.

pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::Hash;

    pub(crate) fn serialize<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base16ct::lower::encode_string(hash))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
        read(&String::deserialize(from)?)
            .ok_or_else(|| de::Error::custom("expected 64 hexadecimal digits in lower case"))
    }

    pub(super) fn read(text: &str) -> Option<Hash> {
        let mut hash = [0; 32];
        let read = base16ct::lower::decode(text, &mut hash).ok()?.len();
        (read == hash.len()).then_some(hash)
    }
}

pub(crate) mod optional_hex {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::Hash;

    pub(crate) fn serialize<S: Serializer>(
        hash: &Option<Hash>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = hash.map(|hash| base16ct::lower::encode_string(&hash));
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Hash>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else {
            return Ok(None);
        };
        let hash = super::hex::read(&text);
        let hash = hash.ok_or_else(|| {
            de::Error::custom("expected 64 hexadecimal digits in lower case, or null")
        })?;
        Ok(Some(hash))
    }
}

pub(crate) mod path {
    use base64ct::{Base64UrlUnpadded, Encoding};
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::Hash;
    use crate::map::LEVELS;

    pub(crate) fn serialize<S: Serializer>(path: &[Hash], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&Base64UrlUnpadded::encode_string(path.as_flattened()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hash>, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = Base64UrlUnpadded::decode_vec(&text)
            .map_err(|_| de::Error::custom("expected base64url without padding"))?;
        match bytes.as_chunks() {
            (hashes, []) if hashes.len() <= LEVELS => Ok(hashes.to_vec()),
            _ => Err(de::Error::custom("expected at most 256 hashes of 32 bytes")),
        }
    }
}
