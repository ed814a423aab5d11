//! Compares transports: the time to open a session, and the cost of a message.
//!
//! All transports get the same streams, messages and turns, one repetition each, A B A B, in one process. The attested channel
//! and bare framing are here; `benchmarks/transport` adds the others and runs all of them.

#![forbid(unsafe_code)]

pub mod attested_channel;
mod comparison;
pub mod connection;
mod contender;
mod operation;
pub mod plaintext;
mod transport;

use std::collections::BTreeMap;

pub use comparison::{Repetitions, own_contenders, run};
pub use contender::{Contender, SessionContender};
pub use operation::{Operation, repeat};
use serde::{Deserialize, Serialize};
pub use transport::{End, Transport, TransportInfo};

/// Results of a comparison.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Name and version of each implementation of others.
    pub peers: Vec<(String, String)>,
    /// The figures.
    pub series: Vec<Series>,
}

/// The repetitions of one figure of one transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Subject, by its name in records.
    pub subject: String,
    /// Conditions of the figure.
    pub parameters: BTreeMap<String, Value>,
    /// One figure per turn: milliseconds, or megabytes (10⁶ bytes) per second if `rate` is set.
    pub sample: Vec<f64>,
    /// Whether the figures are megabytes per second.
    pub rate: bool,
    /// Equal for all series that took turns with each other.
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
