//! Tokenization by the service, in turns with the `tokenizers` library alone.

use anyhow::{Result, anyhow, ensure};

use super::engine::load;
use super::run::ContenderSample;
use super::texts::{text_of, texts};
use super::{Run, number, text};
use crate::statistics::{elapsed, in_turns};

type Encode<'a> = dyn Fn(&str) -> Result<Vec<u32>> + 'a;

pub(super) fn compare(run: &mut Run) -> Result<()> {
    let model = load(run)?;
    let ours = model.build_tokenizer()?;
    let library = fixtures::tokenizer::word_pieces(&model.tokenizer, model.recipe.max_tokens());
    let library = library.map_err(|error| anyhow!(error))?;
    let encode_ours = |text: &str| Ok(std::mem::take(&mut *ours.encode(text)?.ids));
    let encode_theirs = |text: &str| library(text).map_err(|error| anyhow!(error));
    let mut contenders: [(&str, &Encode<'_>); 2] =
        [("clearseal", &encode_ours), ("tokenizers", &encode_theirs)];
    let mut inputs = Vec::new();
    for tokens in [9, 128] {
        let condition = ("tokens", number(tokens));
        inputs.push((condition, vec![text_of(&ours, tokens)?]));
    }
    let all = texts(run);
    inputs.push((("texts", number(all.len())), all));
    for (condition, texts) in inputs {
        for text in &texts {
            ensure!(
                encode_ours(text)? == encode_theirs(text)?,
                "other tokens for {text:?}"
            );
        }
        let (warmups, repetitions) = (run.warmups(), run.repetitions());
        let samples = in_turns(warmups, repetitions, &mut contenders, |(_, encode)| {
            elapsed(|| -> Result<()> {
                for text in &texts {
                    std::hint::black_box(encode(text)?);
                }
                Ok(())
            })
        })?;
        let rows: Vec<_> = contenders
            .iter()
            .zip(samples)
            .map(|((name, _), milliseconds)| ContenderSample {
                parameter: ("tokenizer", text(name)),
                milliseconds,
            })
            .collect();
        run.turns("request.tokenization", &[condition], &rows);
    }
    Ok(())
}
