//! Embeds texts: the interface that the inner API calls.

mod pairs;

use std::sync::{Arc, Weak};
use std::time::Instant;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use zeroize::Zeroizing;

use super::{Health, LoadError, Observer, Pool, PoolError, Prompts};
use super::{Tokenizer, TokenizerError, Tokens};

pub use pairs::Pairs;

/// A tokenizer and the inference threads.
pub struct Embedder {
    tokenizer: Arc<Tokenizer>,
    pool: Pool,
    prompts: Prompts,
}

/// Inputs to embed.
pub enum Inputs {
    /// Texts.
    Texts(Vec<String>),
    /// Token ids of texts; see [`Tokenizer::wrap`] for special tokens and padding.
    Pieces(Vec<Vec<u32>>),
}

/// How to handle an input that is longer than the model's maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlong {
    /// Truncate it, and set [`Item::truncated`].
    #[default]
    Cut,
    /// Reject all inputs: [`EmbedError::Overlong`].
    Refuse,
}

/// One row per input, in order. Has no `Debug`, because it holds the user's embeddings.
pub struct Embeddings {
    /// Concatenated rows; zeroized when dropped.
    pub values: Zeroizing<Vec<f32>>,
    /// Length of a row.
    pub dimension: usize,
    /// Details of each input.
    pub items: Vec<Item>,
}

/// Details of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Tokens that were encoded, special tokens included.
    pub tokens: usize,
    /// Whether further tokens were dropped.
    pub truncated: bool,
}

/// Why inputs were not embedded. Exhaustive, so that a service must map each variant to an answer.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
pub enum EmbedError {
    /// An input could not be tokenized.
    #[error("input {index} (counted from 0): {error}")]
    #[coded(from = error)]
    Tokenizer {
        /// Position of the input; any of them if there are several.
        index: usize,
        /// The tokenizer's error.
        error: TokenizerError,
    },
    /// An input is longer than the model's maximum, and truncation was not allowed.
    #[error("input {index} (counted from 0) is longer than {max_tokens} tokens")]
    #[coded(
        "INPUT_TOO_LONG",
        remedy = "Split it, or let long inputs be cut: leave `truncate` out."
    )]
    Overlong {
        /// Position of the first such input.
        index: usize,
        /// The model's maximum, special tokens included.
        max_tokens: usize,
    },
    /// See [`PoolError`].
    #[error(transparent)]
    #[coded(transparent)]
    Pool(#[from] PoolError),
}

impl Embedder {
    /// Combines a tokenizer with inference threads.
    ///
    /// # Errors
    /// [`LoadError::Vocabulary`] if the tokenizer has tokens that the model does not have.
    pub fn new(tokenizer: Tokenizer, pool: Pool) -> Result<Self, LoadError> {
        let (pieces, model) = (tokenizer.vocabulary(), pool.encoder().vocabulary());
        if pieces > model {
            return Err(LoadError::Vocabulary {
                tokenizer: pieces,
                model,
            });
        }
        Ok(Self {
            tokenizer: Arc::new(tokenizer),
            pool,
            prompts: Prompts::default(),
        })
    }

    /// Adds the model's prompts, of which the tokenizer has the default one.
    #[must_use]
    pub fn with_prompts(self, prompts: Prompts) -> Self {
        Self { prompts, ..self }
    }

    /// Embeds `inputs`, texts after the model's default prompt. Dropping the future cancels work that has not started.
    ///
    /// # Errors
    /// [`EmbedError`].
    pub async fn embed(
        &self,
        inputs: Inputs,
        overlong: Overlong,
    ) -> Result<Embeddings, EmbedError> {
        let prompt = Zeroizing::new(self.tokenizer.prompt().to_owned());
        self.embed_after(prompt, inputs, overlong).await
    }

    /// Like [`embed`](Self::embed), after `prompt` instead of the default one. Lists of token ids are read without a prompt.
    ///
    /// # Errors
    /// [`EmbedError`].
    pub async fn embed_after(
        &self,
        prompt: Zeroizing<String>,
        inputs: Inputs,
        overlong: Overlong,
    ) -> Result<Embeddings, EmbedError> {
        let deadline = self.pool.deadline();
        let tokenized = self.tokenize(prompt, inputs);
        let tokens = match tokio::time::timeout_at(deadline.into(), tokenized).await {
            Ok(tokens) => tokens?,
            Err(_) => return Err(PoolError::Deadline.into()),
        };
        self.encode_tokens(tokens, overlong, deadline).await
    }

    async fn encode_tokens(
        &self,
        tokens: Vec<Tokens>,
        overlong: Overlong,
        deadline: Instant,
    ) -> Result<Embeddings, EmbedError> {
        if overlong == Overlong::Refuse
            && let Some(index) = tokens.iter().position(|tokens| tokens.truncated)
        {
            let max_tokens = self.max_tokens();
            return Err(EmbedError::Overlong { index, max_tokens });
        }
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
                tokens
                    .into_iter()
                    .map(|mut tokens| std::mem::take(&mut *tokens.ids))
                    .collect(),
                deadline,
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

    /// The model's prompts.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Whether embeddings have unit length.
    pub fn is_normalised(&self) -> bool {
        self.pool.encoder().is_normalised()
    }

    /// Longest text in tokens, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.pool.encoder().max_tokens()
    }

    /// Implementation, precision and instruction set: `fused-f32-avx2`.
    pub fn engine(&self) -> &'static str {
        self.pool.encoder().name()
    }

    /// Whether requests can be computed.
    pub fn health(&self) -> Health {
        self.pool.health()
    }

    /// Sets the `observer` of queueing and computing times. Later calls have no effect.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.pool.observe(observer);
    }

    async fn tokenize(
        &self,
        prompt: Zeroizing<String>,
        inputs: Inputs,
    ) -> Result<Vec<Tokens>, EmbedError> {
        let texts = match inputs {
            Inputs::Pieces(pieces) => {
                let pieces = Zeroizing::new(pieces);
                return pieces
                    .iter()
                    .enumerate()
                    .map(|(index, pieces)| with_index(index, self.tokenizer.wrap(pieces)))
                    .collect();
            }
            Inputs::Texts(texts) => Zeroizing::new(texts),
        };
        // Takes at most some hundred microseconds; switching threads would not be cheaper.
        let bytes = texts.iter().map(|text| prompt.len() + text.len());
        if bytes.sum::<usize>() <= INLINE_BYTES {
            return texts
                .iter()
                .enumerate()
                .map(|(index, text)| with_index(index, self.tokenizer.encode_after(&prompt, text)))
                .collect();
        }
        let (tokens, _) = tokenize_on_rayon(Arc::clone(&self.tokenizer), prompt, texts);
        tokens.await
    }
}

fn with_index<T>(index: usize, outcome: Result<T, TokenizerError>) -> Result<T, EmbedError> {
    outcome.map_err(|error| EmbedError::Tokenizer { index, error })
}

/// Tokenizes on rayon's threads until the future is dropped: the future holds a guard that they check. The returned weak
/// reference lets a test check whether the guard still exists.
fn tokenize_on_rayon(
    tokenizer: Arc<Tokenizer>,
    prompt: Zeroizing<String>,
    texts: Zeroizing<Vec<String>>,
) -> (
    impl Future<Output = Result<Vec<Tokens>, EmbedError>>,
    Weak<()>,
) {
    let waiting = Arc::new(());
    let awaited = Arc::downgrade(&waiting);
    let watched = Weak::clone(&awaited);
    let tokens =
        tokio::task::spawn_blocking(move || tokenize(&tokenizer, &prompt, &texts, &watched));
    let tokens = async move {
        let tokens = tokens.await;
        drop(waiting);
        tokens.unwrap_or(Err(EmbedError::Pool(PoolError::Failed)))
    };
    (tokens, awaited)
}

/// Tokenizes on several threads; stops once the guard behind `awaited` has been dropped.
fn tokenize(
    tokenizer: &Tokenizer,
    prompt: &str,
    texts: &[String],
    awaited: &Weak<()>,
) -> Result<Vec<Tokens>, EmbedError> {
    let encode = |(index, text): (usize, &String)| match awaited.strong_count() {
        0 => Err(EmbedError::Pool(PoolError::Failed)),
        _ => with_index(index, tokenizer.encode_after(prompt, text)),
    };
    // Rayon's global pool: as many threads as for inference, asleep otherwise.
    let texts = texts.par_iter().with_min_len(TEXTS_EACH);
    texts.enumerate().map(encode).collect()
}

/// Longer inputs are tokenized outside the async runtime.
const INLINE_BYTES: usize = 2048;

/// Fewer texts than this are not worth another thread.
const TEXTS_EACH: usize = 8;

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::super::fused::tests::{TINY, random_model, weights};
    use super::super::{EngineChoice, PoolLimits, Precision, Shape};
    use super::*;

    /// A tokenizer with `pieces` tokens in addition to the special ones, and a model with `vocabulary` tokens.
    pub(super) fn tiny_embedder(pieces: u32, vocabulary: usize) -> Result<Embedder, LoadError> {
        let words = (0..pieces).map(|n| format!("word{n}"));
        let tokenizer =
            Tokenizer::from_json(&fixtures::tokenizer::tokenizer_json(words), TINY.max_tokens);
        let shape = Shape { vocabulary, ..TINY };
        let weights = weights(&random_model(&shape, 1), "");
        let one = NonZeroUsize::MIN;
        let encoder = EngineChoice::Fused.build(shape, weights, Precision::F32, one)?;
        Embedder::new(
            tokenizer.unwrap(),
            Pool::start(encoder, 1, PoolLimits::default())?,
        )
    }

    #[test]
    fn word_pieces_without_an_embedding_are_refused_at_start() {
        let of_tokenizer = tiny_embedder(10, 100).unwrap().tokenizer.vocabulary();
        assert!(tiny_embedder(10, of_tokenizer).is_ok());
        let error = tiny_embedder(10, of_tokenizer - 1).err().unwrap();
        assert_eq!(error.code(), "ENGINE_VOCABULARY");
    }

    #[tokio::test]
    async fn each_text_is_read_after_the_prompt() {
        let embedder = tiny_embedder(10, 100).unwrap();
        // Few texts are tokenized by the caller, many on rayon's threads.
        for count in [1, 400] {
            let texts = |text: &str| Inputs::Texts(vec![text.to_owned(); count]);
            let embed = |prompt: &str, text| {
                let prompt = Zeroizing::new(prompt.to_owned());
                embedder.embed_after(prompt, texts(text), Overlong::Cut)
            };
            let joined = embed("", "word1 word2").await.unwrap();
            let prompted = embed("word1 ", "word2").await.unwrap();
            assert_eq!(prompted.items, joined.items);
            assert_eq!(prompted.values, joined.values);
            let bare = embed("", "word2").await.unwrap();
            assert_ne!(bare.items, joined.items);
        }
    }

    #[tokio::test]
    async fn texts_of_a_cancelled_request_are_not_tokenized() {
        let embedder = tiny_embedder(10, 100).unwrap();
        let texts = vec!["word1 word2".to_owned(); 3];
        let elsewhere = || {
            tokenize_on_rayon(
                Arc::clone(&embedder.tokenizer),
                Zeroizing::default(),
                Zeroizing::new(texts.clone()),
            )
        };
        let (tokens, awaited) = elsewhere();
        assert_eq!(awaited.strong_count(), 1);
        assert_eq!(tokens.await.unwrap().len(), 3);
        let (tokens, awaited) = elsewhere();
        drop(tokens);
        assert_eq!(awaited.strong_count(), 0);

        let waiting = Arc::new(());
        let awaited = Arc::downgrade(&waiting);
        let tokens = tokenize(&embedder.tokenizer, "", &texts, &awaited).unwrap();
        assert_eq!(tokens.len(), 3);
        drop(waiting);
        let refused = tokenize(&embedder.tokenizer, "", &texts, &awaited);
        assert!(matches!(refused, Err(EmbedError::Pool(PoolError::Failed))));
    }

    #[tokio::test]
    async fn the_input_that_cannot_be_read_is_named() {
        let embedder = tiny_embedder(10, 100).unwrap();
        let pieces = Inputs::Pieces(vec![vec![5], vec![2, 5]]);
        let long = "x".repeat(crate::tokenize::MAX_TEXT_BYTES + 1);
        let texts = Inputs::Texts(vec!["word1".to_owned(), long]);
        for inputs in [pieces, texts] {
            let error = embedder.embed(inputs, Overlong::Cut).await.err().unwrap();
            let message = error.to_string();
            assert!(
                message.starts_with("input 1 (counted from 0): "),
                "{message}"
            );
        }
    }
}
