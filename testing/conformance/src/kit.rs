//! The kit: documents under its own development root, and a manifest with the expected verdict of each.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use attestation::SPECS;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::appraisal::CASES;
use crate::fixture::{Fixture, NOW};
use crate::protocol::{Policy, Request, Verdict};

/// Value of the member `format`. A change of meaning gets a new number.
pub const FORMAT: &str = "clearseal-conformance/1";

/// Vectors on which sound verifiers may differ: only this project's verifier is judged by them.
const DIFFER: &[(&str, &str)] = &[
    ("alg-long-head", "another encoding of an equivalent header"),
    (
        "array-indefinite",
        "another encoding of an equivalent array",
    ),
    ("array-long-head", "another encoding of an equivalent array"),
    ("cabundle-reversed", "a path can be found by searching"),
    ("integer-key", "an unknown field"),
    (
        "leaf-with-unknown-extension",
        "an extension that some verifiers know and find empty",
    ),
    (
        "module-id-long-head",
        "another encoding of an equivalent text",
    ),
    ("nonce-chunked", "another encoding of an equivalent string"),
    (
        "optionals-1024",
        "AWS's documentation states 512, but its documents exceed it",
    ),
    (
        "payload-chunked",
        "another encoding of an equivalent string",
    ),
    (
        "protected-indefinite",
        "another encoding of an equivalent header",
    ),
    (
        "protected-with-kid",
        "a header parameter that changes nothing",
    ),
    (
        "regional-and-zonal-swapped",
        "a path can be found by searching",
    ),
    (
        "root-left-out",
        "a verifier that pins the root does not need it",
    ),
    ("root-twice", "a path can be found by searching"),
    (
        "root-with-another-serial",
        "the pinned key signed what follows",
    ),
    ("tag-18-long-head", "another encoding of an equivalent tag"),
    ("unknown-field", "an unknown field"),
    ("unprotected-indefinite", "another encoding of an empty map"),
    (
        "unprotected-x5chain",
        "a header parameter that changes nothing",
    ),
    (
        "zonal-signed-with-sha256",
        "weaker than the curve, and not broken",
    ),
];

/// Contents of `kit.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kit {
    /// [`FORMAT`].
    pub format: String,
    /// The kit's root, base64 DER. Its key is public: do not trust it elsewhere.
    pub root: String,
    /// Ordered by check.
    pub vectors: Vec<Vector>,
}

/// One document and its expected verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Unique and stable.
    pub id: String,
    /// The document, relative to `kit.json`.
    pub file: String,
    /// SHA-256 of the document, hex.
    pub sha256: String,
    /// Time of the appraisal, Unix milliseconds.
    pub time: u64,
    /// Further requirements; `null` if only authenticity is checked.
    pub policy: Option<Policy>,
    /// `accept` or `refuse`.
    pub expected: Verdict,
    /// Whether sound verifiers may differ; the expectation is then only this project's.
    pub may_differ: bool,
    /// This project's error code; others may have their own. Empty if the document is valid.
    pub code: String,
    /// Number of the deciding check; 0 if the document is valid.
    pub check: u8,
    /// Source of the check's requirement.
    pub clause: String,
    /// The check as a question, or what is special about this vector.
    pub note: String,
}

/// One vector with its document, as a question.
#[derive(Clone, Debug)]
pub struct Question {
    /// See [`Vector::check`].
    pub check: u8,
    /// See [`Vector::expected`].
    pub expected: Verdict,
    /// See [`Vector::may_differ`].
    pub may_differ: bool,
    /// See [`Vector::code`]; `None` for a vector of others, which has no code.
    pub code: Option<String>,
    /// The request to the verifier.
    pub request: Request,
}

impl Kit {
    /// Generates the kit: the manifest, and the documents in the manifest's order.
    pub fn generate() -> (Self, Vec<Vec<u8>>) {
        let fixture = Fixture::new();
        let mut vectors = Vec::new();
        let mut documents = Vec::new();
        for vector in forge::vectors() {
            let document = fixture.document(vector.apply);
            vectors.push(Vector {
                id: vector.name.to_owned(),
                file: format!("documents/{}.cbor", vector.name),
                sha256: hex(&Sha256::digest(&document)),
                time: NOW,
                policy: None,
                expected: if vector.check == 0 {
                    Verdict::Accept
                } else {
                    Verdict::Refuse
                },
                may_differ: reason_to_differ(vector.name).is_some(),
                code: vector.code.to_owned(),
                check: vector.check,
                clause: clause(vector.check).to_owned(),
                note: reason_to_differ(vector.name)
                    .unwrap_or(question(vector.check))
                    .to_owned(),
            });
            documents.push(document);
        }
        for case in CASES {
            let document = fixture.document(case.document);
            vectors.push(Vector {
                id: case.name.to_owned(),
                file: format!("documents/{}.cbor", case.name),
                sha256: hex(&Sha256::digest(&document)),
                time: case.time(),
                policy: Some(case.demand(&fixture)),
                expected: case.verdict(),
                may_differ: false,
                code: case.code.to_owned(),
                check: case.check,
                clause: clause(case.check).to_owned(),
                note: case.note.to_owned(),
            });
            documents.push(document);
        }
        let kit = Self {
            format: FORMAT.to_owned(),
            root: Base64::encode_string(fixture.root()),
            vectors,
        };
        (kit, documents)
    }

    /// Writes `kit.json` and `documents/` into `folder`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(folder: &Path) -> Result<Self> {
        let (kit, documents) = Self::generate();
        std::fs::create_dir_all(folder.join("documents"))
            .with_context(|| format!("cannot make {}", folder.display()))?;
        for (vector, document) in kit.vectors.iter().zip(&documents) {
            std::fs::write(folder.join(&vector.file), document)?;
        }
        let json = serde_json::to_string_pretty(&kit)? + "\n";
        std::fs::write(folder.join("kit.json"), json)?;
        Ok(kit)
    }

    /// Reads a kit and all its documents, and compares each with its hash.
    ///
    /// # Errors
    /// If a file is missing or does not match the manifest.
    pub fn read(folder: &Path) -> Result<Vec<Question>> {
        let path = folder.join("kit.json");
        let json =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let kit: Self = serde_json::from_slice(&json)
            .with_context(|| format!("{} is not a kit", path.display()))?;
        kit.check()?;
        kit.vectors
            .iter()
            .map(|vector| {
                let document = std::fs::read(folder.join(&vector.file))
                    .with_context(|| format!("cannot read {}", vector.file))?;
                vector.ask(&document, &kit.root)
            })
            .collect()
    }

    /// Generates the kit in memory.
    ///
    /// # Errors
    /// Only if the generator has a defect.
    pub fn questions() -> Result<Vec<Question>> {
        let (kit, documents) = Self::generate();
        kit.check()?;
        let pairs = kit.vectors.iter().zip(&documents);
        pairs
            .map(|(vector, document)| vector.ask(document, &kit.root))
            .collect()
    }

    /// Checks that the manifest is well-formed: unique identifiers, files inside the folder, known checks, codes where required.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<()> {
        ensure!(self.format == FORMAT, "the format is not {FORMAT}");
        Base64::decode_vec(&self.root).context("the root is not base64")?;
        let mut ids = BTreeSet::new();
        for vector in &self.vectors {
            let id = &vector.id;
            ensure!(ids.insert(id), "two vectors are called {id}");
            ensure!(
                id.bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')),
                "{id} is not in kebab case"
            );
            ensure!(
                vector.file == format!("documents/{id}.cbor"),
                "{id}: {} is not its file",
                vector.file
            );
            let accepted = vector.expected == Verdict::Accept;
            ensure!(
                accepted || vector.expected == Verdict::Refuse,
                "{id}: a vector is accepted or refused"
            );
            ensure!(
                accepted == (vector.check == 0) && accepted == vector.code.is_empty(),
                "{id}: a refusal has a check and a code, and nothing else has"
            );
            ensure!(
                accepted || SPECS.iter().any(|spec| spec.id == vector.check),
                "{id}: there is no check {}",
                vector.check
            );
            ensure!(
                accepted || !vector.clause.is_empty(),
                "{id}: no clause asks for it"
            );
            ensure!(vector.sha256.len() == 64, "{id}: no SHA-256");
        }
        Ok(())
    }
}

impl Vector {
    fn ask(&self, document: &[u8], root: &str) -> Result<Question> {
        ensure!(
            hex(&Sha256::digest(document)) == self.sha256,
            "{} is not the document that the manifest names",
            self.file
        );
        Ok(Question {
            check: self.check,
            expected: self.expected,
            may_differ: self.may_differ,
            code: Some(self.code.clone()),
            request: Request {
                id: self.id.clone(),
                document: Base64::encode_string(document),
                time: self.time,
                root: root.to_owned(),
                policy: self.policy.clone(),
            },
        })
    }
}

fn reason_to_differ(name: &str) -> Option<&'static str> {
    let found = DIFFER.iter().find(|(known, _)| *known == name);
    found.map(|(_, why)| *why)
}

/// The check as a question.
pub(crate) fn question(check: u8) -> &'static str {
    let spec = SPECS.iter().find(|spec| spec.id == check);
    spec.map_or("A form that must be accepted", |spec| spec.title)
}

fn clause(check: u8) -> &'static str {
    let spec = SPECS.iter().find(|spec| spec.id == check);
    spec.map_or("", |spec| spec.clause)
}
