//! Trust policies that are replaced while a command runs.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clearseal_client::{PolicyNews, PolicySource, SourceError};

use crate::args::PolicyFlags;

impl PolicyFlags {
    /// The place that the policy comes from; none where no policy was named.
    pub(crate) fn source(&self) -> Result<Option<PolicySource>> {
        if let Some(path) = &self.policy {
            return Ok(Some(PolicySource::file(path)));
        }
        let (Some(url), Some(key)) = (&self.policy_url, &self.policy_key) else {
            return Ok(None);
        };
        let key = crate::release::key_text(key)?;
        let source = PolicySource::signed(url, &key, self.policy_state.clone());
        let source = source.map_err(|error| describe(&error))?;
        if self.policy_state.is_none() {
            say(
                "the highest policy number is kept in memory alone: after a restart an older policy is accepted until it ends; \
                 --policy-state FILE keeps it",
            );
        }
        let every = Duration::from_secs(self.policy_every.into());
        Ok(Some(source.every(every)))
    }
}

/// Message, code and remedy.
pub(crate) fn describe(error: &SourceError) -> anyhow::Error {
    anyhow!("{error} ({}). {}", error.code(), error.remedy())
}

/// Tells on standard error what became of the policy.
pub(crate) fn tell(news: PolicyNews<'_>) {
    say(&match news {
        PolicyNews::Changed { name, change } => format!(
            "trust policy {name} is in force: {} sessions go on, {} ended",
            change.kept, change.ended
        ),
        PolicyNews::Problem(problem) => format!(
            "trust policy: {} ({}). {}",
            problem.message, problem.code, problem.remedy
        ),
        PolicyNews::Recovered => "the trust policy can be read again".to_owned(),
        _ => return,
    });
}

fn say(text: &str) {
    // Nowhere else to say it where standard error is closed.
    let _ = writeln!(std::io::stderr(), "{}", crate::shown::shown(text));
}
