//! Trust policies that are replaced while a command runs: their source, and reports of changes.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clearseal_client::{PolicyNews, PolicySource, SourceError};

use crate::args::PolicyFlags;
use crate::notice::notice;

impl PolicyFlags {
    /// Returns the source of the policy, or `None` if no policy was given.
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
            notice(
                "the highest policy number is kept only in memory: after a restart an older policy is accepted until it ends; \
                 use --policy-state FILE to keep the number",
            );
        }
        let every = Duration::from_secs(self.policy_every.into());
        Ok(Some(source.every(every)))
    }
}

/// Formats message, code and remedy of an error of the source.
pub(crate) fn describe(error: &SourceError) -> anyhow::Error {
    anyhow!("{error} ({}). {}", error.code(), error.remedy())
}

/// Reports on standard error that the policy changed, or that its source failed or recovered.
pub(crate) fn report_news(news: PolicyNews<'_>) {
    notice(&match news {
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
