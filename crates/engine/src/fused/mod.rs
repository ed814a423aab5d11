//! The encoder's own forward pass: BERT in f32 (or with smaller weights, if asked), on the processor's vector instructions.
//!
//! What makes it fast is that nothing is done twice and little is moved:
//!
//! - weights are packed once at load into the order in which the kernels read them;
//! - queries, keys and values are one product, the 1/√head of attention folded into its weights;
//! - bias, GELU and residual happen in registers at the end of a product;
//! - sequences stand one after the other without padding, attention runs over each alone;
//! - a thread keeps to its own rows from one product to the next, and helps the others when it is done with them;
//! - memory is allocated once, for the longest sequence.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `encoder` | who may call when: one request on all threads, many on one each |
//! | `worker`, `team`, `processors` | how threads work together on one request |
//! | `forward` | what the layers are made of |
//! | `bands` | which thread works on what |
//! | `panels`, `buffer` | how activations lie in memory |
//! | `narrow` | activations in less than f32 |
//! | `kernels` | the arithmetic, once, in safe Rust |
//! | `isa` | what an instruction set has to offer: the file to write for a new one |
//! | `source`, `weights`, `packed` | from tensors to packed panels |
//! | `precision` | how exactly weights are kept |
//!
//! An embedding is a function of its tokens, the weights and the instruction set alone: the same
//! bits whatever the batch, its order, the number of threads or the load.

mod bands;
mod buffer;
mod encoder;
mod forward;
mod isa;
mod kernels;
mod narrow;
mod packed;
mod panels;
mod precision;
#[cfg(target_os = "linux")]
mod processors;
#[cfg(not(target_os = "linux"))]
#[path = "processors_elsewhere.rs"]
mod processors;
mod source;
mod team;
mod weights;
mod worker;

#[cfg(test)]
pub(super) mod tests;

pub use encoder::FusedEncoder;
pub use isa::Isa;
pub use precision::Precision;
pub use weights::Weights;
pub use worker::Worker;
