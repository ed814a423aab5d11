//! Pods, as the API server tells them.

use anyhow::{Context, Result};
use serde_json::Value;

/// Fields of a pod that a simulated kubelet and the checks use.
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) app: String,
    /// Identity of this pod: the next one of the same name has another.
    pub(super) uid: String,
    pub(super) created: String,
    pub(super) node: Option<String>,
    pub(super) images: Vec<String>,
    pub(super) ready: bool,
    pub(super) ready_since: Option<String>,
    pub(super) address: Option<String>,
    pub(super) running: bool,
    pub(super) stopping: bool,
    /// Why the scheduler found no node.
    pub(super) unplaced: Option<String>,
    pub(super) spec: Value,
}

impl Pod {
    /// All pods of a list.
    pub(super) fn read_all(list: &Value) -> Result<Vec<Self>> {
        let items = list["items"].as_array().context("not a list")?;
        items.iter().map(Self::read).collect()
    }

    fn read(value: &Value) -> Result<Self> {
        let (metadata, spec, status) = (&value["metadata"], &value["spec"], &value["status"]);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let condition = |kind: &str, state: &str| {
            let mut all = status["conditions"].as_array().into_iter().flatten();
            all.find(|it| it["type"] == kind && it["status"] == state)
        };
        Ok(Self {
            name: text(&metadata["name"]).context("a pod without a name")?,
            app: text(&metadata["labels"]["app"]).unwrap_or_default(),
            uid: text(&metadata["uid"]).context("a pod without an identity")?,
            created: text(&metadata["creationTimestamp"]).context("a pod without an age")?,
            node: text(&spec["nodeName"]),
            images: containers(spec)
                .filter_map(|it| text(&it["image"]))
                .collect(),
            ready: condition("Ready", "True").is_some(),
            ready_since: condition("Ready", "True").and_then(|it| text(&it["lastTransitionTime"])),
            address: text(&status["podIP"]),
            running: status["phase"] == "Running",
            stopping: !metadata["deletionTimestamp"].is_null(),
            unplaced: condition("PodScheduled", "False").and_then(|it| text(&it["message"])),
            spec: spec.clone(),
        })
    }

    /// Whether it is one of the enclave's replicas.
    pub(super) fn is_replica(&self) -> bool {
        self.app == "clearseal"
    }
}

/// Every container of a pod, sidecars included.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"]
        .into_iter()
        .filter_map(|kind| spec[kind].as_array())
        .flatten()
}
