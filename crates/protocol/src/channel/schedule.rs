//! Hashes and keys of the handshake; each label occurs once.
//!
//! ```text
//! H(label, a, b, c) = SHA-256(label ‖ 0x00 ‖ len(a) ‖ a ‖ len(b) ‖ b ‖ len(c) ‖ c)        lengths: 8 bytes, big-endian
//! server nonce      = SHA-256("clearseal/1 channel hello" ‖ 0x00 ‖ client hello)
//! info              = "clearseal/1 channel" ‖ 0x00 ‖ SHA-256(client hello) ‖ SHA-256(server hello)
//! enc, context      = HPKE.SetupBaseS(fresh key, info)
//! client nonce      = H("clearseal/1 channel client", client hello, server hello, enc)
//! client signature  = Ed25519(receipt key, "clearseal/1 channel client key" ‖ 0x00 ‖ client nonce)
//! transcript        = H("clearseal/1 channel transcript", client hello, server hello, client key)
//! secret(purpose)   = context.Export("clearseal/1 channel " ‖ purpose ‖ 0x00 ‖ AEAD id ‖ transcript, 32)
//! purpose           = "client to server" | "server to client" | "confirmation"
//! ```

use attestation::Aead;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::ChannelError;
use super::agreement::Exporter;
use super::cipher::Keys;
use super::wire::CONFIRMATION;

const HELLO: &[u8] = b"clearseal/1 channel hello\0";
const INFO: &[u8] = b"clearseal/1 channel\0";
const CLIENT_EVIDENCE: &[u8] = b"clearseal/1 channel client\0";
const CLIENT_SIGNATURE: &[u8] = b"clearseal/1 channel client key\0";
const TRANSCRIPT: &[u8] = b"clearseal/1 channel transcript\0";

/// The nonce for the server's document or endorsement: binds every byte of the client hello.
pub(super) fn hello_nonce(client_hello: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(HELLO)
        .chain_update(client_hello)
        .finalize()
        .into()
}

/// HPKE's `info`: a change in either hello changes the secret.
pub(super) fn info(client_hello: &[u8], server_hello: &[u8]) -> Vec<u8> {
    let mut info = INFO.to_vec();
    info.extend_from_slice(&Sha256::digest(client_hello));
    info.extend_from_slice(&Sha256::digest(server_hello));
    info
}

/// The nonce for the client's document: both hellos and the encapsulation.
pub(super) fn client_nonce(client_hello: &[u8], server_hello: &[u8], enc: &[u8]) -> [u8; 32] {
    hash(CLIENT_EVIDENCE, [client_hello, server_hello, enc])
}

/// The message that the client's receipt key signs: a document alone shows only that an enclave issued it to someone.
pub(super) fn client_signature_message(client_nonce: &[u8; 32]) -> Vec<u8> {
    [CLIENT_SIGNATURE, client_nonce].concat()
}

/// Hash over all messages before the confirmation.
pub(super) fn transcript(client_hello: &[u8], server_hello: &[u8], client_key: &[u8]) -> [u8; 32] {
    hash(TRANSCRIPT, [client_hello, server_hello, client_key])
}

/// Lengths first: no two triples give the same bytes.
fn hash(label: &[u8], parts: [&[u8]; 3]) -> [u8; 32] {
    let mut hash = Sha256::new().chain_update(label);
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The initial secrets of a session.
pub(super) struct Schedule {
    pub(super) client: Keys,
    pub(super) server: Keys,
    pub(super) confirmation: Zeroizing<[u8; CONFIRMATION]>,
}

impl Schedule {
    /// Exports the secrets of the three purposes above.
    pub(super) fn derive(
        exporter: &dyn Exporter,
        aead: Aead,
        transcript: &[u8; 32],
    ) -> Result<Self, ChannelError> {
        let export = |purpose: &str| {
            let mut context = format!("clearseal/1 channel {purpose}\0").into_bytes();
            context.extend_from_slice(&aead.id().to_be_bytes());
            context.extend_from_slice(transcript);
            let mut secret = Zeroizing::new([0; 32]);
            exporter.export(&context, secret.as_mut_slice())?;
            Ok::<_, ChannelError>(secret)
        };
        Ok(Self {
            client: Keys::new(aead, export("client to server")?)?,
            server: Keys::new(aead, export("server to client")?)?,
            confirmation: export("confirmation")?,
        })
    }
}
