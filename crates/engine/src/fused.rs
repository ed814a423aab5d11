//! The forward pass of an encoder in f32 (or, on request, with smaller weights), with the processor's vector instructions.
//!
//! It is fast because nothing is computed twice and little data is moved:
//!
//! - weights are packed once at load into the order in which the kernels read them;
//! - queries, keys and values are one product, with attention's factor 1/√head folded into its weights;
//! - bias, activation and residual are applied in registers at the end of a product;
//! - sequences are stored one after the other without padding, and attention runs over each separately;
//! - a thread processes the same rows in successive products, and helps the others once it has finished;
//! - memory is allocated once, and again only for a sequence that is longer than all before.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `encoder` | how calls share threads: one request on all threads, or many on one thread each |
//! | `worker`, `team`, `processors` | how threads work together on one request |
//! | `forward` | the computations of a layer |
//! | `bands` | which rows a thread computes |
//! | `memory` | the memory of a forward pass, and how many sequences it takes at once |
//! | `panels`, `buffer` | the memory layout of activations |
//! | `narrow` | activations in less than f32 |
//! | `positions` | rotations of queries and keys, and biases for distances |
//! | `kernels` | the arithmetic, once, in safe Rust |
//! | `isa` | the operations of an instruction set: implement this to support a new one |
//! | `source`, `weights`, `packed` | how tensors become packed panels |
//! | `precision` | the precision of stored weights |
//!
//! An embedding depends only on its tokens, the weights and the instruction set: its bits are the same for any batch, order,
//! number of threads and load.

mod bands;
mod buffer;
mod encoder;
mod forward;
mod isa;
mod kernels;
mod memory;
mod narrow;
mod packed;
mod panels;
mod positions;
mod precision;
#[cfg(target_os = "linux")]
mod processors;
#[cfg(not(target_os = "linux"))]
#[path = "fused/processors_elsewhere.rs"]
mod processors;
pub(crate) mod source;
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
