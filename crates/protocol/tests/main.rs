//! Judges messages, seals, receipts and bundles. `bounds` counts allocations, so it has a separate process.

mod bundle;
mod candidates;
mod channel;
mod channel_frames;
mod channel_model;
mod chunked;
mod documentation;
mod exchange;
mod hpke_vectors;
mod inner;
mod inner_stream;
mod items;
mod log;
mod receipt;
mod sealing;
mod stale;
mod x_wing;
