//! Policies that are taken into use as they come.

use attestation::UnixMillis;

use crate::client::Client;
use crate::source::{PolicySource, Polled, SourceError};
use crate::trust::PolicyChange;

/// Something that [`Client::follow`] did, or could not do.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PolicyNews<'a> {
    /// Another policy is in force.
    Changed {
        /// Its name.
        name: &'a str,
        /// Its effect on sessions.
        change: PolicyChange,
    },
    /// The next policy could not be taken; the one before it stays in force. Told once for each problem, not at each look.
    Problem(&'a PolicyProblem),
    /// The source is as it should be again.
    Recovered,
}

/// Why the next policy could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// Stable code.
    pub code: String,
    /// Sentence that says what happened.
    pub message: String,
    /// Sentence that says what to do next.
    pub remedy: String,
    /// Since when, by the client's clock.
    pub since: UnixMillis,
}

/// The trust policy that counts now, and how it is with its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyStatus {
    /// Name of the policy in force; none where a simulating service's own is used.
    pub name: Option<String>,
    /// Its end, where it has one.
    pub not_after: Option<UnixMillis>,
    /// Why the next one could not be taken.
    pub problem: Option<PolicyProblem>,
}

impl Client {
    /// Looks at `source` from time to time, and takes each policy that comes into use as [`set_policy`](Self::set_policy) does,
    /// for as long as it is polled. It never returns. What cannot be read or used changes nothing but
    /// [`policy_status`](Self::policy_status).
    ///
    /// The policy to begin with is the caller's to [`load`](PolicySource::load) and to give to the builder.
    pub async fn follow(&self, mut source: PolicySource, mut tell: impl FnMut(PolicyNews<'_>)) {
        if let Some(problem) = source.take_problem() {
            self.note(Some(problem), &mut tell);
        }
        loop {
            let asked = self.options.trust.asked.notified();
            // Either of them is a reason to look.
            let _ = tokio::time::timeout(source.interval(), asked).await;
            match source.poll().await {
                Ok(Polled { policy, problem }) => {
                    self.note(problem, &mut tell);
                    if let Some(policy) = policy {
                        let name = policy.policy().name().to_owned();
                        let change = self.set_policy(policy);
                        tell(PolicyNews::Changed {
                            name: &name,
                            change,
                        });
                    }
                }
                Err(error) => self.note(Some(error), &mut tell),
            }
        }
    }

    /// Lets [`follow`](Self::follow) look at its source now.
    pub fn refresh_policy(&self) {
        self.options.trust.asked.notify_one();
    }

    /// The trust policy that counts now.
    pub fn policy_status(&self) -> PolicyStatus {
        let policy = self.options.trust.demand().policy;
        PolicyStatus {
            name: policy
                .as_ref()
                .map(|policy| policy.policy().name().to_owned()),
            not_after: policy.and_then(|policy| policy.policy().not_after()),
            problem: self.options.trust.problem(),
        }
    }

    /// Keeps the state of the source, and tells where it is another one.
    fn note(&self, error: Option<SourceError>, tell: &mut impl FnMut(PolicyNews<'_>)) {
        let problem = error.map(|error| PolicyProblem {
            code: error.code().to_owned(),
            message: error.to_string(),
            remedy: error.remedy().to_owned(),
            since: self.options.clock.now(),
        });
        if self.options.trust.set_problem(problem.clone()) {
            tell(match &problem {
                Some(problem) => PolicyNews::Problem(problem),
                None => PolicyNews::Recovered,
            });
        }
    }
}
