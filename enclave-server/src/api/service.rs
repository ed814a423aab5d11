//! The state that all endpoints share.

use std::sync::Arc;

use axum::Router;

use super::admission::{Admission, Limits};
use super::answer_steps::{AnswerSteps, AnswerTiming};
use super::attestation::Attester;
use super::budget;
use super::channel::Channels;
use super::inner::{self, PrivateApi};
use super::log::LogHost;
use super::readiness::Readiness;
use super::receipt::ReceiptContext;
use super::replay::ReplayWindow;
use super::state::InnerState;
use crate::keys::{KeyError, Keyring};
use crate::metrics::{Metrics, StageLabels, Times};
use crate::nsm::Nsm;
use crate::provision::KeyRelease;
use crate::stages::Stages;
use crate::{Clock, Moment};

/// The state that all endpoints share.
pub struct Service {
    pub(super) keys: Keyring,
    pub(super) attester: Attester,
    pub(super) admission: Admission,
    pub(super) channels: Channels,
    pub(super) replay: ReplayWindow,
    pub(super) private_api: PrivateApi,
    pub(super) receipts: ReceiptContext,
    pub(super) log_host: LogHost,
    pub(super) metrics: Metrics,
    pub(super) timing: AnswerTiming,
    pub(super) readiness: Readiness,
}

impl Service {
    /// A service with the usual private router.
    pub fn new(
        keys: Keyring,
        nsm: Arc<dyn Nsm>,
        state: InnerState,
        limits: Limits,
        clock: Clock,
    ) -> Self {
        let state = Arc::new(state);
        let router = inner::router(Arc::clone(&state));
        Self::with_inner(keys, nsm, state, router, limits, clock)
    }

    /// Like [`new`](Self::new), with another private router. A panic in one of its handlers becomes a sealed 500.
    pub fn with_inner(
        keys: Keyring,
        nsm: Arc<dyn Nsm>,
        state: Arc<InnerState>,
        inner: Router,
        limits: Limits,
        clock: Clock,
    ) -> Self {
        let times = Times::default();
        for model in state.models.iter() {
            model.observe(Arc::new(times.clone()));
        }
        Self {
            keys,
            receipts: ReceiptContext::new(nsm.pcrs()),
            attester: Attester::new(nsm),
            admission: Admission::new(limits),
            channels: Channels::default(),
            replay: ReplayWindow::new(limits.max_replay_entries),
            private_api: PrivateApi::new(state, inner),
            log_host: LogHost::default(),
            metrics: Metrics::new(times),
            timing: AnswerTiming::new(clock),
            readiness: Readiness::default(),
        }
    }

    /// Publishes how long the start took and who released the model's key, in metrics and in [`readyz`](super::router).
    pub fn record_start(&mut self, stages: Stages, key_release: KeyRelease) {
        for (stage, took) in stages.iter() {
            self.metrics
                .stages
                .get_or_create(&StageLabels { stage })
                .set(took.as_secs_f64());
        }
        self.readiness.record_start(stages, key_release);
    }

    /// Sends answers, sealed or over channels, only at `steps`.
    #[must_use]
    pub fn with_answer_steps(mut self, steps: Option<AnswerSteps>) -> Self {
        self.timing.steps = steps;
        self
    }

    /// The keys.
    pub fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// Makes new keys now.
    ///
    /// # Errors
    /// [`KeyError`]; the old keys then stay.
    pub fn rotate(&self) -> Result<(), KeyError> {
        self.keys.rotate(self.attester.nsm(), self.now())
    }

    /// Removes generations whose manifests have ended, and replay entries whose dates are no longer accepted.
    pub fn remove_expired(&self) {
        let now = self.now();
        self.keys.remove_expired(now);
        let generation = self.keys.current();
        self.replay
            .remove_expired(generation.steady_second(generation.time(now)));
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.timing.now()
    }

    /// Reserves all memory for large answers, as large requests do. For tests of which other requests are still answered.
    #[doc(hidden)]
    pub async fn hold_all_answer_memory(&self) -> Option<budget::Reservation> {
        let answers = &self.private_api.state().answers;
        answers.reserve(usize::MAX / 2).await.ok()
    }

    /// Requests remembered against replay.
    pub fn replay_entries(&self) -> usize {
        self.replay.len()
    }

    /// From now on [`readyz`](super::router) refuses, and channels end once they have answered what they have taken.
    pub fn drain(&self) {
        self.readiness.drain();
        self.channels.drain();
    }

    /// Waits until no channel is open.
    pub async fn wait_for_channels(&self) {
        self.channels.wait_until_all_ended().await;
    }

    /// Metrics in the text exposition format.
    pub(super) fn encode_metrics(&self) -> String {
        let metrics = &self.metrics;
        metrics.replay_entries.set(self.replay.len() as u64);
        metrics
            .memory_peak
            .set(self.receipts.rounded_peak_mib() * 1024 * 1024);
        metrics.encode()
    }
}
