//! HPKE (RFC 9180) in base mode with the export-only AEAD: the channel's only key agreement.

use attestation::Kem;
use hpke::aead::{AeadCtxR, AeadCtxS, ExportOnlyAead};
use hpke::kdf::HkdfSha256;
use hpke::{Deserializable, OpModeR, OpModeS, Serializable};
use rand_core::CryptoRng;

use super::ChannelError;
#[cfg(not(target_family = "wasm"))]
use crate::{x_wing::XWing, x25519::X25519};
#[cfg(target_family = "wasm")]
use hpke::kem::{X25519HkdfSha256 as X25519, XWing};

/// The server's half of a fresh key. Both private key types zeroize themselves when dropped.
pub(super) enum FreshKey {
    XWing(Box<<XWing as hpke::Kem>::PrivateKey>),
    X25519(<X25519 as hpke::Kem>::PrivateKey),
}

impl FreshKey {
    /// Returns the private key, and the public key as sent.
    pub(super) fn generate(kem: Kem, rng: &mut impl CryptoRng) -> (Self, Vec<u8>) {
        use hpke::Kem as _;
        match kem {
            Kem::XWing => {
                let (secret, public) = XWing::gen_keypair_with_rng(rng);
                (Self::XWing(Box::new(secret)), public.to_bytes().to_vec())
            }
            Kem::X25519 => {
                let (secret, public) = X25519::gen_keypair_with_rng(rng);
                (Self::X25519(secret), public.to_bytes().to_vec())
            }
        }
    }

    /// Opens the client's encapsulation.
    pub(super) fn receive(
        &self,
        enc: &[u8],
        info: &[u8],
    ) -> Result<Box<dyn Exporter>, ChannelError> {
        match self {
            Self::XWing(secret) => receive_as::<XWing>(secret, enc, info),
            Self::X25519(secret) => receive_as::<X25519>(secret, enc, info),
        }
    }
}

/// A shared secret, from which only derived secrets can be exported (RFC 9180 §5.3).
pub(super) trait Exporter: Send {
    fn export(&self, context: &[u8], out: &mut [u8]) -> Result<(), ChannelError>;
}

/// Encapsulates a fresh secret to `public_key`; returns `enc` and the secret.
pub(super) fn encapsulate(
    kem: Kem,
    public_key: &[u8],
    info: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Box<dyn Exporter>), ChannelError> {
    match kem {
        Kem::XWing => encapsulate_as::<XWing>(public_key, info, rng),
        Kem::X25519 => encapsulate_as::<X25519>(public_key, info, rng),
    }
}

fn encapsulate_as<K>(
    public_key: &[u8],
    info: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Box<dyn Exporter>), ChannelError>
where
    K: hpke::Kem + 'static,
    AeadCtxS<ExportOnlyAead, HkdfSha256, K>: Send,
{
    let recipient = K::PublicKey::from_bytes(public_key).map_err(|_| ChannelError::BadKey)?;
    // RFC 9180 §7.1.4: an all-zero shared secret is an error, which `hpke` raises here.
    let (enc, context): (_, AeadCtxS<ExportOnlyAead, HkdfSha256, K>) =
        hpke::setup_sender_with_rng(&OpModeS::Base, &recipient, info, rng)
            .map_err(|_| ChannelError::BadKey)?;
    Ok((enc.to_bytes().to_vec(), Box::new(context)))
}

fn receive_as<K>(
    secret: &K::PrivateKey,
    enc: &[u8],
    info: &[u8],
) -> Result<Box<dyn Exporter>, ChannelError>
where
    K: hpke::Kem + 'static,
    AeadCtxR<ExportOnlyAead, HkdfSha256, K>: Send,
{
    let enc = K::EncappedKey::from_bytes(enc).map_err(|_| ChannelError::BadKey)?;
    let context: AeadCtxR<ExportOnlyAead, HkdfSha256, K> =
        hpke::setup_receiver(&OpModeR::Base, secret, &enc, info)
            .map_err(|_| ChannelError::BadKey)?;
    Ok(Box::new(context))
}

impl<K: hpke::Kem> Exporter for AeadCtxS<ExportOnlyAead, HkdfSha256, K>
where
    Self: Send,
{
    fn export(&self, context: &[u8], out: &mut [u8]) -> Result<(), ChannelError> {
        Self::export(self, context, out).map_err(|_| ChannelError::Internal)
    }
}

impl<K: hpke::Kem> Exporter for AeadCtxR<ExportOnlyAead, HkdfSha256, K>
where
    Self: Send,
{
    fn export(&self, context: &[u8], out: &mut [u8]) -> Result<(), ChannelError> {
        Self::export(self, context, out).map_err(|_| ChannelError::Internal)
    }
}
