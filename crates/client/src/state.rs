//! State of an upstream and its session.

use std::ops::Range;
use std::sync::Arc;

use attestation::report::AttestationReport;
use attestation::{
    Evidence, Freshness, Policy, ServiceManifest, UnixMillis, Verdict, VerifiedAttestation,
};
use tokio::sync::watch;

use crate::error::Problem;
use crate::witnesses::{Heads, TrustPolicy};

/// State of one upstream. Nothing is sealed except in [`State::Trusted`] and, where the caller accepted that,
/// [`State::Simulated`].
#[derive(Clone, Debug, Default)]
pub enum State {
    /// Nothing was asked yet.
    #[default]
    Idle,
    /// The first evidence is on its way, or is being judged.
    Checking,
    /// Verified: every check passed, under AWS's root.
    Trusted(Arc<Session>),
    /// Every check passed under a development root. Proves nothing about hardware.
    Simulated(Arc<Session>),
    /// Judged and refused.
    Refused(Arc<AttestationReport>),
    /// It was accepted once. The trust policy was changed since and accepts neither that enclave nor the one that answers now.
    Withdrawn(Arc<AttestationReport>),
    /// No evidence came.
    Unreachable(Arc<Problem>),
}

impl State {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        match session.verdict() {
            Verdict::Verified(_) => Self::Trusted(Arc::clone(session)),
            _ => Self::Simulated(Arc::clone(session)),
        }
    }

    /// The session, where there is one. It may be over: see [`Session::is_valid`].
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Trusted(session) | Self::Simulated(session) => Some(session),
            Self::Idle
            | Self::Checking
            | Self::Refused(_)
            | Self::Withdrawn(_)
            | Self::Unreachable(_) => None,
        }
    }

    /// One word: `idle`, `checking`, `trusted`, `simulated`, `refused`, `withdrawn`, `unreachable`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Checking => "checking",
            Self::Trusted(_) => "trusted",
            Self::Simulated(_) => "simulated",
            Self::Refused(_) => "refused",
            Self::Withdrawn(_) => "withdrawn",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

/// The outcome of a later trust policy for a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// Nothing.
    Good,
    /// The new policy accepts its enclave, and ends sooner. Another session has taken its place.
    Shortened,
    /// The new policy refuses its enclave.
    Withdrawn(Arc<AttestationReport>),
}

/// An enclave that proved itself, and its evidence.
#[derive(Debug)]
pub struct Session {
    pub(crate) attestation: VerifiedAttestation,
    pub(crate) report: AttestationReport,
    pub(crate) document: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    /// The revocation lists that cover its chain, in DER, one after another. A host chooses how many others it serves.
    pub(crate) crls: Arc<[u8]>,
    /// Proof that the keys are in a witnessed log, where the host sent one.
    proof: Option<Vec<u8>>,
    /// Where the policy requires witnesses: the largest age of a head in milliseconds, and the end of this one's, by the client's clock.
    witnessed: Option<(u64, UnixMillis)>,
    /// The nonce that the document answers.
    nonce: Vec<u8>,
    accept_simulated: bool,
    /// Number of the trust policy.
    pub(crate) judged_by: u64,
    standing: watch::Sender<Standing>,
}

/// Evidence as it came, and the question that it answers.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) evidence: Evidence<'a>,
    pub(crate) crls: &'a [u8],
    /// Proof that the keys are in a witnessed log.
    pub(crate) proof: Option<&'a [u8]>,
    pub(crate) nonce: &'a [u8],
    /// When it came, by the client's clock.
    pub(crate) at: UnixMillis,
    pub(crate) accept_simulated: bool,
}

fn select_crls(crls: &[u8], places: &[Range<usize>]) -> Arc<[u8]> {
    let lists = places.iter().filter_map(|place| crls.get(place.clone()));
    lists.collect::<Vec<_>>().concat().into()
}

impl Session {
    /// Judges evidence by the policy of that number.
    pub(crate) fn judge(
        answer: Answer<'_>,
        policy: &TrustPolicy,
        number: u64,
        heads: &Heads,
    ) -> Result<Self, Arc<AttestationReport>> {
        let Answer {
            evidence,
            crls,
            proof,
            nonce,
            at: now,
            accept_simulated,
        } = answer;
        let (report, concluded) = evidence
            .appraisal()
            .with_crls(crls)
            .verify(policy.policy(), Freshness::Live { nonce, now });
        let (mut report, enclave) = match accept_simulated {
            true => (report, concluded.including_simulated()),
            false => (report.refuse_simulation(), concluded.verified()),
        };
        let witnessed = policy.witnesses().and_then(|required| {
            let until = required.check(&mut report, proof, evidence.manifest, now, heads)?;
            Some((required.max_age(), until))
        });
        let is_witnessed = policy.witnesses().is_none() || witnessed.is_some();
        match enclave.filter(|_| is_witnessed) {
            Some(attestation) => Ok(Self {
                proof: proof.map(<[u8]>::to_vec),
                witnessed,
                crls: select_crls(crls, attestation.crls()),
                attestation,
                report,
                document: evidence.document.to_vec(),
                manifest: evidence.manifest.to_vec(),
                nonce: nonce.to_vec(),
                accept_simulated,
                judged_by: number,
                standing: watch::Sender::new(Standing::Good),
            }),
            None => Err(Arc::new(report)),
        }
    }

    /// The same evidence by another policy, as of the moment at which it came. Dates of the policy end the session, if they are
    /// over by now.
    pub(crate) fn judge_again(
        &self,
        policy: &TrustPolicy,
        number: u64,
        heads: &Heads,
    ) -> Result<Self, Arc<AttestationReport>> {
        let answer = Answer {
            evidence: Evidence {
                document: &self.document,
                manifest: &self.manifest,
            },
            crls: &self.crls,
            proof: self.proof.as_deref(),
            nonce: &self.nonce,
            at: self.attestation.judged_at(),
            accept_simulated: self.accept_simulated,
        };
        Self::judge(answer, policy, number, heads)
    }

    /// Returns the session, or the refusal as of now where release, policy or proof have ended.
    pub(crate) fn still_accepted(
        self,
        policy: &Policy,
        now: UnixMillis,
    ) -> Result<Self, Arc<AttestationReport>> {
        if self.is_valid(now) {
            return Ok(self);
        }
        let time = self.attestation.clock_offset().to_enclave(now);
        let evidence = Evidence {
            document: &self.document,
            manifest: &self.manifest,
        };
        let (report, _) = evidence
            .appraisal()
            .with_crls(&self.crls)
            .verify(policy, Freshness::Audit { time });
        match report.verdict {
            Verdict::Refused => Err(Arc::new(report)),
            _ => Ok(self),
        }
    }

    /// Whether both rest on one document.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.attestation.document_sha256() == other.attestation.document_sha256()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Why it ended, where the trust policy was changed and refuses its enclave.
    pub(crate) fn withdrawal(&self) -> Option<Arc<AttestationReport>> {
        match &*self.standing.borrow() {
            Standing::Withdrawn(report) => Some(Arc::clone(report)),
            Standing::Good | Standing::Shortened => None,
        }
    }

    /// Nothing more is sent under it. What waits in [`ended`](Self::ended) goes on.
    pub(crate) fn end(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }

    /// Waits for a trust policy under which this session is over.
    pub(crate) async fn ended(&self) {
        let mut standing = self.standing.subscribe();
        // The sender is this session's own.
        let _ = standing.wait_for(|it| *it != Standing::Good).await;
    }

    /// The judgement, every check a row.
    pub fn report(&self) -> &AttestationReport {
        &self.report
    }

    /// Verified or simulated.
    pub fn verdict(&self) -> Verdict {
        self.attestation.verdict()
    }

    /// Returns the enclave's own description: model, keys, validity.
    pub fn manifest(&self) -> &ServiceManifest {
        self.attestation.manifest()
    }

    /// The attested enclave, for those who seal by hand.
    pub fn attestation(&self) -> &VerifiedAttestation {
        &self.attestation
    }

    /// The attestation document as it came.
    pub fn document_bytes(&self) -> &[u8] {
        &self.document
    }

    /// The service manifest as it came.
    pub fn manifest_bytes(&self) -> &[u8] {
        &self.manifest
    }

    /// The certificate revocation lists that cover the document's chain, in DER, one after another; empty where the host served none.
    /// Others that it served are not kept.
    pub fn crl_bytes(&self) -> &[u8] {
        &self.crls
    }

    /// The last moment at which requests are sealed under this proof, by the client's clock.
    pub fn valid_until(&self) -> UnixMillis {
        let offset = self.attestation.clock_offset();
        let until = offset.to_local(self.attestation.valid_until());
        self.witnessed.map_or(until, |(_, head)| until.min(head))
    }

    /// Proof that the keys are in a log that witnesses cosign (c2sp.org/tlog-proof), where the host sent one.
    pub fn witnessed_proof(&self) -> Option<&[u8]> {
        self.proof.as_deref().filter(|proof| !proof.is_empty())
    }

    /// Milliseconds from the beginning of the manifest to the end of this proof, or the largest age of a witnessed head, which is shorter.
    pub(crate) fn lifetime(&self) -> u64 {
        let from = UnixMillis::from_seconds(self.manifest().not_before);
        let lifetime = self.attestation.valid_until().0.saturating_sub(from.0);
        self.witnessed
            .map_or(lifetime, |(age, _)| lifetime.min(age))
    }

    /// Whether requests may still be sealed under this proof. False, too, once [`set_policy`](crate::Client::set_policy) was given
    /// a policy that does not accept its enclave.
    pub fn is_valid(&self, now: UnixMillis) -> bool {
        *self.standing.borrow() == Standing::Good && now <= self.valid_until()
    }

    /// Hint for a load balancer: hex of the first 8 bytes of SHA-256 of the manifest.
    pub(crate) fn hint(&self) -> String {
        base16ct::lower::encode_string(&self.attestation.manifest_sha256()[..8])
    }
}
