//! Verifies an enclave before sending anything, then exchanges sealed requests and responses with it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use clearseal_client::{Client, Policy};
//!
//! let policy = Policy::chosen_by_hand(&std::fs::read("trust-policy.json")?)?;
//! let client = Client::builder("https://embed.example").policy(policy).build()?;
//! // Fails unless every check passed. Nothing but a nonce was sent.
//! let session = client.connect().await?;
//! println!("{} runs {}", session.manifest().model.id, session.attestation().release());
//! let embedded = client.embed(&["only the enclave reads this".to_owned()]).await?;
//! println!("{} numbers", embedded.items[0].vector.len());
//! # Ok(())
//! # }
//! ```
//!
//! If the service cannot be reached, the state reports it and nothing was sent:
//!
//! ```
//! use clearseal_client::{Client, State, blocking};
//!
//! let client = Client::builder("http://127.0.0.1:1").accept_simulated(true).build()?;
//! let client = blocking::Client::new(client)?;
//! let error = client.embed(&["a sentence".to_owned()]).err().ok_or("answered")?;
//! assert_eq!(error.code(), "NETWORK");
//! assert!(matches!(client.states()[0].1, State::Unreachable(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | rule | where |
//! | --- | --- |
//! | Nothing is sent without a policy and a proof. A simulated enclave is refused unless the caller accepts one explicitly | [`ClientBuilder`] |
//! | A proof is renewed before it ends, and nothing is sealed under one that has ended | [`Session::valid_until`] |
//! | *Key unknown*, *document unknown*, and an answer that is missing, rewritten or cannot be opened cause one fresh check and one more attempt, never a loop | [`Client::fetch`] |
//! | A trust policy can be replaced at any time; nothing is sent under a proof that the new one does not accept | [`Client::set_policy`] |
//! | Each upstream is verified separately | [`Client::states`] |
//! | The receipt of every answer is verified before the answer is returned | [`Answer`] |

#![forbid(unsafe_code)]

pub mod blocking;

mod bulk;
mod candidates;
mod client;
mod clock;
mod connect;
mod durable;
mod embeddings;
mod error;
mod follow;
mod host;
mod index;
mod message;
mod options;
mod peers;
mod rerank;
mod source;
mod state;
mod stream;
mod trust;
mod upstream;
mod witnesses;

pub use attestation::report::AttestationReport;
pub use attestation::{ModelPin, Policy, PolicyError, UnixMillis};
pub use bulk::{Batch, Part};
pub use client::{Client, ClientBuilder};
pub use clock::Clock;
pub use connect::trust_authorities;
pub use embeddings::{Embedding, Embeddings};
pub use error::{Error, Problem};
pub use follow::{PolicyNews, PolicyProblem, PolicyStatus};
pub use host::Host;
pub use index::{
    Heads, HeadsError, IndexAnswer, IndexChange, IndexDescription, IndexHit, IndexQuery, IndexRow,
    IndexSettings, PrivateIndex,
};
pub use message::Answer;
pub use protocol::bundle::AuditBundle;
pub use protocol::candidates::MAX_CANDIDATES;
pub use rerank::{Ranking, ScoredDocument};
pub use sealed_index::{Head, IndexId, IndexKey, Statement};
pub use source::{PolicySource, SourceError};
pub use state::{Session, State};
pub use stream::EmbeddingStream;
pub use trust::PolicyChange;
pub use witnesses::TrustPolicy;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
