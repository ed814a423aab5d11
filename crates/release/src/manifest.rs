//! The manifest, `clearseal-release/1`: JSON of at most 1 MiB. Unknown keys are errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Largest manifest in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Largest file in a manifest in bytes: a file of the page is in memory while it is hashed.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
const FORMAT: &str = "clearseal-release/1";

/// The parts of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `clearseal-release/1`.
    pub format: String,
    /// Name of the release, such as `0.1.0`.
    pub name: String,
    /// Commit that everything was built from, 40 hexadecimal digits.
    pub commit: String,
    /// The compiler: output of `rustc --version`.
    pub toolchain: String,
    /// The enclave image.
    pub image: Image,
    /// The model that the image accepts.
    pub model: Model,
    /// Every file of the page, by its path below the origin.
    pub page: BTreeMap<String, FileHash>,
    /// Every file of the npm package, by its path in the package.
    pub package: BTreeMap<String, FileHash>,
}

/// The enclave image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The file.
    pub file: FileHash,
    /// Kernel inside, SHA-256 of its bzImage.
    pub kernel: String,
    /// Registers by decimal index, 96 hexadecimal digits each.
    pub pcrs: BTreeMap<String, String>,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name.
    pub id: String,
    /// SHA-256 of its artifact set.
    pub sha256: String,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileHash {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}

impl FileHash {
    /// Hashes a file's contents.
    pub fn of(contents: &[u8]) -> Self {
        Self {
            bytes: contents.len() as u64,
            sha256: base16ct::lower::encode_string(&Sha256::digest(contents)),
        }
    }
}

/// The bytes are not a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ManifestError {
    /// Too large.
    #[error("the release manifest has {0} bytes, more than {MAX_BYTES}")]
    #[coded("RELEASE_TOO_LARGE", remedy = "Check which file this is.")]
    TooLarge(usize),
    /// The JSON is malformed, or has another form.
    #[error("the release manifest cannot be read: {0}")]
    #[coded(
        "RELEASE_MALFORMED",
        remedy = "Check which file this is; a newer form needs a newer program."
    )]
    Malformed(String),
    /// A value is impossible for a release.
    #[error("{field} of the release manifest has an impossible value")]
    #[coded(
        "RELEASE_FIELD",
        remedy = "Build the manifest again with cargo xtask release."
    )]
    Field {
        /// Name of the field.
        field: &'static str,
    },
}

impl Manifest {
    /// A manifest of these parts.
    pub fn new(name: &str, commit: &str, toolchain: &str, image: Image, model: Model) -> Self {
        Self {
            format: FORMAT.to_owned(),
            name: name.to_owned(),
            commit: commit.to_owned(),
            toolchain: toolchain.to_owned(),
            image,
            model,
            page: BTreeMap::new(),
            package: BTreeMap::new(),
        }
    }

    /// Reads a manifest, and checks each value.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_BYTES {
            return Err(ManifestError::TooLarge(bytes.len()));
        }
        // An editor may have written a byte order mark, which the signature covers.
        let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let manifest: Self = serde_json::from_slice(json)
            .map_err(|error| ManifestError::Malformed(position(&error)))?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The manifest as bytes; equal manifests give equal bytes.
    ///
    /// # Errors
    /// [`ManifestError`] where a value is impossible.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ManifestError> {
        self.check()?;
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| ManifestError::Malformed(error.to_string()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn check(&self) -> Result<(), ManifestError> {
        let field = |good: bool, field| match good {
            true => Ok(()),
            false => Err(ManifestError::Field { field }),
        };
        field(self.format == FORMAT, "format")?;
        for (text, name) in [
            (&self.name, "name"),
            (&self.toolchain, "toolchain"),
            (&self.model.id, "model.id"),
        ] {
            // Control characters could move the cursor of a terminal that shows the text.
            let has_length = !text.is_empty() && text.len() <= 256;
            field(has_length && !text.chars().any(char::is_control), name)?;
        }
        field(is_hex(&self.commit, 40), "commit")?;
        field(is_hex(&self.model.sha256, 64), "model.sha256")?;
        field(is_hex(&self.image.kernel, 64), "image.kernel")?;
        field(is_file(&self.image.file, u64::MAX), "image.file")?;
        field(
            ["0", "1", "2"]
                .iter()
                .all(|index| self.image.pcrs.contains_key(*index)),
            "image.pcrs",
        )?;
        for (index, value) in &self.image.pcrs {
            let number = index.parse::<u8>().is_ok_and(|number| number < 32);
            let known = number && is_hex(value, 96) && value.bytes().any(|digit| digit != b'0');
            field(known, "image.pcrs")?;
        }
        for (files, name) in [(&self.page, "page"), (&self.package, "package")] {
            field(!files.is_empty(), name)?;
            for (path, file) in files {
                field(is_path(path) && is_file(file, MAX_FILE_BYTES), name)?;
            }
        }
        Ok(())
    }
}

/// Whether a path is relative and has only plain names, so that it cannot leave the folder in which it is opened.
fn is_path(path: &str) -> bool {
    let is_plain = |name: &str| {
        !matches!(name, "" | "." | "..")
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte))
    };
    path.len() <= 512 && path.split('/').all(is_plain)
}

fn is_file(file: &FileHash, most: u64) -> bool {
    file.bytes <= most && is_hex(&file.sha256, 64)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Position of an error in JSON, without quoting the text.
fn position(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Manifest {
        let image = Image {
            file: FileHash::of(b"image"),
            kernel: "0a".repeat(32),
            pcrs: ["0", "1", "2"]
                .map(|index| (index.to_owned(), "1b".repeat(48)))
                .into(),
        };
        let model = Model {
            id: "all-MiniLM-L6-v2".to_owned(),
            sha256: "2c".repeat(32),
        };
        let mut manifest = Manifest::new("0.1.0", &"3d".repeat(20), "rustc 1", image, model);
        for (path, contents) in [("index.html", "<p>"), ("assets/verifier.wasm", "\0asm")] {
            let file = FileHash::of(contents.as_bytes());
            manifest.page.insert(path.to_owned(), file.clone());
            manifest.package.insert(path.to_owned(), file);
        }
        manifest
    }

    #[test]
    fn a_manifest_is_written_and_read() {
        let bytes = example().to_bytes().unwrap();
        let read = Manifest::parse(&bytes).unwrap();
        assert_eq!(read, example());
        assert_eq!(read.to_bytes().unwrap(), bytes);
        let marked = [&b"\xef\xbb\xbf"[..], &bytes].concat();
        assert_eq!(Manifest::parse(&marked).unwrap(), example());
    }

    type Change = fn(&mut Manifest);

    #[test]
    fn impossible_values_are_refused() {
        let cases: [(&str, Change); 14] = [
            ("format", |it| it.format = "clearseal-release/2".into()),
            ("name", |it| it.name.clear()),
            ("name", |it| it.name = "\u{1b}[2J".into()),
            ("toolchain", |it| it.toolchain = "x".repeat(257)),
            ("commit", |it| it.commit.push('0')),
            ("model.sha256", |it| it.model.sha256 = "G".repeat(64)),
            ("image.kernel", |it| it.image.kernel.clear()),
            ("image.pcrs", |it| drop(it.image.pcrs.remove("2"))),
            ("image.pcrs", |it| {
                it.image.pcrs.insert("32".into(), "1b".repeat(48));
            }),
            // Every enclave in debug mode has this value.
            ("image.pcrs", |it| {
                it.image.pcrs.insert("0".into(), "00".repeat(48));
            }),
            ("page", |it| it.page.clear()),
            ("page", |it| {
                it.page.insert("../index.html".into(), FileHash::of(b""));
            }),
            ("page", |it| {
                it.page.insert("a?b".into(), FileHash::of(b""));
            }),
            ("package", |it| {
                let mut file = FileHash::of(b"");
                file.bytes = MAX_FILE_BYTES + 1;
                it.package.insert("x".into(), file);
            }),
        ];
        for (field, change) in cases {
            let mut manifest = example();
            change(&mut manifest);
            let bytes = serde_json::to_vec(&manifest).unwrap();
            let expected = ManifestError::Field { field };
            assert_eq!(Manifest::parse(&bytes), Err(expected.clone()));
            assert_eq!(manifest.to_bytes(), Err(expected));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(matches!(
            Manifest::parse(&vec![b' '; MAX_BYTES + 1]),
            Err(ManifestError::TooLarge(_))
        ));
        let mut json = serde_json::to_value(example()).unwrap();
        json["more"] = 1.into();
        for bytes in [
            b"".to_vec(),
            b"{}".to_vec(),
            serde_json::to_vec(&json).unwrap(),
        ] {
            let refused = Manifest::parse(&bytes);
            assert!(matches!(refused, Err(ManifestError::Malformed(_))));
        }
    }
}
