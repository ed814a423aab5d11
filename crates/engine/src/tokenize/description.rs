//! Reads what the service needs from `tokenizer.json`.

use super::TokenizerError;

/// Builds the library's tokenizer from a description.
///
/// The library copies the vocabulary to find out the kind of model, and again to read it. Reading it directly as WordPiece,
/// which is BERT's kind, takes a fifth of the time and memory. The library reads every other kind.
pub(super) fn read(json: &[u8]) -> tokenizers::Result<tokenizers::Tokenizer> {
    type WordPieceTokenizer = tokenizers::TokenizerImpl<
        tokenizers::models::wordpiece::WordPiece,
        tokenizers::NormalizerWrapper,
        tokenizers::PreTokenizerWrapper,
        tokenizers::PostProcessorWrapper,
        tokenizers::DecoderWrapper,
    >;
    match serde_json::from_slice::<WordPieceTokenizer>(json) {
        Ok(tokenizer) => Ok(tokenizer.into()),
        Err(_) => tokenizers::Tokenizer::from_bytes(json),
    }
}

/// Returns the largest token id. Without gaps that is the number of tokens less one, which avoids asking for the vocabulary:
/// the library copies it twice to return it.
pub(super) fn largest_id(inner: &tokenizers::Tokenizer) -> Option<u32> {
    let count = u32::try_from(inner.get_vocab_size(true)).ok()?;
    let without_gaps = (0..count).all(|id| inner.id_to_token(id).is_some());
    match without_gaps {
        true => count.checked_sub(1),
        false => inner.get_vocab(true).into_values().max(),
    }
}

/// Returns the id that pads shorter lists: the one that the description names, otherwise the usual one.
pub(super) fn padding_token(tokenizer: &tokenizers::Tokenizer) -> Option<u32> {
    let named = tokenizer.get_padding().map(|padding| padding.pad_id);
    let usual = || {
        let names = ["[PAD]", "<pad>"].into_iter();
        names.filter_map(|name| tokenizer.token_to_id(name)).next()
    };
    named.or_else(usual)
}

/// Returns the token ids that the post-processor adds before and after a text.
pub(super) fn special_tokens(
    tokenizer: &tokenizers::Tokenizer,
) -> Result<(Vec<u32>, Vec<u32>), TokenizerError> {
    let ids = |special| {
        tokenizer
            .encode_fast("a", special)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| TokenizerError::Malformed(error.to_string()))
    };
    let (bare, full) = (ids(false)?, ids(true)?);
    full.windows(bare.len().max(1))
        .position(|window| window == bare)
        .map(|at| (full[..at].to_vec(), full[at + bare.len()..].to_vec()))
        .ok_or_else(|| {
            TokenizerError::Malformed("the post-processor changes the text's own tokens".to_owned())
        })
}

/// Lower-cases texts before the description's own steps, unless it has such a step.
pub(super) fn lower_case_first(tokenizer: &mut tokenizers::Tokenizer) -> tokenizers::Result<()> {
    use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Sequence};
    let is_lower = |step: &NormalizerWrapper| matches!(step, NormalizerWrapper::Lowercase(_));
    let own = tokenizer.get_normalizer().cloned();
    let mut steps: Vec<NormalizerWrapper> = match own {
        Some(NormalizerWrapper::Sequence(sequence)) => sequence.as_ref().to_vec(),
        other => other.into_iter().collect(),
    };
    if !steps.iter().any(is_lower) {
        steps.insert(0, Lowercase.into());
        tokenizer.with_normalizer(Some(Sequence::new(steps)))?;
    }
    Ok(())
}
