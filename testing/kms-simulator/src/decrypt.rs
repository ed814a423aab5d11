//! `Decrypt`: checks the document, evaluates the policy, unwraps the key, seals the envelope.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use attestation::{
    AttestationDocument, CheckLog, Claims, SignatureMemory, TrustAnchor, UnixMillis,
};
use base64ct::{Base64, Encoding};
use forge::envelope::{Envelope, Shape};
use key_policy::{Fact, KeyPolicy, Request, Truth};
use rand_core::CryptoRng;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::refusal::Refusal;
use crate::wrap::{Context, MasterKey};

/// A simulated KMS with one key.
pub struct Simulator {
    /// ARN of the key.
    pub arn: String,
    /// ARN of the role that every request is attributed to, because a simulation has no credentials.
    pub caller: String,
    /// The key.
    pub key: MasterKey,
    /// Its policy.
    pub policy: KeyPolicy,
    /// The root of accepted documents.
    pub root: TrustAnchor,
    /// Number of envelopes so far; it selects the shape of the next one.
    pub answered: AtomicUsize,
}

impl Simulator {
    /// Answers one `Decrypt`.
    ///
    /// # Errors
    /// [`Refusal`] with KMS's name, or `ValidationException` where KMS documents none.
    pub fn decrypt(
        &self,
        body: &[u8],
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<Value, Refusal> {
        let input: Input = serde_json::from_slice(body)
            .map_err(|_| Refusal::validation("the request does not have Decrypt's form"))?;
        if input.key_id != self.arn {
            return Err(Refusal::new(
                "NotFoundException",
                "there is no key of this name; this simulation has no aliases",
            ));
        }
        if input
            .encryption_algorithm
            .is_some_and(|name| name != "SYMMETRIC_DEFAULT")
        {
            return Err(Refusal::new(
                "InvalidKeyUsageException",
                "the key is symmetric",
            ));
        }
        let claims = match &input.recipient {
            Some(recipient) => Some(self.authenticate(recipient, now)?),
            None => None,
        };
        self.authorize(&input.encryption_context, claims.as_ref(), now)?;
        let blob = decode(&input.ciphertext_blob, "CiphertextBlob")?;
        let plaintext = self
            .key
            .unwrap(&blob, &input.encryption_context)
            .ok_or_else(|| {
                Refusal::new(
                    "InvalidCiphertextException",
                    "another key, or another encryption context",
                )
            })?;
        let mut answer = json!({ "KeyId": self.arn, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT" });
        match claims {
            None => answer["Plaintext"] = Base64::encode_string(&plaintext).into(),
            Some(claims) => {
                let turn = self.answered.fetch_add(1, Ordering::Relaxed);
                let shape = Shape::ALL[turn % Shape::ALL.len()];
                let key = claims.public_key.unwrap_or_default();
                let envelope = Envelope::seal(&key, &plaintext, shape, rng).ok_or_else(|| {
                    Refusal::validation("the document's public_key is not an RSA key")
                })?;
                answer["CiphertextForRecipient"] = Base64::encode_string(&envelope.encode()).into();
            }
        }
        Ok(answer)
    }

    fn authenticate(&self, recipient: &Recipient, now: UnixMillis) -> Result<Claims, Refusal> {
        if recipient.key_encryption_algorithm != "RSAES_OAEP_SHA_256" {
            return Err(Refusal::validation(
                "KeyEncryptionAlgorithm is not RSAES_OAEP_SHA_256",
            ));
        }
        let document = decode(&recipient.attestation_document, "AttestationDocument")?;
        let mut log = CheckLog::new();
        let authentic = AttestationDocument::parse(&document, &mut log)
            .and_then(|document| {
                document.authenticate(&self.root, now, &mut SignatureMemory::new(), &mut log)
            })
            .map_err(|error| {
                Refusal::validation(format!("the attestation document is refused: {error}"))
            })?;
        let claims = authentic.claims().clone();
        // KMS requires recent documents, and no nonce.
        let age = now.0.abs_diff(claims.timestamp.0);
        if age > MAX_AGE_MILLIS {
            return Err(Refusal::validation("the attestation document has expired"));
        }
        Ok(claims)
    }

    fn authorize(
        &self,
        context: &Context,
        claims: Option<&Claims>,
        now: UnixMillis,
    ) -> Result<(), Refusal> {
        let mut facts: BTreeMap<String, Fact> = BTreeMap::new();
        facts.insert("aws:currenttime".into(), Fact::Is(now.to_string()));
        facts.insert("aws:principalarn".into(), Fact::Is(self.caller.clone()));
        for (name, value) in context {
            let key = format!("kms:encryptioncontext:{}", name.to_ascii_lowercase());
            facts.insert(key, Fact::Is(value.clone()));
        }
        for (index, value) in claims.iter().flat_map(|claims| &claims.pcrs) {
            let value = base16ct::lower::encode_string(value);
            if *index == 0 {
                let key = "kms:recipientattestation:imagesha384".to_owned();
                facts.insert(key, Fact::Is(value.clone()));
            }
            facts.insert(
                format!("kms:recipientattestation:pcr{index}"),
                Fact::Is(value),
            );
        }
        let outcome = self.policy.evaluate(&Request {
            action: "kms:Decrypt",
            principal: Some(&self.caller),
            key: Some(&self.arn),
            facts,
            others: Fact::Absent,
        });
        // A decision that is not certain counts as a denial.
        if outcome.allowed == Truth::Yes && outcome.denied == Truth::No {
            return Ok(());
        }
        let reason = match outcome.denied {
            Truth::No => "because no resource-based policy allows the kms:Decrypt action",
            Truth::Maybe | Truth::Yes => "with an explicit deny in a resource-based policy",
        };
        Err(Refusal::new(
            "AccessDeniedException",
            format!(
                "{} is not authorized to perform kms:Decrypt {reason}",
                self.caller
            ),
        ))
    }
}

/// KMS documents no limit; users report five minutes.
const MAX_AGE_MILLIS: u64 = 5 * 60 * 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(rename = "KeyId")]
    key_id: String,
    #[serde(rename = "CiphertextBlob")]
    ciphertext_blob: String,
    #[serde(rename = "EncryptionAlgorithm")]
    encryption_algorithm: Option<String>,
    #[serde(rename = "EncryptionContext", default)]
    encryption_context: Context,
    #[serde(rename = "Recipient")]
    recipient: Option<Recipient>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipient {
    #[serde(rename = "AttestationDocument")]
    attestation_document: String,
    #[serde(rename = "KeyEncryptionAlgorithm")]
    key_encryption_algorithm: String,
}

fn decode(base64: &str, name: &str) -> Result<Vec<u8>, Refusal> {
    Base64::decode_vec(base64).map_err(|_| Refusal::validation(format!("{name} is not base64")))
}
