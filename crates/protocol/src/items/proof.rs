//! The proof of one item, without the others.

use std::collections::BTreeMap;

use attestation::{MAX_CRLS, MAX_DOCUMENT, MAX_MANIFEST, Policy, SignatureMemory, UnixMillis};
use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use merkle::prove::{Nodes, inclusion};
use merkle::tree::{Frontier, Position};
use merkle::verify::{ProofError, root_of};
use merkle::{Hash, MAX_PATH};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::row::{TokenIds, strip_bom};
use super::{Input, TokenUsage, bind_count, input_hash, item_salt, leaf, stated_root, vector_hash};
use crate::bundle::{AuditBundle, BundleReport, Commitments};
use crate::commitment;
use crate::inner::InnerRequest;
use crate::json::JsonText;
use crate::receipt::{MAX_RECEIPT, ReceiptReport};
use crate::terms::{SALT_LEN, Terms};
use crate::vectors::{self, Vectors};

/// Value of the member `format` of evidence.
pub const EVIDENCE_FORMAT: &str = "clearseal-vector-evidence/1";
/// Value of the member `format` of a proof.
pub const PROOF_FORMAT: &str = "clearseal-vector-proof/1";
/// Longest of either as JSON, in bytes.
pub const MAX_LINE: usize = 256 * 1024 + MAX_CRLS.div_ceil(3) * 4;

/// The part that all proofs of one answer share. Reveals the prompt, and nothing about any text or vector.
#[derive(Clone)]
pub struct Evidence {
    /// The receipt as signed.
    pub receipt: Vec<u8>,
    /// The attestation document that the receipt names.
    pub document: Vec<u8>,
    /// The service manifest that the document binds.
    pub manifest: Vec<u8>,
    /// Revocation lists of that time, in DER, one after another; may be empty.
    pub crls: Vec<u8>,
    /// [`commitment::content_hash`] of the answer.
    pub content_hash: Hash,
    /// Number of items in the answer.
    pub count: u64,
    /// The prompt before each text; empty if there was none.
    pub prompt: String,
}

/// Proves one item of an answer. Holds the item's salt, with which texts can be tried for this item. No `Debug`.
#[derive(Clone)]
pub struct VectorProof {
    /// [`Evidence::id`] of its evidence.
    pub evidence: String,
    /// Number of the item, from 0.
    pub index: u64,
    /// How much of the input was read.
    pub read: TokenUsage,
    /// See [`item_salt`].
    pub salt: [u8; 32],
    /// From the leaf to the root (RFC 9162 §2.1.3.1).
    pub path: Vec<Hash>,
}

/// Why proofs could not be made, or one could not be appraised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ItemsError {
    /// Neither evidence nor proof.
    #[error("this is not evidence or a proof of a vector")]
    #[coded(
        "PROOF_MALFORMED",
        remedy = "Check that all of the line was copied, and nothing else."
    )]
    Malformed,
    /// The proof belongs to another answer.
    #[error("the proof names another receipt than the evidence holds")]
    #[coded(
        "PROOF_OTHER_EVIDENCE",
        remedy = "Use the evidence from the file that the proof is from."
    )]
    OtherEvidence,
    /// The path cannot be one of this tree.
    #[error(transparent)]
    #[coded(transparent)]
    Path(#[from] ProofError),
    /// Not a row of an index.
    #[error("this is not a row with `embedding`, and `text` or token ids")]
    #[coded(
        "ROW_MALFORMED",
        remedy = "Pass the line as `clearseal embed` wrote it, or a JSON object with these members."
    )]
    Row,
    /// A member of a row other than text and vector was changed.
    #[error("the row states other `tokens` or `truncated` than were read")]
    #[coded(
        "ROW_DIFFERS",
        remedy = "Take the row as it was written; do not rely on its statements about its text."
    )]
    RowDiffers,
    /// Evidence or proof is missing.
    #[error("this is not a line of evidence and the line of one proof")]
    #[coded(
        "PROOF_INCOMPLETE",
        remedy = "Pass the line of evidence that comes before the proof in its file, and the proof's own line."
    )]
    Incomplete,
    /// Evidence or proofs of several rows.
    #[error("this holds more than one line of evidence and one proof")]
    #[coded(
        "PROOF_SEVERAL",
        remedy = "Pass the proof of one row; `clearseal verify vector` takes whole files."
    )]
    Several,
    /// The bundle has no content, or the answer no items.
    #[error("the answer is not a list of embeddings with a tree over its items")]
    #[coded(
        "ITEMS_ABSENT",
        remedy = "Use a bundle with its content, of an answer with embeddings, from a service that commits to items."
    )]
    Absent,
    /// Request and answer do not give the root that the answer states.
    #[error("the root over the items is not the one that the answer states")]
    #[coded(
        "ITEMS_ROOT_MISMATCH",
        remedy = "Do not rely on the answer: its enclave committed to something else."
    )]
    Root,
}

impl Evidence {
    /// Hex SHA-256 of the receipt.
    pub fn id(&self) -> String {
        base16ct::lower::encode_string(&Sha256::digest(&self.receipt))
    }

    /// Reads one line of a file of proofs.
    ///
    /// # Errors
    /// [`ItemsError::Malformed`].
    pub fn from_json(json: &str) -> Result<Self, ItemsError> {
        let json: EvidenceJson = parse_line(json)?;
        if json.format != EVIDENCE_FORMAT {
            return Err(ItemsError::Malformed);
        }
        Ok(Self {
            receipt: bytes(&json.receipt, MAX_RECEIPT)?,
            document: bytes(&json.document, MAX_DOCUMENT)?,
            manifest: bytes(&json.manifest, MAX_MANIFEST)?,
            crls: match &json.crls {
                Some(crls) => bytes(crls, MAX_CRLS)?,
                None => Vec::new(),
            },
            content_hash: hash(&json.content_hash)?,
            count: json.count,
            prompt: json.prompt,
        })
    }

    /// Writes one line.
    pub fn to_json(&self) -> String {
        let json = EvidenceJson {
            format: EVIDENCE_FORMAT.to_owned(),
            receipt: Base64UrlUnpadded::encode_string(&self.receipt),
            document: Base64UrlUnpadded::encode_string(&self.document),
            manifest: Base64UrlUnpadded::encode_string(&self.manifest),
            crls: (!self.crls.is_empty()).then(|| Base64UrlUnpadded::encode_string(&self.crls)),
            content_hash: Base64UrlUnpadded::encode_string(&self.content_hash),
            count: self.count,
            prompt: self.prompt.clone(),
        };
        // Strings and numbers are always JSON.
        serde_json::to_string(&json).unwrap_or_default()
    }

    /// Verifies that `vector` was computed from `input` after [`prompt`](Self::prompt), by the model and in the image that the receipt names, against `policy` and
    /// as of the receipt's time. A wrong input or vector gives a receipt refused with `RESPONSE_HASH_MISMATCH`.
    ///
    /// # Errors
    /// [`ItemsError`] if the proof cannot belong to this evidence.
    pub fn verify(
        &self,
        proof: &VectorProof,
        input: Input<'_>,
        vector: &[f32],
        policy: &Policy,
        memory: &mut SignatureMemory,
    ) -> Result<BundleReport, ItemsError> {
        let input = input_hash(&proof.salt, input.after(&self.prompt));
        self.verify_hashes(proof, input, vector, policy, memory)
    }

    /// Like [`verify`](Self::verify), for the hash of an input.
    pub(super) fn verify_hashes(
        &self,
        proof: &VectorProof,
        input: Hash,
        vector: &[f32],
        policy: &Policy,
        memory: &mut SignatureMemory,
    ) -> Result<BundleReport, ItemsError> {
        if proof.evidence != self.id() {
            return Err(ItemsError::OtherEvidence);
        }
        let leaf = leaf(
            proof.index,
            &input,
            &vector_hash(&proof.salt, vector),
            proof.read,
        );
        let tree = root_of(&leaf, proof.index, self.count, &proof.path)?;
        let root = bind_count(self.count, &tree);
        let commitments = Commitments {
            request: None,
            response: Some(commitment::with_items(&self.content_hash, &root)),
        };
        let bundle = AuditBundle {
            receipt: self.receipt.clone(),
            document: self.document.clone(),
            manifest: self.manifest.clone(),
            content: None,
            salt: None,
            crls: self.crls.clone(),
        };
        Ok(bundle.appraise(policy, commitments, || None, memory).0)
    }
}

/// The line of evidence and the line of one proof, in either order.
///
/// # Errors
/// [`ItemsError::Malformed`], [`ItemsError::Incomplete`] or [`ItemsError::Several`].
pub fn read_proof(lines: &str) -> Result<(Evidence, VectorProof), ItemsError> {
    let (mut evidence, mut proof) = (None, None);
    for line in strip_bom(lines)
        .lines()
        .filter(|line| !line.trim().is_empty())
    {
        let again = match Evidence::from_json(line) {
            Ok(one) => evidence.replace(one).is_some(),
            Err(_) => proof.replace(VectorProof::from_json(line)?).is_some(),
        };
        if again {
            return Err(ItemsError::Several);
        }
    }
    evidence.zip(proof).ok_or(ItemsError::Incomplete)
}

impl VectorProof {
    /// Reads one line of a file of proofs.
    ///
    /// # Errors
    /// [`ItemsError::Malformed`].
    pub fn from_json(json: &str) -> Result<Self, ItemsError> {
        let json: ProofJson = parse_line(json)?;
        if json.format != PROOF_FORMAT || json.path.len() > MAX_PATH {
            return Err(ItemsError::Malformed);
        }
        Ok(Self {
            evidence: json.evidence,
            index: json.index,
            read: TokenUsage {
                tokens: json.tokens,
                truncated: json.truncated,
            },
            salt: hash(&json.salt)?,
            path: json
                .path
                .iter()
                .map(|node| hash(node))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Writes one line.
    pub fn to_json(&self) -> String {
        let json = ProofJson {
            format: PROOF_FORMAT.to_owned(),
            evidence: self.evidence.clone(),
            index: self.index,
            tokens: self.read.tokens,
            truncated: self.read.truncated,
            salt: Base64UrlUnpadded::encode_string(&self.salt),
            path: self
                .path
                .iter()
                .map(|node| Base64UrlUnpadded::encode_string(node))
                .collect(),
        };
        // Strings and numbers are always JSON.
        serde_json::to_string(&json).unwrap_or_default()
    }
}

/// Evidence of an answer and a proof for each of its items, in their order, from a bundle with its content.
///
/// # Errors
/// [`ItemsError::Absent`], or [`ItemsError::Root`] if the enclave committed to something other than its answer.
pub fn prove(bundle: &AuditBundle) -> Result<(Evidence, Vec<VectorProof>), ItemsError> {
    let content = bundle.content.as_ref().ok_or(ItemsError::Absent)?;
    // An answer to another kind of request is not wrong.
    stated_root(&content.response).ok_or(ItemsError::Absent)?;
    let (salt, request): (_, RequestInputs) = parse_request(&content.request)?;
    let prompt = parse_prompt(&content.response);
    let items_given = parse_answer_items(&content.response).ok_or(ItemsError::Absent)?;
    let inputs = request.input.items();
    if inputs.len() != items_given.len() {
        return Err(ItemsError::Root);
    }
    let mut items = Vec::with_capacity(inputs.len());
    for (index, (input, (vector, read))) in (0..).zip(inputs.into_iter().zip(items_given)) {
        let salt = item_salt(&salt, index);
        let leaf = leaf(
            index,
            &input_hash(&salt, input.after(&prompt)),
            &vector_hash(&salt, &vector),
            read,
        );
        items.push(Proven { leaf, salt, read });
    }
    prove_leaves(bundle, &salt, &content.response, items, prompt)
}

/// An item whose leaf is known.
pub(super) struct Proven {
    pub(super) leaf: Hash,
    pub(super) salt: Zeroizing<[u8; 32]>,
    pub(super) read: TokenUsage,
}

/// Evidence and proofs of `items`, whose root must be the one that `response` states.
pub(super) fn prove_leaves(
    bundle: &AuditBundle,
    salt: &[u8; SALT_LEN],
    response: &[u8],
    items: Vec<Proven>,
    prompt: String,
) -> Result<(Evidence, Vec<VectorProof>), ItemsError> {
    let stated = stated_root(response).ok_or(ItemsError::Absent)?;
    let (mut tree, mut nodes) = (Frontier::new(), Stored::default());
    for item in &items {
        tree.append(&item.leaf, |position, hash| {
            nodes.0.insert(position, hash);
        });
    }
    if bind_count(tree.size(), &tree.root()) != stated {
        return Err(ItemsError::Root);
    }
    let evidence = Evidence {
        receipt: bundle.receipt.clone(),
        document: bundle.document.clone(),
        manifest: bundle.manifest.clone(),
        crls: bundle.crls.clone(),
        content_hash: commitment::content_hash(salt, response),
        count: tree.size(),
        prompt,
    };
    let id = evidence.id();
    let proofs = (0..).zip(items).map(|(index, item)| {
        Ok(VectorProof {
            evidence: id.clone(),
            index,
            read: item.read,
            salt: *item.salt,
            path: inclusion(&nodes, index, tree.size())?,
        })
    });
    Ok((evidence, proofs.collect::<Result<_, ItemsError>>()?))
}

/// The refusal of a row whose statements about its text are not true.
pub(super) fn refuse_row(read: TokenUsage) -> ReceiptReport {
    let differs = ItemsError::RowDiffers;
    let TokenUsage { tokens, truncated } = read;
    let message = format!("{differs}: {tokens}, {truncated}.");
    ReceiptReport::refused_unchecked(differs.code(), &message, differs.remedy(), UnixMillis(0))
}

/// Every complete subtree of a tree in memory.
#[derive(Default)]
struct Stored(BTreeMap<Position, Hash>);

impl Nodes for Stored {
    type Error = ItemsError;

    fn node(&self, position: Position) -> Result<Hash, ItemsError> {
        self.0.get(&position).copied().ok_or(ItemsError::Root)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvidenceJson {
    format: String,
    receipt: String,
    document: String,
    manifest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crls: Option<String>,
    content_hash: String,
    count: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prompt: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProofJson {
    format: String,
    evidence: String,
    index: u64,
    tokens: u32,
    truncated: bool,
    salt: String,
    path: Vec<String>,
}

/// The salt and the content of a request, as the enclave reads them.
pub(super) fn parse_request<T: for<'de> Deserialize<'de>>(
    request: &[u8],
) -> Result<([u8; SALT_LEN], T), ItemsError> {
    let request = InnerRequest::decode(request).map_err(|_| ItemsError::Absent)?;
    let salt = Terms::read(&request).map_err(|_| ItemsError::Absent)?.salt;
    let text = JsonText::read(&request.content).map_err(|_| ItemsError::Absent)?;
    let content = serde_json::from_str(&text).map_err(|_| ItemsError::Absent)?;
    Ok((salt, content))
}

/// The part of a request that holds the inputs.
#[derive(Deserialize)]
struct RequestInputs {
    input: Inputs,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Inputs {
    Text(String),
    Texts(Vec<String>),
    Tokens(TokenIds),
    Lists(Vec<TokenIds>),
}

impl Inputs {
    fn items(&self) -> Vec<Input<'_>> {
        match self {
            Self::Text(text) => vec![Input::Text(text)],
            Self::Texts(texts) => texts.iter().map(|text| Input::Text(text)).collect(),
            Self::Tokens(ids) => vec![Input::Tokens(&ids.0)],
            Self::Lists(lists) => lists.iter().map(|ids| Input::Tokens(&ids.0)).collect(),
        }
    }
}

/// The prompt that an answer states, JSON or tensors; empty if it states none.
fn parse_prompt(content: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        clearseal: Remarks,
    }
    #[derive(Deserialize)]
    struct Remarks {
        #[serde(default)]
        prompt: String,
    }
    if let Some(prompt) = vectors::stated_prompt(content) {
        return prompt.to_owned();
    }
    let answer = serde_json::from_slice::<Answer>(content);
    answer.map_or_else(|_| String::new(), |answer| answer.clearseal.prompt)
}

/// The items of an answer, JSON or tensors.
fn parse_answer_items(content: &[u8]) -> Option<Vec<(Vec<f32>, TokenUsage)>> {
    let Ok(vectors) = Vectors::decode(content) else {
        let items_given: AnswerItems = serde_json::from_slice(content).ok()?;
        let items = items_given.data.into_iter();
        return items
            .map(|item| Some((item.embedding.floats()?, item.clearseal.into())))
            .collect();
    };
    let read = vectors.tokens.iter().zip(&vectors.truncated);
    let read = read.map(|(&tokens, &truncated)| TokenUsage { tokens, truncated });
    let rows = vectors.rows().map(<[f32]>::to_vec);
    Some(rows.zip(read).collect())
}

/// The part of an answer in JSON that holds the items.
#[derive(Deserialize)]
struct AnswerItems {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    embedding: Vector,
    clearseal: ReadJson,
}

#[derive(Clone, Copy, Deserialize)]
struct ReadJson {
    tokens: u32,
    truncated: bool,
}

impl From<ReadJson> for TokenUsage {
    fn from(ReadJson { tokens, truncated }: ReadJson) -> Self {
        Self { tokens, truncated }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vector {
    Base64(String),
    Floats(Vec<f32>),
}

impl Vector {
    fn floats(self) -> Option<Vec<f32>> {
        match self {
            Self::Floats(values) => Some(values),
            Self::Base64(text) => {
                let bytes = Base64::decode_vec(&text).ok()?;
                let (values, rest) = bytes.as_chunks::<4>();
                let values = values.iter().map(|value| f32::from_le_bytes(*value));
                rest.is_empty().then(|| values.collect())
            }
        }
    }
}

fn parse_line<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, ItemsError> {
    if json.len() > MAX_LINE {
        return Err(ItemsError::Malformed);
    }
    serde_json::from_str(strip_bom(json)).map_err(|_| ItemsError::Malformed)
}

fn bytes(text: &str, limit: usize) -> Result<Vec<u8>, ItemsError> {
    let decoded = Base64UrlUnpadded::decode_vec(text).map_err(|_| ItemsError::Malformed)?;
    (decoded.len() <= limit)
        .then_some(decoded)
        .ok_or(ItemsError::Malformed)
}

fn hash(text: &str) -> Result<Hash, ItemsError> {
    bytes(text, 32)?
        .try_into()
        .map_err(|_| ItemsError::Malformed)
}
