//! Policies that require witnesses: the enclave's keys must be in a log whose newest tree enough witnesses have cosigned.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use attestation::report::{AttestationReport, Row, RowState};
use attestation::{MAX_POLICY, ModelPin, Policy, PolicyError, UnixMillis, Verdict};
use merkle::Hash;
use merkle::verify::ProofError;
use serde::Deserialize;
use witness::key::Verifier;
use witness::policy::{Witnessed, WitnessedError};
use witness::proof::{MalformedProof, TlogProof};
use witness::record::{Kind, entry, write};

/// Member of a trust policy that states the witnesses.
const MEMBER: &str = "witnesses";
/// Bounds of `max_age_seconds`: a host has its checkpoint cosigned once a minute; a month.
const MAX_AGE: std::ops::RangeInclusive<u64> = 600..=2_678_400;
/// Number of the row in reports. Those of `attestation` are lower.
const ROW: u8 = 101;
/// Trees that are remembered.
const MAX_HEADS: usize = 1024;

/// A trust policy, and the witnesses that it requires in addition to the checks of [`Policy`].
///
/// [`Policy`] alone refuses the member `witnesses` as unknown, so that no program ignores it.
#[derive(Clone, Debug)]
pub struct TrustPolicy {
    policy: Policy,
    witnesses: Option<Requirement>,
}

/// Witnesses of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    witnesses: witness::policy::Policy,
    threshold: usize,
    max_age: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    log: String,
    keys: Vec<String>,
    threshold: usize,
    max_age_seconds: u64,
}

/// Reason for refusing keys whose evidence was accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
pub(crate) enum UnwitnessedError {
    /// The host sent no proof.
    #[error("the host did not prove that the enclave's keys are in the log that witnesses cosign")]
    #[coded(
        "WITNESSED_PROOF_MISSING",
        remedy = "Send nothing: this enclave may be shown to you alone. If it is new, try again in a minute; if this lasts, ask the operator whether log and witnesses work."
    )]
    Missing,
    /// The host sent something else.
    #[error(transparent)]
    #[coded(transparent)]
    Malformed(#[from] MalformedProof),
    /// Not enough witnesses, or too long ago.
    #[error(transparent)]
    #[coded(transparent)]
    Witnessed(#[from] WitnessedError),
    /// Other keys are in the tree, or the tree is a second history.
    #[error(transparent)]
    #[coded(transparent)]
    Tree(#[from] ProofError),
}

impl From<Policy> for TrustPolicy {
    /// Without witnesses.
    fn from(policy: Policy) -> Self {
        Self {
            policy,
            witnesses: None,
        }
    }
}

impl TrustPolicy {
    /// Reads a policy that the user chose independently of all evidence, as [`Policy::chosen_by_hand`] does, and its member `witnesses`.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn chosen_by_hand(json: &[u8]) -> Result<Self, PolicyError> {
        // A longer policy is refused as a whole, with its reason.
        let taken = match json.len() <= MAX_POLICY {
            true => take_member(json),
            false => None,
        };
        let Some((rest, member)) = taken else {
            return Policy::chosen_by_hand(json).map(Self::from);
        };
        let policy = Policy::chosen_by_hand(&rest)?;
        let witnesses = Requirement::read(&member)
            .map_err(|reason| PolicyError::Invalid(format!("{MEMBER}: {reason}")))?;
        Ok(Self {
            policy,
            witnesses: Some(witnesses),
        })
    }

    /// The policy without the member `witnesses`.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Required number of witnesses, and how many the policy names; `None` where it requires none.
    pub fn threshold(&self) -> Option<(usize, usize)> {
        let required = self.witnesses.as_ref()?;
        Some((required.threshold, required.witnesses.witnesses().len()))
    }

    /// Largest age of a quorum's cosignatures, in seconds; `None` where the policy requires no witnesses.
    pub fn max_head_age_seconds(&self) -> Option<u64> {
        Some(self.witnesses.as_ref()?.max_age)
    }

    /// The policy with another model.
    pub(crate) fn replace_model(self, model: ModelPin) -> Self {
        Self {
            policy: self.policy.replace_model(model),
            ..self
        }
    }

    pub(crate) fn witnesses(&self) -> Option<&Requirement> {
        self.witnesses.as_ref()
    }
}

impl Requirement {
    fn read(member: &[u8]) -> Result<Self, String> {
        let Json {
            log,
            keys,
            threshold,
            max_age_seconds,
        } = serde_json::from_slice(member).map_err(|error| error.to_string())?;
        let parse =
            |key: &String| Verifier::parse(key).map_err(|error| format!("{key:?}: {error}"));
        let log = parse(&log)?;
        let keys: Vec<_> = keys.iter().map(parse).collect::<Result<_, _>>()?;
        let witnesses = witness::policy::Policy::with_threshold(log, keys, threshold).ok_or(
            "log is the key of a log, keys are distinct keys of witnesses, and threshold goes from 1 to their number",
        )?;
        if !MAX_AGE.contains(&max_age_seconds) {
            return Err(format!(
                "max_age_seconds goes from {} to {}",
                MAX_AGE.start(),
                MAX_AGE.end()
            ));
        }
        Ok(Self {
            witnesses,
            threshold,
            max_age: max_age_seconds,
        })
    }

    /// Largest age of a head, in milliseconds.
    pub(crate) fn max_age(&self) -> u64 {
        self.max_age * 1000
    }

    /// Checks that the record of these keys is in a tree that enough witnesses cosigned, as of `at`, and that no other tree of its size was
    /// accepted before. Adds a row to the report, and turns it into a refusal where the check fails. Returns the last moment at
    /// which the head is young enough.
    pub(crate) fn check(
        &self,
        report: &mut AttestationReport,
        proof: Option<&[u8]>,
        manifest: &[u8],
        at: UnixMillis,
        heads: &Heads,
    ) -> Option<UnixMillis> {
        let mut row = self.row();
        if report.verdict == Verdict::Refused {
            report.checks.push(row);
            return None;
        }
        let judged = self.judge(proof, manifest, at, heads);
        let until = match &judged {
            Ok(witnessed) => {
                row.state = RowState::Passed;
                let names: Vec<_> = witnessed
                    .cosigned
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect();
                let oldest = UnixMillis::from_seconds(witnessed.time);
                row.observed = format!(
                    "In a tree of {} entries, cosigned by {} since {oldest}",
                    witnessed.checkpoint.tree.size,
                    names.join(", ")
                );
                Some(UnixMillis(oldest.0.saturating_add(self.max_age())))
            }
            Err(error) => {
                row.state = RowState::Failed;
                row.code = Some(error.code().to_owned());
                row.observed = error.to_string();
                report.verdict = Verdict::Refused;
                report.code = Some(error.code().to_owned());
                report.message = Some(format!("{error}."));
                report.remedy = Some(error.remedy().to_owned());
                None
            }
        };
        report.checks.push(row);
        until
    }

    fn judge(
        &self,
        proof: Option<&[u8]>,
        manifest: &[u8],
        at: UnixMillis,
        heads: &Heads,
    ) -> Result<Witnessed, UnwitnessedError> {
        let proof = proof.filter(|proof| !proof.is_empty());
        let proof = TlogProof::parse(proof.ok_or(UnwitnessedError::Missing)?)?;
        let witnessed = self
            .witnesses
            .judge(&proof.note, at.0 / 1000, self.max_age)?;
        let tree = &witnessed.checkpoint.tree;
        proof.verify(&entry(&write(Kind::Keys, manifest)), tree)?;
        // Only trees that a quorum cosigned are remembered: others could crowd these out.
        heads.remember(&witnessed.checkpoint.origin, tree.size, tree.root)?;
        Ok(witnessed)
    }

    fn row(&self) -> Row {
        let count = self.witnesses.witnesses().len();
        Row {
            id: ROW,
            name: MEMBER.to_owned(),
            stage: "binding".to_owned(),
            title: "Do witnesses see these keys in the log that others see?".to_owned(),
            required: true,
            state: RowState::NotRun,
            code: None,
            expected: format!(
                "The keys in a tree that {} of {count} witnesses cosigned in the last {} s",
                self.threshold, self.max_age
            ),
            observed: String::new(),
            clause: "C2SP tlog-proof, tlog-cosignature; docs/WITNESS.md".to_owned(),
            micros: None,
        }
    }
}

/// Trees that were accepted: origin and size → root.
#[derive(Default)]
pub(crate) struct Heads(Mutex<BTreeMap<(String, u64), Hash>>);

impl Heads {
    fn remember(&self, origin: &str, size: u64, root: Hash) -> Result<(), ProofError> {
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *heads.entry((origin.to_owned(), size)).or_insert(root);
        if before != root {
            return Err(ProofError::Forked);
        }
        // The smallest first: logs grow.
        while heads.len() > MAX_HEADS {
            heads.pop_first();
        }
        Ok(())
    }
}

/// Splits a JSON object into the object without the first member `witnesses`, and that member's value. `None` where there is none, or the
/// text is not an object. Both parts are judged later: this only finds where strings, objects and lists end.
fn take_member(json: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut at = skip_space(json, 0);
    if json.get(at..at + 3) == Some(b"\xef\xbb\xbf") {
        at = skip_space(json, at + 3);
    }
    let mut comma = None;
    at = skip_space(json, expect(json, at, b'{')?);
    loop {
        let start = at;
        at = skip_string(json, at)?;
        let key = json.get(start + 1..at - 1)?;
        at = skip_space(json, expect(json, skip_space(json, at), b':')?);
        let value = at;
        at = skip_value(json, at)?;
        let end = at;
        at = skip_space(json, at);
        let is_last = match json.get(at)? {
            b',' => false,
            b'}' => true,
            _ => return None,
        };
        if key == MEMBER.as_bytes() {
            // With one of the commas around it.
            let (from, to) = match (is_last, comma) {
                (false, _) => (start, at + 1),
                (true, Some(comma)) => (comma, end),
                (true, None) => (start, end),
            };
            let rest = [json.get(..from)?, json.get(to..)?].concat();
            return Some((rest, json.get(value..end)?.to_vec()));
        }
        if is_last {
            return None;
        }
        comma = Some(at);
        at = skip_space(json, at + 1);
    }
}

fn skip_space(json: &[u8], mut at: usize) -> usize {
    while json.get(at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
        at += 1;
    }
    at
}

fn expect(json: &[u8], at: usize, byte: u8) -> Option<usize> {
    (json.get(at) == Some(&byte)).then_some(at + 1)
}

/// Returns the position after a string.
fn skip_string(json: &[u8], at: usize) -> Option<usize> {
    let mut at = expect(json, at, b'"')?;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the position after a value.
fn skip_value(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = skip_string(json, at)?;
                if depth == 0 {
                    return Some(at);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::{Value, json};
    use witness::key::{Signer, Use};

    use super::*;

    fn key(name: &str, r#use: Use, seed: u8) -> String {
        let signer = Signer::from_seed(name, r#use, &[seed; 32]).unwrap();
        signer.verifier().to_string()
    }

    fn witnesses() -> Value {
        json!({
            "log": key("log.example", Use::Log, 1),
            "keys": [key("w1", Use::Witness, 2), key("w2", Use::Witness, 3)],
            "threshold": 2,
            "max_age_seconds": 3600,
        })
    }

    fn policy() -> Value {
        json!({
            "format": "clearseal-trust-policy/1",
            "name": "a \"quoted\" name, {\\",
            "root": "aws-nitro-enclaves-g1",
            "releases": [{"name": "one", "pcrs": {"0": "ab".repeat(48)}}],
        })
    }

    #[test]
    fn the_member_may_be_at_any_place() {
        let (plain, member) = (policy().to_string(), witnesses().to_string());
        let plain_policy = Policy::chosen_by_hand(plain.as_bytes()).unwrap();
        let inner = plain.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        let (first, others) = inner.split_once(',').unwrap();
        for text in [
            format!("{{\"witnesses\":{member},{inner}}}"),
            format!(" {{ {inner} , \"witnesses\" : {member} }} "),
            format!("\u{feff}{{{first},\n\"witnesses\":{member}\n,{others}}}\n"),
        ] {
            let read = TrustPolicy::chosen_by_hand(text.as_bytes()).unwrap();
            assert_eq!(read.policy(), &plain_policy);
            assert_eq!(read.threshold(), Some((2, 2)));
            assert_eq!(read.max_head_age_seconds(), Some(3600));
            // A program that cannot check witnesses refuses the policy.
            let unaware = Policy::chosen_by_hand(text.as_bytes()).unwrap_err();
            assert_eq!(unaware.code(), "POLICY_UNREADABLE");
            assert!(unaware.to_string().contains("witnesses"), "{unaware}");
        }
        let without = TrustPolicy::chosen_by_hand(plain.as_bytes()).unwrap();
        assert_eq!(
            (without.policy(), without.threshold()),
            (&plain_policy, None)
        );
    }

    #[test]
    fn a_member_that_is_wrong_twice_there_or_hidden_is_refused() {
        let code = |text: &str| {
            let read = TrustPolicy::chosen_by_hand(text.as_bytes());
            read.unwrap_err().code().to_owned()
        };
        let with = |change: &dyn Fn(&mut Value)| {
            let (mut policy, mut member) = (policy(), witnesses());
            change(&mut member);
            policy["witnesses"] = member;
            code(&policy.to_string())
        };
        for change in [
            &(|it: &mut Value| it["threshold"] = json!(0)) as &dyn Fn(&mut Value),
            &|it| it["threshold"] = json!(3),
            &|it| it["max_age_seconds"] = json!(599),
            &|it| it["max_age_seconds"] = json!("3600"),
            &|it| it["keys"] = json!([]),
            &|it| it["keys"][1] = it["keys"][0].clone(),
            &|it| it["keys"][1] = it["log"].clone(),
            &|it| it["log"] = it["keys"][0].clone(),
            &|it| it["quorum"] = json!(2),
            &|it| drop(it.as_object_mut().unwrap().remove("max_age_seconds")),
            &|it| *it = Value::Null,
        ] {
            assert_eq!(with(change), "POLICY_INVALID");
        }
        let plain = policy().to_string();
        let inner = plain.strip_prefix('{').unwrap();
        let member = witnesses();
        for text in [
            format!("{{\"witnesses\":{member},\"witnesses\":{member},{inner}"),
            format!("{{\"witnesse\\u0073\":{member},{inner}"),
            format!("{{\"witnesses\":{member} {inner}"),
            format!("{{\"witnesses\":{member},{inner},"),
            "{\"witnesses\":{".to_owned(),
            "{\"witnesses\\".to_owned(),
            "[\"witnesses\"]".to_owned(),
        ] {
            assert_eq!(code(&text), "POLICY_UNREADABLE", "{text}");
        }
        let repeated = member.to_string().replacen('{', "{\"threshold\":1,", 1);
        let text = format!("{{\"witnesses\":{repeated},{inner}");
        assert_eq!(code(&text), "POLICY_INVALID");
    }

    #[test]
    fn another_tree_of_a_remembered_size_is_a_fork() {
        let heads = Heads::default();
        assert_eq!(heads.remember("a", 1, [1; 32]), Ok(()));
        assert_eq!(heads.remember("a", 2, [2; 32]), Ok(()));
        assert_eq!(heads.remember("a", 1, [1; 32]), Ok(()));
        assert_eq!(heads.remember("b", 1, [9; 32]), Ok(()));
        assert_eq!(heads.remember("a", 1, [9; 32]), Err(ProofError::Forked));
        for size in 0..2 * MAX_HEADS as u64 {
            assert_eq!(heads.remember("c", size, [0; 32]), Ok(()));
        }
    }
}
