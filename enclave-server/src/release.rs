//! Gets the data key of a sealed model: makes an RSA key and a document that contains it, makes one call, and tries once to open
//! the answer.
//!
//! ```text
//! key      = RSA-2048, made on a separate thread since the start
//! wrapped  = parent.GET /v1/models/NAME/data-key.wrapped
//! document = NSM.attest(public_key = SPKI of key, fresh nonce)
//! answer   = parent.POST /v1/kms/decrypt { KeyId, CiphertextBlob: wrapped, EncryptionContext, Recipient: document }
//! data key = key.open(answer.CiphertextForRecipient)      the key is destroyed on success and on failure
//! ```
//!
//! The parent relays the answer, so nothing authenticates it: the host may have encrypted a key that it chose. The protection is
//! that the model opened with the key is compared with the pinned hash before a byte is used.

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

/// Most bytes of a wrapped data key: KMS's limit for `CiphertextBlob`.
pub const MAX_WRAPPED_KEY: usize = 6144;

/// Identifies the data key. All fields come from the enclave's configuration.
#[derive(Clone, Copy)]
pub struct KeyRequest<'a> {
    /// The key that wraps it. Not an alias, because an alias can later point to another key.
    pub key: &'a KeyArn,
    /// Name of the container at the parent.
    pub container: &'a str,
    /// Name of the model without organisation: `clearseal-model` in the encryption context.
    pub model: &'a str,
    /// SHA-256 of its artifact set: `clearseal-version` in the encryption context.
    pub sha256: &'a [u8; 32],
}

/// An RSA key that is being made on a separate thread.
pub struct PendingKey(JoinHandle<Result<NewKey, KeyReleaseRefused>>);

struct NewKey {
    key: RecipientKey,
    took: Duration,
}

impl PendingKey {
    /// Starts making the key. Call it first: it takes a few hundred milliseconds, during which the rest of the start continues.
    ///
    /// # Errors
    /// [`ReleaseError::Random`] where there are no random bytes, [`ReleaseError::Thread`] where the system gives no thread.
    pub fn start(nsm: &dyn Nsm) -> Result<Self, ReleaseError> {
        let mut rng = seeded_rng(nsm)?;
        std::thread::Builder::new()
            .name("recipient-key".to_owned())
            .spawn(move || {
                let begun = Instant::now();
                let key = RecipientKey::generate(&mut rng)?;
                Ok(NewKey {
                    key,
                    took: begun.elapsed(),
                })
            })
            .map(Self)
            .map_err(ReleaseError::Thread)
    }

    fn wait(self) -> Result<NewKey, ReleaseError> {
        let made = self.0.join().map_err(|_| KeyReleaseRefused)?;
        Ok(made?)
    }
}

/// A released data key.
pub struct ReleasedKey {
    /// The key.
    pub key: DataKey,
    /// Durations of the parts.
    pub times: ReleaseTimes,
}

/// Durations of the parts of a release.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseTimes {
    /// Making the RSA key, in parallel to the rest of the start.
    pub recipient_key: Duration,
    /// Making the attestation document.
    pub attestation: Duration,
    /// From the request to the opened answer.
    pub key_release: Duration,
}

/// Requests the data key, once. The RSA key is consumed, so another attempt needs another key. Waits for a parent that does not
/// listen yet, before sending anything.
///
/// # Errors
/// [`ReleaseError`]; every fault inside the envelope is [`ReleaseError::Refused`].
pub fn release(
    nsm: &dyn Nsm,
    parent: &Parent,
    key: PendingKey,
    wanted: KeyRequest<'_>,
    until: Instant,
) -> Result<ReleasedKey, ReleaseError> {
    let wrapped = fetch_wrapped_key(parent, wanted.container, until)?;
    let NewKey {
        key,
        took: recipient_key,
    } = key.wait()?;
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
    let answer = parent.post(DECRYPT, "application/json", &body, MAX_ANSWER, until)?;
    let status = answer.status;
    if status != 200 {
        let name = wire::error_name(&answer.body);
        return Err(match status {
            500.. => ReleaseError::Unavailable { name, status },
            _ => ReleaseError::Denied { name, status },
        });
    }
    let envelope = wire::envelope(&answer.body, wanted.key)?;
    Ok(ReleasedKey {
        key: key.open(&envelope, &mut rng)?,
        times: ReleaseTimes {
            recipient_key,
            attestation,
            key_release: begun.elapsed(),
        },
    })
}

/// Why the data key was not released.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ReleaseError {
    /// See [`NsmError`].
    #[error(transparent)]
    #[coded(transparent)]
    Nsm(#[from] NsmError),
    /// Random bytes are missing.
    #[error(transparent)]
    #[coded(transparent)]
    Random(#[from] KeyError),
    /// The system refused a thread.
    #[error("cannot start a thread for the RSA key: {0}")]
    #[coded("KEY_RELEASE_THREAD", remedy = "Allow more threads.")]
    Thread(std::io::Error),
    /// The parent did not answer, or not in time.
    #[error(transparent)]
    #[coded(transparent)]
    Parent(#[from] ParentError),
    /// The parent has no wrapped key for this model.
    #[error("the parent has no wrapped data key for `{container}` (status {status})")]
    #[coded(
        "KEY_RELEASE_NO_WRAPPED_KEY",
        remedy = "Put data-key.wrapped next to model.sealed, where --models of host-proxy points."
    )]
    NoWrappedKey {
        /// Name of the container.
        container: String,
        /// HTTP status.
        status: u16,
    },
    /// The wrapped key is empty.
    #[error("the wrapped data key is empty")]
    #[coded("KEY_RELEASE_WRAPPED_KEY", remedy = "Seal the model again.")]
    WrappedKey,
    /// KMS refused, or the host did in its name.
    #[error("the key service answered {name} (status {status})")]
    #[coded(
        "KEY_RELEASE_DENIED",
        remedy = "Compare the key's policy with this image's measurements (clearseal verify kms-policy), and the encryption context with the model."
    )]
    Denied {
        /// KMS's name for the error: letters, digits and underscores.
        name: String,
        /// HTTP status.
        status: u16,
    },
    /// KMS, or the host, could not decide now. This is not a denial.
    #[error("the key service is not available: {name} (status {status})")]
    #[coded(
        "KEY_RELEASE_UNAVAILABLE",
        remedy = "Read host-proxy's log, then start the enclave again."
    )]
    Unavailable {
        /// The service's name for the error: letters, digits and underscores.
        name: String,
        /// HTTP status.
        status: u16,
    },
    /// The answer is not that of `Decrypt` with a recipient.
    #[error("the answer of the key service {0}")]
    #[coded(
        "KEY_RELEASE_ANSWER_INVALID",
        remedy = "Let --parent-listen of host-proxy answer at --parent, and KMS behind it."
    )]
    Answer(&'static str),
    /// KMS sent the data key to the host in plaintext.
    #[error("the answer holds a plaintext, so the host may know the data key")]
    #[coded(
        "KEY_RELEASE_PLAINTEXT",
        remedy = "Retire the model's key, and correct its policy (clearseal verify kms-policy)."
    )]
    Plaintext,
    /// The answer names another key than the requested one.
    #[error("the answer is of another key than the one that was asked for")]
    #[coded("KEY_RELEASE_OTHER_KEY", remedy = "Correct the ARN in --kms-key.")]
    OtherKey,
    /// See [`KeyReleaseRefused`].
    #[error(transparent)]
    #[coded(transparent)]
    Refused(#[from] KeyReleaseRefused),
}

/// Fetches `CiphertextBlob`. It needs no protection, because another blob yields another key, which opens nothing.
fn fetch_wrapped_key(
    parent: &Parent,
    container: &str,
    until: Instant,
) -> Result<Vec<u8>, ReleaseError> {
    let path = format!("/v1/models/{container}/data-key.wrapped");
    let request = Request {
        method: "GET",
        path: &path,
        headers: &[],
        body: &[],
    };
    let last_attempt = until.min(Instant::now() + PARENT_START_TIMEOUT);
    let answer = loop {
        match parent.exchange(request, until) {
            Err(ParentError::Unreachable { .. }) if Instant::now() + PAUSE < last_attempt => {
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

/// Largest answer in bytes: an envelope of 8 KiB in base64, and names.
const MAX_ANSWER: usize = 16 * 1024;
const DECRYPT: &str = "/v1/kms/decrypt";
/// `user_data` of the document. No client accepts such a document from a service, because a service's document binds a manifest.
const PURPOSE: &[u8] = b"clearseal/1 key release";
/// Longest wait for a parent that starts after the enclave.
const PARENT_START_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
