//! The attested channel: a session between a client and an enclave over any stream of bytes.
//!
//! Three messages open it (`docs/CHANNEL.md` explains why they suffice):
//!
//! ```text
//! client hello   version, mechanisms, 32 random bytes, the receipt key that was verified before (if one was)
//! server hello   a fresh HPKE key, attested: by a document over the hash of the client hello, or by a signature of
//!                the receipt key over the same hash, for a client that has verified that key
//! client key     encapsulation to that key, the client's own evidence where it is asked for, confirmation
//! ```
//!
//! Each step consumes the object of the step before it, so none can be left out. A [`Session`] exists only after all of them:
//!
//! | side | steps |
//! | --- | --- |
//! | client | [`begin`] → [`AwaitingHello`] → [`Offer`] → [`Attested`] → [`Session`] |
//! | server | [`ReceivedHello::read`] → [`Prepared`] → [`AwaitingKey`] → [`Session`] |
//!
//! After them every message is a frame ([`frame`]): a fixed header, then one AEAD ciphertext, sealed and opened in place.
//! Sequence numbers are strict, keys are replaced by count and by time, and the end of a session is authenticated.
//!
//! Pure like the rest of this crate: bytes in, bytes out; time and randomness are inputs. The crate `channel` adds I/O.

mod agreement;
mod cipher;
mod client;
mod error;
pub mod frame;
mod mutual;
mod schedule;
mod server;
mod session;
pub mod tensor;
mod wire;

pub use client::{
    AppraisedOffer, Attested, AwaitingHello, ClientOptions, DocumentedOffer, EndorsedOffer, Offer,
    begin,
};
pub use error::{ChannelError, Hint};
pub use mutual::{AppraisedClient, Encapsulated, PendingClient};
pub use server::{Accepted, AwaitingKey, Prepared, ReceivedHello};
pub use session::{Frame, MonotonicMillis, Receiver, Rekey, Sealed, Sender, Session};
pub use wire::{MAX_CLIENT_HELLO, MAX_CLIENT_KEY, MAX_SERVER_HELLO};

use attestation::Aead;

/// Version of the channel protocol.
pub const VERSION: u64 = 1;

/// Value of the HTTP `Upgrade` header that turns a connection into a channel.
pub const UPGRADE: &str = "clearseal-channel";

/// The ciphers of frames, the fastest on this processor first.
///
/// A session uses AES-256-GCM if both sides prefer it, otherwise ChaCha20-Poly1305.
pub fn preferred_aeads() -> &'static [Aead] {
    const AES: &[Aead] = &[Aead::Aes256Gcm, Aead::ChaCha20Poly1305];
    const CHACHA: &[Aead] = &[Aead::ChaCha20Poly1305, Aead::Aes256Gcm];
    match cipher::has_fast_aes() {
        true => AES,
        false if cfg!(target_family = "wasm") => &CHACHA[..1],
        false => CHACHA,
    }
}
