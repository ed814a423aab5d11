//! Items of an answer to `/v1/rerank`: a pair of a query and a document, and its score.

use attestation::{Policy, SignatureMemory, Verdict};
use merkle::Hash;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::proof::{
    Evidence, ItemsError, Proven, VectorProof, parse_request, prove_leaves, refuse_row,
};
use super::row::strip_bom;
use super::{INPUT_LABEL, MAX_ROW, TokenUsage, item_salt, leaf, vector_hash};
use crate::bundle::{AuditBundle, BundleReport};

/// Commitment to a pair: SHA-256("clearseal/1 item input" ‖ 0x00 ‖ item salt ‖ 0x03 ‖ length of the query, 8 bytes, big-endian ‖
/// query ‖ document). Its score is committed to as a vector of one component.
pub fn pair_hash(item_salt: &[u8; 32], query: &str, document: &str) -> Hash {
    Sha256::new()
        .chain_update(INPUT_LABEL)
        .chain_update(item_salt)
        .chain_update([3])
        .chain_update((query.len() as u64).to_be_bytes())
        .chain_update(query)
        .chain_update(document)
        .finalize()
        .into()
}

/// A scored pair in the format of `clearseal rerank`, a JSON object on a line; `tokens` and `truncated` state how much of it was
/// read. No `Debug`: it holds the user's content.
#[derive(Deserialize)]
pub struct PairRow {
    /// The first text.
    pub query: String,
    /// The second one.
    pub document: String,
    /// The score of both.
    pub relevance_score: f32,
    #[serde(default)]
    tokens: Option<u32>,
    #[serde(default)]
    truncated: Option<bool>,
}

impl PairRow {
    /// Reads one row.
    ///
    /// # Errors
    /// [`ItemsError::Row`], also for more than [`MAX_ROW`] bytes.
    pub fn from_json(json: &str) -> Result<Self, ItemsError> {
        if json.len() > MAX_ROW {
            return Err(ItemsError::Row);
        }
        serde_json::from_str(strip_bom(json)).map_err(|_| ItemsError::Row)
    }

    fn agrees_with(&self, read: TokenUsage) -> bool {
        self.tokens.is_none_or(|count| count == read.tokens)
            && self.truncated.is_none_or(|cut| cut == read.truncated)
    }
}

impl Evidence {
    /// Verifies that the row's score was computed from its pair, as [`verify_row`](Self::verify_row) does for a vector and its text.
    ///
    /// # Errors
    /// [`ItemsError`] if the proof cannot belong to this evidence.
    pub fn verify_pair(
        &self,
        proof: &VectorProof,
        row: &PairRow,
        policy: &Policy,
        memory: &mut SignatureMemory,
    ) -> Result<BundleReport, ItemsError> {
        let input = pair_hash(&proof.salt, &row.query, &row.document);
        let mut report =
            self.verify_hashes(proof, input, &[row.relevance_score], policy, memory)?;
        if report.receipt.verdict != Verdict::Refused && !row.agrees_with(proof.read) {
            report.receipt = refuse_row(proof.read);
        }
        Ok(report)
    }
}

/// Like [`prove`](super::prove), for an answer to `/v1/rerank`: item i is its i-th result.
///
/// # Errors
/// Those of [`prove`](super::prove).
pub fn prove_pairs(bundle: &AuditBundle) -> Result<(Evidence, Vec<VectorProof>), ItemsError> {
    let content = bundle.content.as_ref().ok_or(ItemsError::Absent)?;
    let (salt, request): (_, Request) = parse_request(&content.request)?;
    let answer = serde_json::from_slice::<Answer>(&content.response);
    let results = answer.map_err(|_| ItemsError::Absent)?.results;
    let mut items = Vec::with_capacity(results.len());
    for (index, result) in (0..).zip(results) {
        let document = request.documents.get(result.index);
        let document = document.ok_or(ItemsError::Root)?.text();
        let salt = item_salt(&salt, index);
        let read = TokenUsage {
            tokens: result.clearseal.tokens,
            truncated: result.clearseal.truncated,
        };
        let leaf = leaf(
            index,
            &pair_hash(&salt, &request.query, document),
            &vector_hash(&salt, &[result.relevance_score]),
            read,
        );
        items.push(Proven { leaf, salt, read });
    }
    prove_leaves(bundle, &salt, &content.response, items, String::new())
}

/// The part of a request that holds the texts.
#[derive(Deserialize)]
struct Request {
    query: String,
    documents: Vec<Document>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Object { text } => text,
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Scored>,
}

#[derive(Deserialize)]
struct Scored {
    index: usize,
    relevance_score: f32,
    clearseal: ReadJson,
}

#[derive(Deserialize)]
struct ReadJson {
    tokens: u32,
    truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::super::{Input, input_hash};
    use super::*;

    #[test]
    fn a_pair_is_not_a_text_after_a_prompt_and_has_one_place_to_split() {
        let salt = item_salt(&[1; 32], 0);
        let all = [
            pair_hash(&salt, "ab", "cd"),
            pair_hash(&salt, "abc", "d"),
            pair_hash(&salt, "", "abcd"),
            pair_hash(&item_salt(&[1; 32], 1), "ab", "cd"),
            input_hash(&salt, Input::Prompted("ab", "cd")),
            input_hash(&salt, Input::Text("abcd")),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{place}");
        }
    }

    #[test]
    fn a_row_is_a_query_a_document_and_a_score() {
        let row = r#"{"index":1,"query":"q","document":"d","relevance_score":0.5,"tokens":4,"truncated":false}"#;
        let row = PairRow::from_json(row).ok();
        let row = row.filter(|row| (&*row.query, &*row.document) == ("q", "d"));
        let read = TokenUsage {
            tokens: 4,
            truncated: false,
        };
        assert!(row.as_ref().is_some_and(|row| row.agrees_with(read)));
        let longer = TokenUsage { tokens: 5, ..read };
        assert!(row.is_some_and(|row| !row.agrees_with(longer)));
        for other in [r#"{"query":"q","document":"d"}"#, "[]", ""] {
            assert!(PairRow::from_json(other).is_err(), "{other}");
        }
    }
}
