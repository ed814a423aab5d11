//! The pinned files of the model: `model.lock.json`, compiled in. [`sealed_model::Manifest::digest`] identifies the set.

use sealed_model::FileEntry;
use serde::Deserialize;

use super::ModelError;

/// Name of the model in requests and receipts.
pub const MODEL_ID: &str = "all-MiniLM-L6-v2";

/// Other names that requests may use.
pub const MODEL_ALIASES: [&str; 1] = ["sentence-transformers/all-MiniLM-L6-v2"];

/// Name of the scheme of [`sealed_model::Manifest::digest`], which receipts state.
pub const HASH_SCHEME: &str = "sha256-manifest";

/// The files of all-MiniLM-L6-v2, from `model.lock.json`.
///
/// # Errors
/// [`ModelError::Lock`] where the list is not well-formed.
pub fn all_minilm_l6_v2() -> Result<Vec<FileEntry>, ModelError> {
    parse(include_str!("../../model.lock.json"))
}

fn parse(json: &str) -> Result<Vec<FileEntry>, ModelError> {
    let lines: Vec<Line> =
        serde_json::from_str(json).map_err(|error| ModelError::Lock(error.to_string()))?;
    lines.into_iter().map(FileEntry::try_from).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    file: String,
    sha256: String,
    size: u64,
}

impl TryFrom<Line> for FileEntry {
    type Error = ModelError;

    fn try_from(line: Line) -> Result<Self, ModelError> {
        // Such a name could leave the model folder, or be read as two lines by the digest.
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
        let sha256 = base16ct::lower::decode_vec(&line.sha256)
            .ok()
            .and_then(|digest| digest.try_into().ok())
            .ok_or_else(|| {
                ModelError::Lock(format!(
                    "`{}` has no SHA-256 of 64 lower-case hex digits",
                    line.file
                ))
            })?;
        Ok(Self {
            name: line.file,
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
        let names: Vec<_> = files.iter().map(|pin| pin.name.as_str()).collect();
        assert!(
            names.contains(&"model.safetensors") && names.contains(&"tokenizer.json"),
            "{names:?}"
        );
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
