//! One contest between transports: who opens a session how fast, and what a message costs over it.
//!
//! Every transport gets the same streams, the same messages and the same turns, one repetition each, A B A B, in one
//! process. The channel and bare framing are lanes here; `benchmarks/transport` has the others, and runs all of them.

#![forbid(unsafe_code)]

mod codec;
mod contest;
mod lane;
pub mod ours;
pub mod raw;
mod transport;
pub mod wire;

pub use codec::{Work, repeat};
pub use contest::{Contest, own, run};
pub use lane::{Contender, Lane};
pub use transport::{About, End, Transport};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything that a contest found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Name and version of each implementation that is not the project's own.
    pub peers: Vec<(String, String)>,
    /// The figures.
    pub series: Vec<Series>,
}

/// The repetitions of one figure of one transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// What was measured, as records call it.
    pub subject: String,
    /// What it depends on.
    pub parameters: BTreeMap<String, Value>,
    /// One a turn: milliseconds, or megabytes (10⁶) a second where `rate` says so.
    pub sample: Vec<f64>,
    /// Whether these are megabytes a second.
    pub rate: bool,
    /// The same for all series that took turns with each other.
    pub turns: String,
}

/// A parameter of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count or a size.
    Number(f64),
    /// A name.
    Text(String),
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
