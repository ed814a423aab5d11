//! The trust policy that counts now, and every session that was judged by it or by one before it.
//!
//! ```text
//! set(policy):
//!   with the lock held:
//!     policy and number := the new ones
//!     for each session that somebody still holds:
//!       judge its evidence again, as of the moment at which it was judged first
//!       refused, or over by now: the session is withdrawn, and whatever is sent under it is cut
//!       good for a shorter time than before: cut as well; another session takes its place
//! admit(session):
//!   with the lock held:
//!     judged by an earlier policy: judge it again
//!     remember it
//! ```
//!
//! One lock for both, so that no session escapes: when `set` returns, nothing more is sent under a proof that the new policy does
//! not accept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use attestation::UnixMillis;
use attestation::report::AttestationReport;
use tokio::sync::Notify;

use crate::follow::PolicyProblem;
use crate::state::{Session, Standing};
use crate::witnesses::{Heads, TrustPolicy};

/// The policy that counts now.
#[derive(Clone)]
pub(crate) struct Demand {
    /// None: the service's own, where simulation was accepted by name.
    pub(crate) policy: Option<Arc<TrustPolicy>>,
    /// How many policies there were before it.
    pub(crate) number: u64,
}

/// How live sessions fared under a new policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// Sessions that the new policy accepts too.
    pub kept: usize,
    /// Sessions that ended with it: under a release that it does not accept, or only for a shorter time.
    pub ended: usize,
}

/// A session of before, and what came of it.
pub(crate) struct Rejudged {
    pub(crate) before: Arc<Session>,
    pub(crate) outcome: Result<Arc<Session>, Arc<AttestationReport>>,
}

pub(crate) struct Trust {
    inner: Mutex<Inner>,
    /// Why the next policy could not be taken.
    problem: Mutex<Option<PolicyProblem>>,
    /// Wakes the task that follows the policy's source.
    pub(crate) asked: Notify,
    /// Trees of witnessed logs that were accepted, by any policy.
    pub(crate) heads: Heads,
}

struct Inner {
    demand: Demand,
    live: Vec<Weak<Session>>,
}

impl Trust {
    pub(crate) fn new(policy: Option<TrustPolicy>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                demand: Demand {
                    policy: policy.map(Arc::new),
                    number: 0,
                },
                live: Vec::new(),
            }),
            problem: Mutex::default(),
            asked: Notify::new(),
            heads: Heads::default(),
        }
    }

    pub(crate) fn problem(&self) -> Option<PolicyProblem> {
        let problem = self.problem.lock();
        problem.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether that is another problem than before, or the end of one. The same one is dated from its beginning.
    pub(crate) fn set_problem(&self, problem: Option<PolicyProblem>) -> bool {
        let mut before = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |problem: &PolicyProblem| (problem.code.clone(), problem.message.clone());
        let is_new = problem.as_ref().map(told) != before.as_ref().map(told);
        if is_new {
            *before = problem;
        }
        is_new
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn demand(&self) -> Demand {
        self.inner().demand.clone()
    }

    /// Takes a session that was judged, perhaps by a policy that was replaced meanwhile.
    pub(crate) fn admit(&self, session: Session) -> Result<Arc<Session>, Arc<AttestationReport>> {
        let mut inner = self.inner();
        let session = match &inner.demand {
            Demand {
                policy: Some(policy),
                number,
            } if *number != session.judged_by => {
                session.judge_again(policy, *number, &self.heads)?
            }
            _ => session,
        };
        let session = Arc::new(session);
        inner.live.retain(|one| one.strong_count() > 0);
        inner.live.push(Arc::downgrade(&session));
        Ok(session)
    }

    /// Judges by the policy of that number, and once more by each policy that takes its place meanwhile: a refusal is the word of the
    /// policy that counts when it is given.
    pub(crate) fn judge(
        &self,
        by: (Arc<TrustPolicy>, u64),
        judge: impl Fn(&TrustPolicy, u64) -> Result<Session, Arc<AttestationReport>>,
    ) -> Result<Arc<Session>, Arc<AttestationReport>> {
        let (mut policy, mut number) = by;
        loop {
            let judged = judge(&policy, number).and_then(|session| self.admit(session));
            let Err(report) = judged else {
                return judged;
            };
            match self.demand() {
                Demand {
                    policy: Some(newer),
                    number: newest,
                } if newest != number => (policy, number) = (newer, newest),
                _ => return Err(report),
            }
        }
    }

    /// Replaces the policy, and judges every live session by the new one.
    pub(crate) fn set(&self, policy: TrustPolicy, now: UnixMillis) -> Vec<Rejudged> {
        let mut inner = self.inner();
        let policy = Arc::new(policy);
        let number = inner.demand.number + 1;
        inner.demand = Demand {
            policy: Some(Arc::clone(&policy)),
            number,
        };
        let before: Vec<_> = inner.live.iter().filter_map(Weak::upgrade).collect();
        let mut rejudged = Vec::with_capacity(before.len());
        for before in before {
            if before.standing() != Standing::Good {
                continue;
            }
            let again = before.judge_again(&policy, number, &self.heads);
            let outcome = again.and_then(|session| session.still_accepted(policy.policy(), now));
            let outcome = outcome.map(Arc::new);
            match &outcome {
                Ok(session) if session.valid_until() >= before.valid_until() => {}
                Ok(_) => before.end(Standing::Shortened),
                Err(report) => before.end(Standing::Withdrawn(Arc::clone(report))),
            }
            if let Ok(session) = &outcome {
                inner.live.push(Arc::downgrade(session));
            }
            rejudged.push(Rejudged { before, outcome });
        }
        inner.live.retain(|one| one.strong_count() > 0);
        rejudged
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use attestation::{Appraisal, Policy, TrustAnchor};
    use serde_json::json;

    use super::*;

    fn policy(name: &str) -> TrustPolicy {
        let json = json!({
            "format": "clearseal-trust-policy/1",
            "name": name,
            "root": "aws-nitro-enclaves-g1",
            "releases": [{"name": "one", "pcrs": {"0": "ab".repeat(48)}}],
        });
        Policy::chosen_by_hand(json.to_string().as_bytes())
            .unwrap()
            .into()
    }

    #[test]
    fn a_refusal_by_a_policy_that_was_replaced_meanwhile_is_not_given_out() {
        let trust = Trust::new(Some(policy("first")));
        let Demand {
            policy: first,
            number,
        } = trust.demand();
        let judged = Cell::new(0);
        let outcome = trust.judge((first.unwrap(), number), |by, _| {
            judged.set(judged.get() + 1);
            if by.policy().name() == "first" {
                trust.set(policy("second"), UnixMillis(0));
            }
            let mut report =
                Appraisal::of(b"no document").inspect(&TrustAnchor::aws_nitro_g1(), UnixMillis(0));
            report.message = Some(by.policy().name().to_owned());
            Err(Arc::new(report))
        });
        assert_eq!(outcome.err().unwrap().message.as_deref(), Some("second"));
        assert_eq!(judged.get(), 2);
    }
}
