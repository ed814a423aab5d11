//! Text in, vectors out: what the inner API calls.

use std::sync::Arc;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::{Client, Pool, PoolError, Tokenizer, TokenizerError, Tokens};

/// A tokenizer and the inference threads behind it.
pub struct Embedder {
    tokenizer: Arc<Tokenizer>,
    pool: Pool,
}

/// What is to be embedded.
pub enum Inputs {
    /// Texts.
    Texts(Vec<String>),
    /// Word pieces of texts, without the special tokens, which are added.
    Pieces(Vec<Vec<u32>>),
}

/// One unit-length row an input, in order. Has no `Debug`: it holds the user's embeddings.
pub struct Embeddings {
    /// Rows, one after the other.
    pub values: Vec<f32>,
    /// Length of a row.
    pub dimension: usize,
    /// What became of each input.
    pub items: Vec<Item>,
}

/// What became of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Word pieces that were read, special tokens included.
    pub tokens: usize,
    /// There were more, and they were left out.
    pub truncated: bool,
}

/// Why inputs were not embedded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// See [`TokenizerError`].
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl Embedder {
    /// Puts the two together.
    pub fn new(tokenizer: Tokenizer, pool: Pool) -> Self {
        Self {
            tokenizer: Arc::new(tokenizer),
            pool,
        }
    }

    /// As [`embed_for`](Self::embed_for), for a client that is not told from others.
    ///
    /// # Errors
    /// [`EmbedError`].
    pub async fn embed(&self, inputs: Inputs) -> Result<Embeddings, EmbedError> {
        self.embed_for(Client::default(), inputs).await
    }

    /// Embeds `inputs`; `client` takes its turn among others. Dropping the future withdraws what was not computed yet.
    ///
    /// # Errors
    /// [`EmbedError`].
    pub async fn embed_for(
        &self,
        client: Client,
        inputs: Inputs,
    ) -> Result<Embeddings, EmbedError> {
        let tokens = self.tokenize(inputs).await?;
        let items = tokens
            .iter()
            .map(|tokens| Item {
                tokens: tokens.ids.len(),
                truncated: tokens.truncated,
            })
            .collect();
        let values = self
            .pool
            .encode(
                client,
                tokens.into_iter().map(|tokens| tokens.ids).collect(),
            )
            .await?;
        Ok(Embeddings {
            values,
            dimension: self.dimension(),
            items,
        })
    }

    /// Length of an embedding.
    pub fn dimension(&self) -> usize {
        self.pool.encoder().dimension()
    }

    /// Longest text in word pieces, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.pool.encoder().max_tokens()
    }

    /// Implementation, precision and instruction set: `fused-f32-avx2`.
    pub fn engine(&self) -> &'static str {
        self.pool.encoder().name()
    }

    /// Word pieces admitted and not yet encoded.
    pub fn pending_tokens(&self) -> usize {
        self.pool.pending_tokens()
    }

    async fn tokenize(&self, inputs: Inputs) -> Result<Vec<Tokens>, TokenizerError> {
        let texts = match inputs {
            Inputs::Pieces(pieces) => {
                return pieces
                    .iter()
                    .map(|pieces| self.tokenizer.wrap(pieces))
                    .collect();
            }
            Inputs::Texts(texts) => texts,
        };
        // Some hundred microseconds at most; a thread switch would not be cheaper.
        if texts.iter().map(String::len).sum::<usize>() <= INLINE_BYTES {
            return texts
                .iter()
                .map(|text| self.tokenizer.encode(text))
                .collect();
        }
        let tokenizer = Arc::clone(&self.tokenizer);
        tokio::task::spawn_blocking(move || {
            let encode = |text: &String| tokenizer.encode(text);
            // The pool is rayon's own: of as many threads as there are for inference, asleep otherwise.
            texts
                .par_iter()
                .with_min_len(TEXTS_EACH)
                .map(encode)
                .collect()
        })
        .await
        .unwrap_or(Err(TokenizerError::Failed))
    }
}

/// Beyond this many bytes, tokenizing leaves the async runtime.
const INLINE_BYTES: usize = 2048;

/// Fewer texts than this are not worth another thread.
const TEXTS_EACH: usize = 8;
