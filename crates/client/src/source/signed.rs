//! A signed trust policy behind an address.
//!
//! ```text
//! policy    := GET URL             at most 64 KiB, no redirect
//! signature := GET URL.minisig     at most 8 KiB, no redirect
//! verify signature over policy under the publisher's key
//! policy names a sequence number and an end
//! sequence < highest seen: refused; the same number over other bytes: refused
//! remember sequence and hash, on disk where there is a file for it; then take it into use
//! ```
//!
//! The server at the address can keep back a newer policy, for as long as the end of the one that is known lets it.

use std::path::PathBuf;
use std::time::Duration;

use attestation::MAX_POLICY;
use release::{PublicKey, Signature, SignatureError};
use sha2::{Digest, Sha256};

use super::record::{Record, Seen};
use super::{Polled, SourceError};
use crate::host::Host;
use crate::witnesses::TrustPolicy;

/// For each of the two answers.
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_SIGNATURE: usize = 8 << 10;

pub(super) struct SignedPolicy {
    policy: Host,
    signature: Host,
    key: PublicKey,
    record: Record,
}

impl SignedPolicy {
    pub(super) fn new(url: &str, key: &str, state: Option<PathBuf>) -> Result<Self, SourceError> {
        let key = PublicKey::parse(key).map_err(|_| SourceError::KeyMalformed)?;
        let host =
            |url: &str| Host::new(url, TIMEOUT).map_err(|error| SourceError::not_fetched(&error));
        Ok(Self {
            policy: host(url)?,
            signature: host(&format!("{url}.minisig"))?,
            record: Record::open(state, &key.to_text())?,
            key,
        })
    }

    pub(super) async fn poll(&mut self) -> Result<Polled, SourceError> {
        let bytes = self.policy.get("", MAX_POLICY).await;
        let bytes = bytes.map_err(|error| SourceError::not_fetched(&error))?;
        let signature = self.signature.get("", MAX_SIGNATURE).await;
        let signature = signature.map_err(|error| SourceError::not_fetched(&error))?;
        self.take(&bytes, &signature)
    }

    /// Signature first: unsigned bytes are not read.
    fn take(&mut self, bytes: &[u8], signature: &[u8]) -> Result<Polled, SourceError> {
        let signature =
            std::str::from_utf8(signature).map_err(|_| SourceError::SignatureMalformed)?;
        let signature = Signature::parse(signature).map_err(|_| SourceError::SignatureMalformed)?;
        self.key
            .verify(bytes, &signature)
            .map_err(|error| match error {
                SignatureError::OtherKey => SourceError::OtherKey,
                _ => SourceError::SignatureInvalid,
            })?;
        let policy = TrustPolicy::chosen_by_hand(bytes).map_err(|error| SourceError::Unusable {
            place: self.policy.url().to_owned(),
            error,
        })?;
        let sequence = policy.policy().sequence().ok_or(SourceError::NotNumbered)?;
        if policy.policy().not_after().is_none() {
            return Err(SourceError::NoEnd);
        }
        let seen = Seen {
            sequence,
            sha256: Sha256::digest(bytes).into(),
        };
        let before = self.record.seen();
        let is_first = !self.record.has_taken();
        match before {
            Some(before) if sequence < before.sequence => Err(SourceError::RolledBack {
                offered: sequence,
                highest: before.sequence,
            }),
            Some(before) if sequence == before.sequence && seen != before => {
                Err(SourceError::SequenceReused { sequence })
            }
            Some(before) if seen == before && !is_first => Ok(Polled {
                policy: None,
                problem: self.record.write_again().err(),
            }),
            _ => Ok(Polled {
                policy: Some(policy),
                // A withdrawal counts also where the disk is full.
                problem: self.record.take(seen).err(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use release::SecretKey;
    use serde_json::json;

    use super::*;

    fn key(seed: u8) -> SecretKey {
        SecretKey::from_random([seed; 8], &[seed; 32])
    }

    fn policy(sequence: u64, name: &str) -> Vec<u8> {
        json!({
            "format": "clearseal-trust-policy/1",
            "name": name,
            "sequence": sequence,
            "root": "aws-nitro-enclaves-g1",
            "not_after": "2027-01-31T00:00:00Z",
            "releases": [{"name": "one", "pcrs": {"0": "ab".repeat(48)}}],
        })
        .to_string()
        .into_bytes()
    }

    fn source(state: Option<PathBuf>) -> Result<SignedPolicy, SourceError> {
        let key = key(7).public().to_text();
        SignedPolicy::new("http://127.0.0.1:1/policy.json", &key, state)
    }

    fn signed_by(seed: u8, bytes: &[u8]) -> String {
        key(seed).sign(bytes, 1_800_000_000).to_text()
    }

    fn offer(source: &mut SignedPolicy, bytes: &[u8]) -> Result<Option<String>, String> {
        let fetched = source.take(bytes, signed_by(7, bytes).as_bytes());
        let fetched = fetched.map_err(|error| error.code().to_owned())?;
        assert!(fetched.problem.is_none());
        Ok(fetched
            .policy
            .map(|policy| policy.policy().name().to_owned()))
    }

    #[test]
    fn a_policy_counts_only_under_its_publishers_signature() {
        let mut source = source(None).unwrap();
        let bytes = policy(1, "one");
        let code = |source: &mut SignedPolicy, bytes: &[u8], signature: &str| {
            let refused = source.take(bytes, signature.as_bytes());
            refused.err().map(|error| error.code().to_owned())
        };
        let good = signed_by(7, &bytes);
        for (bytes, signature, expected) in [
            (&bytes, "", "POLICY_SIGNATURE_MALFORMED"),
            (&bytes, &*signed_by(8, &bytes), "POLICY_SIGNED_BY_OTHER"),
            (&policy(2, "two"), &*good, "POLICY_SIGNATURE_INVALID"),
        ] {
            let refused = code(&mut source, bytes, signature);
            assert_eq!(refused.as_deref(), Some(expected));
        }
        let unnumbered = policy(0, "none");
        let refused = code(&mut source, &unnumbered, &signed_by(7, &unnumbered));
        assert_eq!(refused.as_deref(), Some("POLICY_NOT_NUMBERED"));
        let endless = String::from_utf8(policy(3, "endless")).unwrap();
        let endless = endless.replace(r#""not_after":"2027-01-31T00:00:00Z","#, "");
        let refused = code(
            &mut source,
            endless.as_bytes(),
            &signed_by(7, endless.as_bytes()),
        );
        assert_eq!(refused.as_deref(), Some("POLICY_WITHOUT_END"));
        assert_eq!(offer(&mut source, &bytes), Ok(Some("one".to_owned())));
        assert_eq!(offer(&mut source, &bytes), Ok(None));
    }

    #[test]
    fn an_older_policy_never_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("policy-state.json");
        let mut first = source(Some(state.clone())).unwrap();
        assert_eq!(
            offer(&mut first, &policy(5, "five")),
            Ok(Some("five".to_owned()))
        );
        let rolled_back = Err("POLICY_ROLLED_BACK".to_owned());
        assert_eq!(offer(&mut first, &policy(4, "four")), rolled_back);
        let reused = Err("POLICY_SEQUENCE_REUSED".to_owned());
        assert_eq!(offer(&mut first, &policy(5, "other")), reused);
        drop(first);

        // After a restart, too; and the same policy is the one to begin with.
        let mut again = source(Some(state.clone())).unwrap();
        assert_eq!(offer(&mut again, &policy(4, "four")), rolled_back);
        assert_eq!(offer(&mut again, &policy(5, "other")), reused);
        assert_eq!(
            offer(&mut again, &policy(5, "five")),
            Ok(Some("five".to_owned()))
        );
        assert_eq!(
            offer(&mut again, &policy(6, "six")),
            Ok(Some("six".to_owned()))
        );
        drop(again);

        // Another process may share the file, and have seen more.
        let mut one = source(Some(state.clone())).unwrap();
        let mut other = source(Some(state.clone())).unwrap();
        assert_eq!(
            offer(&mut one, &policy(8, "eight")),
            Ok(Some("eight".to_owned()))
        );
        assert_eq!(offer(&mut other, &policy(7, "seven")), rolled_back);
        assert_eq!(
            offer(&mut other, &policy(8, "eight")),
            Ok(Some("eight".to_owned()))
        );

        // Without a file for it there is nothing to compare with.
        let mut forgetful = source(None).unwrap();
        assert_eq!(
            offer(&mut forgetful, &policy(4, "four")),
            Ok(Some("four".to_owned()))
        );

        // Damage is not a reason to begin again.
        for damage in ["", "{}", "{\"sequence\":1}"] {
            std::fs::write(&state, damage).unwrap();
            let refused = source(Some(state.clone())).err().unwrap();
            assert_eq!(refused.code(), "POLICY_STATE_UNREADABLE");
        }
    }

    #[test]
    fn a_record_of_another_publisher_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("policy-state.json");
        let mut first = source(Some(state.clone())).unwrap();
        assert!(offer(&mut first, &policy(5, "five")).is_ok());
        let other = key(8).public().to_text();
        let refused = SignedPolicy::new("http://127.0.0.1:1/p", &other, Some(state));
        assert_eq!(refused.err().unwrap().code(), "POLICY_STATE_UNREADABLE");
    }

    #[test]
    fn a_policy_counts_also_where_it_cannot_be_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("policy-state.json");
        let mut source = source(Some(state.clone())).unwrap();
        std::fs::create_dir(&state).unwrap();
        let bytes = policy(5, "five");
        let fetched = source
            .take(&bytes, signed_by(7, &bytes).as_bytes())
            .unwrap();
        assert!(fetched.policy.is_some());
        assert_eq!(fetched.problem.unwrap().code(), "POLICY_STATE_NOT_WRITTEN");
        // Tried again at each look.
        std::fs::remove_dir(&state).unwrap();
        let fetched = source
            .take(&bytes, signed_by(7, &bytes).as_bytes())
            .unwrap();
        assert!(fetched.policy.is_none() && fetched.problem.is_none());
        assert!(state.is_file());
    }
}
