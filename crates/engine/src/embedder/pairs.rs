//! Scores pairs of a query and each of several documents.

use std::sync::{Arc, Weak};

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use zeroize::Zeroize;

use super::{EmbedError, Embedder, Embeddings, INLINE_BYTES, Overlong, TEXTS_EACH, with_index};
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
            let encode = |text| self.tokenizer.encode_pair(&pairs.query, text);
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
    let encode = |(index, text): (usize, &String)| match awaited.strong_count() {
        0 => Err(EmbedError::Pool(PoolError::Failed)),
        _ => with_index(index, tokenizer.encode_pair(&pairs.query, text)),
    };
    let texts = pairs.documents.par_iter().with_min_len(TEXTS_EACH);
    texts.enumerate().map(encode).collect()
}
