//! The kit: documents under a development root of its own, and a manifest that says of each what is right.

use crate::appraisal::CASES;
use crate::protocol::{Policy, Request, Verdict};
use crate::scene::{NOW, Scene};
use anyhow::{Context, Result, ensure};
use attestation::SPECS;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::Path;

/// Value of the member `format`. A change of meaning gets another number.
pub const FORMAT: &str = "clearseal-conformance/1";

/// Vectors on which sound verifiers may differ: this project's verifier has decided, and nobody else is judged by it.
const DIFFER: &[(&str, &str)] = &[
    (
        "alg-long-head",
        "other encoding of a header that says the same",
    ),
    (
        "array-indefinite",
        "other encoding of an array that says the same",
    ),
    (
        "array-long-head",
        "other encoding of an array that says the same",
    ),
    ("cabundle-reversed", "a path can be found by searching"),
    ("integer-key", "a field that nobody knows"),
    (
        "leaf-with-unknown-extension",
        "an extension that some know, and find empty",
    ),
    (
        "module-id-long-head",
        "other encoding of a text that says the same",
    ),
    (
        "nonce-chunked",
        "other encoding of a string that says the same",
    ),
    (
        "optionals-1024",
        "AWS's text says 512, documents of AWS exceed it",
    ),
    (
        "payload-chunked",
        "other encoding of a string that says the same",
    ),
    (
        "protected-indefinite",
        "other encoding of a header that says the same",
    ),
    (
        "protected-with-kid",
        "a header parameter that changes nothing",
    ),
    (
        "regional-and-zonal-swapped",
        "a path can be found by searching",
    ),
    ("root-left-out", "whoever pins the root need not be sent it"),
    ("root-twice", "a path can be found by searching"),
    (
        "root-with-another-serial",
        "the pinned key signed what follows",
    ),
    (
        "tag-18-long-head",
        "other encoding of a tag that says the same",
    ),
    ("unknown-field", "a field that nobody knows"),
    ("unprotected-indefinite", "other encoding of an empty map"),
    (
        "unprotected-x5chain",
        "a header parameter that changes nothing",
    ),
    (
        "zonal-signed-with-sha256",
        "weaker than the curve, and not broken",
    ),
];

/// `kit.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kit {
    /// [`FORMAT`].
    pub format: String,
    /// The kit's own root, base64 DER. Its key is public: trust it nowhere else.
    pub root: String,
    /// In the order of their checks.
    pub vectors: Vec<Vector>,
}

/// One document and what a verifier must say of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Unique, stable.
    pub id: String,
    /// The document, relative to `kit.json`.
    pub file: String,
    /// SHA-256 of the document, hex.
    pub sha256: String,
    /// The moment to judge as of, Unix milliseconds.
    pub time: u64,
    /// What else is demanded; `null` where only authenticity is asked.
    pub policy: Option<Policy>,
    /// `accept` or `refuse`.
    pub expected: Verdict,
    /// Whether sound verifiers may differ; then the expectation is this project's own.
    pub may_differ: bool,
    /// This project's code of the refusal; others may have their own. Empty where the document is good.
    pub code: String,
    /// Number of the check that decides; 0 where the document is good.
    pub check: u8,
    /// What asks for the check.
    pub clause: String,
    /// The check as a question, or what is particular about this vector.
    pub note: String,
}

/// One vector with its document, ready to be asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// See [`Vector::check`].
    pub check: u8,
    /// See [`Vector::expected`].
    pub expected: Verdict,
    /// See [`Vector::may_differ`].
    pub may_differ: bool,
    /// See [`Vector::code`]; `None` where the vector is somebody else's and has none.
    pub code: Option<String>,
    /// What the verifier is asked.
    pub request: Request,
}

impl Kit {
    /// Makes the kit: the manifest, and each document in the manifest's order.
    pub fn generate() -> (Self, Vec<Vec<u8>>) {
        let scene = Scene::new();
        let mut vectors = Vec::new();
        let mut documents = Vec::new();
        for vector in forge::vectors() {
            let document = scene.document(vector.apply);
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
                may_differ: why_differ(vector.name).is_some(),
                code: vector.code.to_owned(),
                check: vector.check,
                clause: clause(vector.check).to_owned(),
                note: why_differ(vector.name)
                    .unwrap_or(question(vector.check))
                    .to_owned(),
            });
            documents.push(document);
        }
        for case in CASES {
            let document = scene.document(case.document);
            vectors.push(Vector {
                id: case.name.to_owned(),
                file: format!("documents/{}.cbor", case.name),
                sha256: hex(&Sha256::digest(&document)),
                time: case.time(),
                policy: Some(case.demand(&scene)),
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
            root: Base64::encode_string(scene.root()),
            vectors,
        };
        (kit, documents)
    }

    /// Writes `kit.json` and `documents/` into `folder`.
    ///
    /// # Errors
    /// Where a file cannot be written.
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

    /// Reads a kit and all its documents, each compared with its hash.
    ///
    /// # Errors
    /// Where a file is missing or is not what the manifest says.
    pub fn read(folder: &Path) -> Result<Vec<Question>> {
        let path = folder.join("kit.json");
        let json =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let kit: Self = serde_json::from_slice(&json)
            .with_context(|| format!("{} is no kit", path.display()))?;
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

    /// The kit in memory.
    ///
    /// # Errors
    /// Never, unless the generator is at fault.
    pub fn questions() -> Result<Vec<Question>> {
        let (kit, documents) = Self::generate();
        kit.check()?;
        let pairs = kit.vectors.iter().zip(&documents);
        pairs
            .map(|(vector, document)| vector.ask(document, &kit.root))
            .collect()
    }

    /// Whether the manifest is well-formed: identifiers unique, files inside, checks known, codes where they belong.
    ///
    /// # Errors
    /// The first thing that is not.
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

fn why_differ(name: &str) -> Option<&'static str> {
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
