//! The `tokenizers` library alone, for tests and benchmarks that compare the service's tokens with it.

use tokenizers::{Result, Tokenizer, TruncationParams};

/// Tokenizes a text with the library, truncated to `max_tokens` tokens like the service does.
pub(crate) fn word_pieces(
    json: &[u8],
    max_tokens: usize,
) -> Result<impl Fn(&str) -> Result<Vec<u32>> + use<>> {
    let mut library = Tokenizer::from_bytes(json)?;
    let cut = TruncationParams {
        max_length: max_tokens,
        ..Default::default()
    };
    library.with_padding(None).with_truncation(Some(cut))?;
    Ok(move |text: &str| Ok(library.encode_fast(text, true)?.get_ids().to_vec()))
}
