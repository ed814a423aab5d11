//! Texts that embeddings are compared over: a thousand of every script, or some of them in a quick run.

use super::Run;

#[path = "../../../enclave-server/tests/texts/mod.rs"]
mod every;

const COUNT: usize = 1000;

pub(super) fn texts(run: &Run) -> Vec<String> {
    let step = if run.options.quick { 10 } else { 1 };
    // Evenly from all of them: they come sorted by kind.
    every::texts(COUNT).into_iter().step_by(step).collect()
}
