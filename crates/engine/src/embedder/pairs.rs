//! Scores pairs of a query and each of several documents.

use std::sync::{Arc, Weak};

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use zeroize::Zeroize;

use super::{EmbedError, Embedder, Embeddings, INLINE_BYTES, Overlong, TEXTS_EACH, with_index};
use crate::tokenize::TokenizedText;
use crate::{PoolError, Tokenizer, Tokens};

/// A query and the documents to score for it; zeroized when dropped. Has no `Debug`, because it holds the user's texts.
pub struct Pairs {
    /// The first text of every pair.
    pub query: String,
    /// The second text of each pair.
    pub documents: Vec<String>,
}

impl Drop for Pairs {
    fn drop(&mut self) {
        self.query.zeroize();
        self.documents.zeroize();
    }
}

impl Embedder {
    /// Whether the model scores pairs of texts, in place of embedding each.
    pub fn reads_pairs(&self) -> bool {
        self.tokenizer.reads_pairs()
    }

    /// Scores each document: a row of one number, in their order. Only for a model that [reads pairs](Self::reads_pairs).
    /// Dropping the future cancels work that has not started.
    ///
    /// # Errors
    /// [`EmbedError`]; its index is that of a document.
    pub async fn rerank(
        &self,
        pairs: Arc<Pairs>,
        overlong: Overlong,
    ) -> Result<Embeddings, EmbedError> {
        let deadline = self.pool.deadline();
        let tokenized = self.tokenize_pairs(pairs);
        let tokens = match tokio::time::timeout_at(deadline.into(), tokenized).await {
            Ok(tokens) => tokens?,
            Err(_) => return Err(PoolError::Deadline.into()),
        };
        self.encode_tokens(tokens, overlong, deadline).await
    }

    async fn tokenize_pairs(&self, pairs: Arc<Pairs>) -> Result<Vec<Tokens>, EmbedError> {
        let each = pairs.documents.iter();
        let bytes = each.clone().map(|text| pairs.query.len() + text.len());
        if bytes.sum::<usize>() <= INLINE_BYTES {
            let Some(query) = tokenize_query(&self.tokenizer, &pairs)? else {
                return Ok(Vec::new());
            };
            let encode = |text| self.tokenizer.encode_document(&query, text);
            let tokens = each.enumerate();
            return tokens
                .map(|(index, text)| with_index(index, encode(text)))
                .collect();
        }
        let waiting = Arc::new(());
        let awaited = Arc::downgrade(&waiting);
        let tokenizer = Arc::clone(&self.tokenizer);
        let tokens = tokio::task::spawn_blocking(move || tokenize(&tokenizer, &pairs, &awaited));
        let tokens = tokens.await;
        drop(waiting);
        tokens.unwrap_or(Err(EmbedError::Pool(PoolError::Failed)))
    }
}

/// Tokenizes on several threads; stops once the guard behind `awaited` has been dropped.
fn tokenize(
    tokenizer: &Tokenizer,
    pairs: &Pairs,
    awaited: &Weak<()>,
) -> Result<Vec<Tokens>, EmbedError> {
    let Some(query) = tokenize_query(tokenizer, pairs)? else {
        return Ok(Vec::new());
    };
    let encode = |(index, text): (usize, &String)| match awaited.strong_count() {
        0 => Err(EmbedError::Pool(PoolError::Failed)),
        _ => with_index(index, tokenizer.encode_document(&query, text)),
    };
    let texts = pairs.documents.par_iter().with_min_len(TEXTS_EACH);
    texts.enumerate().map(encode).collect()
}

/// Tokenizes the query once for all documents; `None` if there are none. Its error names the first document.
fn tokenize_query(
    tokenizer: &Tokenizer,
    pairs: &Pairs,
) -> Result<Option<TokenizedText>, EmbedError> {
    if pairs.documents.is_empty() {
        return Ok(None);
    }
    with_index(0, tokenizer.tokenize_query(&pairs.query)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::tests::tiny_embedder;
    use super::*;
    use crate::tokenize::MAX_TEXT_BYTES;

    /// An embedder's tokenizer reads pairs; its model is not asked.
    fn embedder() -> Embedder {
        let mut embedder = tiny_embedder(10, 100).unwrap();
        let words = (0..10).map(|n| format!("word{n}"));
        let json = fixtures::tokenizer::tokenizer_json(words);
        let tokenizer = Tokenizer::from_json(&json, embedder.max_tokens()).unwrap();
        embedder.tokenizer = Arc::new(tokenizer.into_pairs(0, 0).unwrap());
        embedder
    }

    fn pairs(query: &str, documents: &[&str]) -> Arc<Pairs> {
        Arc::new(Pairs {
            query: query.to_owned(),
            documents: documents.iter().map(|text| (*text).to_owned()).collect(),
        })
    }

    #[tokio::test]
    async fn each_document_is_paired_with_the_query() {
        let embedder = embedder();
        let long = "word3 ".repeat(100);
        let documents = ["word1", "", "word1 word2", &*long];
        for query in ["word0", &*"word4 ".repeat(500)] {
            let expected = documents.map(|text| embedder.tokenizer.encode_pair(query, text));
            let expected: Vec<_> = expected.into_iter().map(Result::unwrap).collect();
            let tokens = embedder.tokenize_pairs(pairs(query, &documents)).await;
            assert_eq!(tokens.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn the_document_that_cannot_be_read_is_named() {
        let embedder = embedder();
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        for (query, documents, place) in [
            ("word0", &["word1", &*long][..], 1),
            (&long, &["word1", "word2"], 0),
        ] {
            let tokens = embedder.tokenize_pairs(pairs(query, documents)).await;
            let Err(EmbedError::Tokenizer { index, .. }) = tokens else {
                panic!("expected an error of the tokenizer");
            };
            assert_eq!(index, place);
        }
        let none = embedder.tokenize_pairs(pairs(&long, &[])).await.unwrap();
        assert!(none.is_empty());
    }
}
