//! Which files make up the model: `model.lock.json`, compiled in, and the digest that stands for all of them.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{ModelError, hex};

/// Name by which requests and receipts call the model.
pub const MODEL_ID: &str = "all-MiniLM-L6-v2";

/// Name of the scheme behind [`artifact_set_sha256`], as receipts state it.
pub const HASH_SCHEME: &str = "sha256-manifest";

/// One file of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedFile {
    /// Path inside the model folder, with `/`.
    pub file: String,
    /// SHA-256 of its contents.
    pub sha256: [u8; 32],
    /// Size in bytes.
    pub size: u64,
}

/// The files of all-MiniLM-L6-v2, from `model.lock.json`.
///
/// # Errors
/// [`ModelError::Lock`] where the list is not well-formed.
pub fn all_minilm_l6_v2() -> Result<Vec<PinnedFile>, ModelError> {
    parse(include_str!("../../model.lock.json"))
}

/// Digest of an artifact set, scheme `sha256-manifest`: SHA-256 over one line `name ‖ 0x00 ‖ sha256-hex ‖ 0x0a` a
/// file, lines sorted by name. A file added, removed, renamed or changed changes it.
pub fn artifact_set_sha256(files: &[PinnedFile]) -> [u8; 32] {
    let mut lines: Vec<_> = files
        .iter()
        .map(|pin| format!("{}\0{}\n", pin.file, hex(&pin.sha256)))
        .collect();
    lines.sort_unstable();
    lines
        .iter()
        .fold(Sha256::new(), Digest::chain_update)
        .finalize()
        .into()
}

fn parse(json: &str) -> Result<Vec<PinnedFile>, ModelError> {
    let lines: Vec<Line> =
        serde_json::from_str(json).map_err(|error| ModelError::Lock(error.to_string()))?;
    lines.into_iter().map(PinnedFile::try_from).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    file: String,
    sha256: String,
    size: u64,
}

impl TryFrom<Line> for PinnedFile {
    type Error = ModelError;

    fn try_from(line: Line) -> Result<Self, ModelError> {
        // A name with these would leave the model folder, or be read as two lines by the digest.
        if line.file.is_empty()
            || line.file.starts_with('/')
            || line.file.contains(['\0', '\n', '\\'])
            || line.file.contains("..")
        {
            return Err(ModelError::Lock(format!(
                "`{}` is not a plain relative path",
                line.file.escape_default()
            )));
        }
        let sha256 = data_encoding::HEXLOWER
            .decode(line.sha256.as_bytes())
            .ok()
            .and_then(|digest| digest.try_into().ok())
            .ok_or_else(|| {
                ModelError::Lock(format!(
                    "`{}` has no SHA-256 of 64 lower-case hex digits",
                    line.file
                ))
            })?;
        Ok(Self {
            file: line.file,
            sha256,
            size: line.size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_list_is_well_formed() {
        let files = all_minilm_l6_v2().unwrap();
        let names: Vec<_> = files.iter().map(|pin| pin.file.as_str()).collect();
        assert!(
            names.contains(&"model.safetensors") && names.contains(&"tokenizer.json"),
            "{names:?}"
        );
    }

    #[test]
    fn the_set_digest_follows_its_definition() {
        let pin = |file: &str| PinnedFile {
            file: file.to_owned(),
            sha256: [0xab; 32],
            size: 1,
        };
        let digest = "ab".repeat(32);
        let expected: [u8; 32] = Sha256::digest(format!("a\0{digest}\nb/c\0{digest}\n")).into();
        assert_eq!(artifact_set_sha256(&[pin("b/c"), pin("a")]), expected);
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in ["../x", "/etc/passwd", "a\\nb", ""] {
            let json = format!(
                r#"[{{"file":"{name}","sha256":"{}","size":1}}]"#,
                "0".repeat(64)
            );
            assert!(parse(&json).is_err(), "{name}");
        }
    }
}
