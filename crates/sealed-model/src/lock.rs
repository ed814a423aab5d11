//! The lock of a model: its names, its files, and vectors that its engine must compute.

use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use serde::Deserialize;

use crate::manifest::check_name;
use crate::{FileEntry, Manifest};

/// Largest lock in bytes: as many files as a [`Manifest`] has, and 16 long vectors.
pub const MAX_LOCK: usize = 1 << 20;

/// Most texts of a self-test.
const MAX_SELF_TESTS: usize = 16;

/// Longest text of a self-test in bytes: the test is part of every start.
const MAX_SELF_TEST_TEXT: usize = 1024;

/// Longest vector of a self-test.
const MAX_DIMENSION: usize = 8192;

/// Most aliases.
const MAX_ALIASES: usize = 16;

/// The model that a server serves, and no other: `model.lock.json`.
///
/// ```
/// # fn main() -> Result<(), sealed_model::LockError> {
/// let json = r#"{
///     "model": "sentence-transformers/all-MiniLM-L6-v2",
///     "files": [{ "file": "config.json", "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "size": 2 }],
///     "self_test": [{ "text": "Hello", "vector": "AACAPwAAAAA=" }]
/// }"#;
/// let lock = sealed_model::ModelLock::parse(json.as_bytes())?;
/// assert_eq!(lock.other_names(), ["all-MiniLM-L6-v2"]);
/// assert_eq!(lock.self_test[0].vector, [1.0, 0.0]);
/// # Ok(())
/// # }
/// ```
///
/// | key | | meaning |
/// | --- | --- | --- |
/// | `model` | required | the name in answers, receipts and the manifest, see [`ModelName`] |
/// | `aliases` | optional | up to 16 other names that requests may use; the name after the slash of `model` is one without being listed |
/// | `files` | required | the files by `file` (path below the model's folder), `sha256` (lower-case hex) and `size` in bytes |
/// | `self_test` | optional | up to 16 pairs of `text` (up to 1024 bytes) and `vector`, its embedding as little-endian f32 in base64 |
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLock {
    /// Name of the model.
    pub name: ModelName,
    /// Further names.
    pub aliases: Vec<ModelName>,
    /// The files.
    pub files: Manifest,
    /// Texts with their vectors.
    pub self_test: Vec<SelfTest>,
}

impl ModelLock {
    /// Reads a lock. Unknown keys are refused.
    ///
    /// # Errors
    /// [`LockError`] names the fault.
    pub fn parse(json: &[u8]) -> Result<Self, LockError> {
        if json.len() > MAX_LOCK {
            return Err(LockError(format!("it is larger than {MAX_LOCK} bytes")));
        }
        let lock: JsonLock =
            serde_json::from_slice(json).map_err(|error| LockError(error.to_string()))?;
        let files = lock.files.into_iter().map(FileEntry::try_from);
        let lock = Self {
            name: ModelName::new(&lock.model)?,
            aliases: names(&lock.aliases)?,
            files: Manifest::new(files.collect::<Result<_, _>>()?)
                .map_err(|error| LockError(error.to_string()))?,
            self_test: self_test(lock.self_test)?,
        };
        match lock.aliases.len() > MAX_ALIASES {
            true => Err(LockError(format!("it has more than {MAX_ALIASES} aliases"))),
            false => Ok(lock),
        }
    }

    /// Writes the lock of the files below `folder` that a server needs. Calls `progress` with the number of bytes read.
    ///
    /// # Errors
    /// [`FolderError`](crate::FolderError) if the folder is not that of a model, or cannot be read.
    #[cfg(feature = "folder")]
    pub fn of_folder(
        folder: &crate::ModelFolder,
        name: ModelName,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, crate::FolderError> {
        Ok(Self {
            name,
            aliases: Vec::new(),
            files: folder.manifest(progress)?,
            self_test: Vec::new(),
        })
    }

    /// The lock as JSON, one line for each file and each text.
    pub fn to_json(&self) -> String {
        let mut files: Vec<_> = self.files.files().iter().collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let files = files.into_iter().map(|file| {
            format!(
                "{{ \"file\": {}, \"sha256\": \"{}\", \"size\": {} }}",
                quote(&file.name),
                hex(&file.sha256),
                file.size
            )
        });
        let aliases: Vec<_> = self.aliases.iter().map(|name| quote(&name.0)).collect();
        format!(
            "{{\n  \"model\": {},\n  \"aliases\": [{}],\n  \"files\": [{}\n  ],\n  \"self_test\": {}\n}}\n",
            quote(&self.name.0),
            aliases.join(", "),
            lines(files, "    "),
            SelfTest::to_json(&self.self_test).replace('\n', "\n  ")
        )
    }

    /// Names other than [`name`](Self::name) that requests may use.
    pub fn other_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let short = std::iter::once(self.name.short());
        for name in short.chain(self.aliases.iter().map(ModelName::as_str)) {
            if name != self.name.as_str() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }
}

/// Name of a model, `name` or `organisation/name`: 1 to 128 characters, each part of ASCII letters, digits, `.`, `_` and `-`, and
/// no dot first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName(String);

impl ModelName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`LockError`] where it has another form.
    pub fn new(name: &str) -> Result<Self, LockError> {
        let is_plain = |part: &str| {
            let mut bytes = part.bytes();
            !part.is_empty()
                && !part.starts_with('.')
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if name.len() <= 128 && name.split('/').count() <= 2 && name.split('/').all(is_plain) {
            return Ok(Self(name.to_owned()));
        }
        let shown: String = name.chars().take(128).collect();
        Err(LockError(format!(
            "`{}` is not a model's name: 1 to 128 letters, digits, `.`, `_` and `-`, no dot first, and one `/` after an organisation",
            shown.escape_default()
        )))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without its organisation.
    pub fn short(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text, and the vector that every correct engine computes for it, except for rounding.
#[derive(Clone, Debug, PartialEq)]
pub struct SelfTest {
    /// The text.
    pub text: String,
    /// Its embedding.
    pub vector: Vec<f32>,
}

impl SelfTest {
    /// Reads an array in the form of a lock's `self_test`.
    ///
    /// # Errors
    /// [`LockError`] names the fault.
    pub fn parse(json: &[u8]) -> Result<Vec<Self>, LockError> {
        if json.len() > MAX_LOCK {
            return Err(LockError(format!("it is larger than {MAX_LOCK} bytes")));
        }
        self_test(serde_json::from_slice(json).map_err(|error| LockError(error.to_string()))?)
    }

    /// The array in the form of a lock's `self_test`.
    pub fn to_json(tests: &[Self]) -> String {
        let tests = tests.iter().map(|test| {
            let bytes: Vec<u8> = test.vector.iter().flat_map(|v| v.to_le_bytes()).collect();
            let vector = Base64::encode_string(&bytes);
            format!(
                "{{ \"text\": {}, \"vector\": \"{vector}\" }}",
                quote(&test.text)
            )
        });
        match lines(tests, "  ") {
            lines if lines.is_empty() => "[]".to_owned(),
            lines => format!("[{lines}\n]"),
        }
    }
}

/// The lock is malformed.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[error("the model's lock cannot be used: {0}")]
#[coded(
    "MODEL_LOCK_INVALID",
    remedy = "Restore model.lock.json from the release; write the lock of another model with `clearseal model lock`."
)]
pub struct LockError(pub String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonLock {
    model: String,
    #[serde(default)]
    aliases: Vec<String>,
    files: Vec<JsonFile>,
    #[serde(default)]
    self_test: Vec<JsonSelfTest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonFile {
    file: String,
    sha256: String,
    size: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonSelfTest {
    text: String,
    vector: String,
}

impl TryFrom<JsonFile> for FileEntry {
    type Error = LockError;

    fn try_from(json: JsonFile) -> Result<Self, LockError> {
        let name = json.file;
        check_name(&name)
            .map_err(|fault| LockError(format!("`{}`: a name {fault}", name.escape_default())))?;
        let sha256 = base16ct::lower::decode_vec(&json.sha256).ok();
        let sha256 = sha256.and_then(|digest| digest.try_into().ok());
        match sha256 {
            Some(sha256) => Ok(Self {
                name,
                sha256,
                size: json.size,
            }),
            None => Err(LockError(format!(
                "`{}` has no SHA-256 of 64 lower-case hex digits",
                name.escape_default()
            ))),
        }
    }
}

fn names(names: &[String]) -> Result<Vec<ModelName>, LockError> {
    names.iter().map(|name| ModelName::new(name)).collect()
}

fn self_test(json: Vec<JsonSelfTest>) -> Result<Vec<SelfTest>, LockError> {
    if json.len() > MAX_SELF_TESTS {
        return Err(LockError(format!(
            "its self-test has more than {MAX_SELF_TESTS} texts"
        )));
    }
    let tests = json.into_iter().enumerate().map(|(index, test)| {
        let fault = |fault: &str| LockError(format!("self-test {}: {fault}", index + 1));
        if test.text.len() > MAX_SELF_TEST_TEXT {
            return Err(fault("the text is longer than 1024 bytes"));
        }
        let bytes = Base64::decode_vec(&test.vector);
        let bytes = bytes.map_err(|_| fault("the vector is not base64"))?;
        let (floats, rest) = bytes.as_chunks::<4>();
        let vector: Vec<_> = floats
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        let is_vector = rest.is_empty() && (1..=MAX_DIMENSION).contains(&vector.len());
        if !is_vector || !vector.iter().all(|value| value.is_finite()) {
            return Err(fault("the vector is not 1 to 8192 finite f32"));
        }
        Ok(SelfTest {
            text: test.text,
            vector,
        })
    });
    tests.collect()
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Items of a JSON array, each on its own line.
fn lines(items: impl Iterator<Item = String>, indent: &str) -> String {
    let lines: Vec<_> = items.map(|item| format!("\n{indent}{item}")).collect();
    lines.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn json(model: &str, file: &str, more: &str) -> String {
        format!(
            r#"{{"model":"{model}","files":[{{"file":"{file}","sha256":"{DIGEST}","size":2}}]{more}}}"#
        )
    }

    fn fault(json: &str) -> String {
        ModelLock::parse(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_written_lock_is_read_again() {
        let json = json(
            "org/name",
            "a/b",
            r#","aliases":["other"],"self_test":[{"text":"\"é\"","vector":"AACAPwAAAAA="}]"#,
        );
        let lock = ModelLock::parse(json.as_bytes()).unwrap();
        assert_eq!(lock.other_names(), ["name", "other"]);
        assert_eq!(lock.self_test[0].vector, [1.0, 0.0]);
        let again = ModelLock::parse(lock.to_json().as_bytes()).unwrap();
        assert!(again == lock);
        let tests = SelfTest::to_json(&lock.self_test);
        assert!(SelfTest::parse(tests.as_bytes()).unwrap() == lock.self_test);
        let bare = ModelLock {
            self_test: Vec::new(),
            ..lock
        };
        assert!(ModelLock::parse(bare.to_json().as_bytes()).unwrap() == bare);
    }

    #[test]
    fn the_released_lock_is_in_the_written_form() {
        let released = include_str!("../../../enclave-server/model.lock.json");
        let lock = ModelLock::parse(released.as_bytes()).unwrap();
        assert_eq!(lock.to_json(), released);
        assert_eq!(lock.name.as_str(), "all-MiniLM-L6-v2");
        assert_eq!(
            lock.other_names(),
            ["sentence-transformers/all-MiniLM-L6-v2"]
        );
        // The model hash of receipts.
        assert_eq!(
            hex(&lock.files.digest()),
            "729065ed06d1c25cd2ec9fae00c4cdacbd7b289ed61d5bac50c17a0f936bbfeb"
        );
        assert_eq!(lock.self_test.len(), 2);
    }

    #[test]
    fn names_have_one_form() {
        for name in ["a", "BAAI/bge-small-en-v1.5", "a_b/c.d-e", &"x".repeat(128)] {
            assert_eq!(ModelName::new(name).unwrap().as_str(), name);
        }
        for name in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "a b",
            "é",
            ".",
            "..",
            "../a",
            "a/..",
            ".a",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(ModelName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(ModelName::new("a/b").unwrap().short(), "b");
    }

    #[test]
    fn faults_are_named() {
        let other = |from: &str, to: &str| json("m", "f", "").replace(from, to);
        let test = |text: &str, vector: &str| {
            let more = format!(r#","self_test":[{{"text":"{text}","vector":"{vector}"}}]"#);
            json("m", "f", &more)
        };
        let many = |item: &str| vec![item; 17].join(",");
        let pair = r#"{"text":"","vector":"AACAPw=="}"#;
        for (json, expected) in [
            (json("m", "../x", ""), "../x"),
            (json("m", "/etc/passwd", ""), "/etc/passwd"),
            (json("m", r"a\nb", ""), "a\\nb"),
            (json("m", "", ""), "no or more than 255 bytes"),
            (json("a b", "f", ""), "`a b` is not a model's name"),
            (json("m", "f", r#","aliases":["a/b/c"]"#), "`a/b/c`"),
            (json("m", "f", r#","vectors":1"#), "unknown field"),
            (other("\"size\":2", "\"size\":2,\"x\":1"), "unknown field"),
            (other(DIGEST, "44"), "no SHA-256"),
            (other("\"size\":2", "\"size\":-2"), "invalid value"),
            (other(r#""model":"m","#, ""), "missing field `model`"),
            ("[]".to_owned(), "invalid"),
            (r#"{"model":"m","files":[]}"#.to_owned(), "1 to 1024 files"),
            (test(&"x".repeat(1025), "AACAPw=="), "self-test 1: the text"),
            (test("", "AACAPw"), "not base64"),
            (test("", "AACA"), "finite"),
            (test("", ""), "finite"),
            (test("", "AADAfw=="), "finite"),
            (
                json("m", "f", &format!(r#","self_test":[{}]"#, many(pair))),
                "more than 16 texts",
            ),
            (
                json("m", "f", &format!(r#","aliases":[{}]"#, many("\"a\""))),
                "more than 16 aliases",
            ),
            (" ".repeat(MAX_LOCK + 1), "larger than"),
        ] {
            let shown: String = json.chars().take(200).collect();
            let fault = fault(&json);
            assert!(fault.contains(expected), "{shown}: {fault}");
        }
    }
}
