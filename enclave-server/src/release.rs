//! Gets the data key of a sealed model: an RSA key, a document that holds it, one call, one attempt to open the answer.
//!
//! ```text
//! key      = RSA-2048, made on a thread of its own since start
//! wrapped  = parent.GET /v1/models/NAME/data-key.wrapped
//! document = NSM.attest(public_key = SPKI of key, fresh nonce)
//! answer   = parent.POST /v1/kms/decrypt { KeyId, CiphertextBlob: wrapped, EncryptionContext, Recipient: document }
//! data key = key.open(answer.CiphertextForRecipient)      the key is gone, whatever happened
//! ```
//!
//! The parent relays the answer, so nothing authenticates it: it can come from a key that the host made. The model that is
//! opened with it is compared with the pinned hash before a byte is used, and only that protects.

mod arn;
mod wire;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use key_release::{DataKey, KeyReleaseRefused, RecipientKey};
use rand_core::Rng;

pub use arn::{InvalidKeyArn, KeyArn};

use crate::keys::{KeyError, seeded_rng};
use crate::nsm::{AttestRequest, Nsm, NsmError};
use crate::parent::{Parent, ParentError, Request};

/// Most bytes of a wrapped data key, as KMS limits `CiphertextBlob`.
pub const MAX_WRAPPED_KEY: usize = 6144;

/// Which data key is wanted. All of it is the enclave's own configuration.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The key that wraps it. Never an alias, which points to another key tomorrow.
    pub key: &'a KeyArn,
    /// Name of the container at the parent.
    pub container: &'a str,
    /// Name of the model, `clearseal-model` of the encryption context.
    pub model: &'a str,
    /// SHA-256 of its artifact set, `clearseal-version` of the encryption context.
    pub sha256: &'a [u8; 32],
}

/// An RSA key that is being made on a thread of its own.
pub struct PendingKey(JoinHandle<Result<(RecipientKey, Duration), KeyReleaseRefused>>);

impl PendingKey {
    /// Begins. Call it first: it takes some hundred milliseconds, in which the rest of the start goes on.
    ///
    /// # Errors
    /// [`ReleaseError::Random`] where there are no random bytes, [`ReleaseError::Thread`] where the system gives no thread.
    pub fn start(nsm: &dyn Nsm) -> Result<Self, ReleaseError> {
        let mut rng = seeded_rng(nsm)?;
        std::thread::Builder::new()
            .name("recipient-key".to_owned())
            .spawn(move || {
                let begun = Instant::now();
                Ok((RecipientKey::generate(&mut rng)?, begun.elapsed()))
            })
            .map(Self)
            .map_err(ReleaseError::Thread)
    }

    fn wait(self) -> Result<(RecipientKey, Duration), ReleaseError> {
        let made = self.0.join().map_err(|_| KeyReleaseRefused)?;
        Ok(made?)
    }
}

/// A data key, and what getting it took.
pub struct Released {
    /// The key.
    pub key: DataKey,
    /// How long what took.
    pub times: ReleaseTimes,
}

/// Where the time of a release went.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseTimes {
    /// Making the RSA key, beside everything else.
    pub recipient_key: Duration,
    /// The document of the Nitro Secure Module.
    pub attestation: Duration,
    /// From the request to the opened answer.
    pub key_release: Duration,
}

/// Asks for the data key, once. The RSA key is consumed: another attempt makes another one. A parent that does not listen
/// yet is waited for, before anything is sent.
///
/// # Errors
/// [`ReleaseError`]; whatever is wrong inside the envelope is [`ReleaseError::Refused`].
pub fn release(
    nsm: &dyn Nsm,
    parent: &Parent,
    key: PendingKey,
    wanted: Wanted<'_>,
    until: Instant,
) -> Result<Released, ReleaseError> {
    let wrapped = wrapped_key(parent, wanted.container, until)?;
    let (key, recipient_key) = key.wait()?;
    let mut rng = seeded_rng(nsm)?;
    let mut nonce = [0; 32];
    rng.fill_bytes(&mut nonce);
    let begun = Instant::now();
    let document = nsm.attest(&AttestRequest {
        nonce: &nonce,
        user_data: PURPOSE,
        public_key: key.public_key_der(),
    })?;
    let attestation = begun.elapsed();
    let begun = Instant::now();
    let body = wire::request(&wanted, &wrapped, &document);
    let (status, answer) = parent.post(DECRYPT, "application/json", &body, MAX_ANSWER, until)?;
    if status != 200 {
        return Err(ReleaseError::Denied {
            name: wire::error_name(&answer),
            status,
        });
    }
    let envelope = wire::envelope(&answer, wanted.key)?;
    Ok(Released {
        key: key.open(&envelope, &mut rng)?,
        times: ReleaseTimes {
            recipient_key,
            attestation,
            key_release: begun.elapsed(),
        },
    })
}

/// Why there is no data key.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ReleaseError {
    /// See [`NsmError`].
    #[error(transparent)]
    #[coded(transparent)]
    Nsm(#[from] NsmError),
    /// There are no random bytes.
    #[error(transparent)]
    #[coded(transparent)]
    Random(#[from] KeyError),
    /// The system refused a thread.
    #[error("cannot start a thread for the RSA key: {0}")]
    #[coded("KEY_RELEASE_THREAD", remedy = "Allow more threads.")]
    Thread(std::io::Error),
    /// The parent gave no answer, or not in time.
    #[error(transparent)]
    #[coded(transparent)]
    Parent(#[from] ParentError),
    /// The parent has no wrapped key for this model.
    #[error("the parent has no wrapped data key for `{container}` (status {status})")]
    #[coded(
        "KEY_RELEASE_NO_WRAPPED_KEY",
        remedy = "Put data-key.wrapped beside model.sealed, where --models of host-proxy points."
    )]
    NoWrappedKey {
        /// Name of the container.
        container: String,
        /// HTTP status.
        status: u16,
    },
    /// The wrapped key cannot be one.
    #[error("the wrapped data key is empty")]
    #[coded("KEY_RELEASE_WRAPPED_KEY", remedy = "Seal the model again.")]
    WrappedKey,
    /// KMS, or the host in its name, refused.
    #[error("the key service answered {name} (status {status})")]
    #[coded(
        "KEY_RELEASE_DENIED",
        remedy = "Compare the key's policy with this image's measurements (clearseal verify kms-policy), and the encryption context with the model."
    )]
    Denied {
        /// KMS's name of the error: letters, digits and underscores.
        name: String,
        /// HTTP status.
        status: u16,
    },
    /// Not an answer of `Decrypt` with a recipient.
    #[error("the answer of the key service {0}")]
    #[coded(
        "KEY_RELEASE_ANSWER_INVALID",
        remedy = "Let --parent-listen of host-proxy answer at --parent, and KMS behind it."
    )]
    Answer(&'static str),
    /// The host was sent the data key itself.
    #[error("the answer holds a plaintext, so the host may know the data key")]
    #[coded(
        "KEY_RELEASE_PLAINTEXT",
        remedy = "Retire the model's key, and correct its policy (clearseal verify kms-policy)."
    )]
    Plaintext,
    /// Another key than the one that was asked for.
    #[error("the answer is of another key than the one that was asked for")]
    #[coded("KEY_RELEASE_OTHER_KEY", remedy = "Correct the ARN in --kms-key.")]
    OtherKey,
    /// See [`KeyReleaseRefused`].
    #[error(transparent)]
    #[coded(transparent)]
    Refused(#[from] KeyReleaseRefused),
}

/// Fetches `CiphertextBlob`. It needs no protection: another one yields another key, which opens nothing.
fn wrapped_key(parent: &Parent, container: &str, until: Instant) -> Result<Vec<u8>, ReleaseError> {
    let path = format!("/v1/models/{container}/data-key.wrapped");
    let request = Request {
        method: "GET",
        path: &path,
        headers: &[],
        body: &[],
    };
    let give_up = until.min(Instant::now() + PARENT_STARTS);
    let answer = loop {
        match parent.exchange(request, until) {
            Err(ParentError::Unreachable { .. }) if Instant::now() + PAUSE < give_up => {
                std::thread::sleep(PAUSE);
            }
            answer => break answer?,
        }
    };
    let status = answer.status();
    if status != 200 {
        return Err(ReleaseError::NoWrappedKey {
            container: container.to_owned(),
            status,
        });
    }
    let wrapped = answer.into_body().collect(MAX_WRAPPED_KEY)?;
    if wrapped.is_empty() {
        return Err(ReleaseError::WrappedKey);
    }
    Ok(wrapped)
}

/// An envelope of 8 KiB in base64, and names.
const MAX_ANSWER: usize = 16 * 1024;
const DECRYPT: &str = "/v1/kms/decrypt";
/// `user_data` of the document. No client takes such a document for a service's: that one binds a manifest.
const PURPOSE: &[u8] = b"clearseal/1 key release";
/// How long a parent that starts after the enclave is waited for.
const PARENT_STARTS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
