//! Simulated nodes: objects without machines, and the little that their kubelets would do. They say that a pod runs and is ready, and
//! that one which is to go has gone. No container is ever started.

use super::pods::Pod;
use crate::cluster::Kubectl;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest wait for what controllers or scheduler must do.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two rounds of the kubelets.
const ROUND: Duration = Duration::from_millis(150);
/// An image whose containers never become ready.
pub(super) const BROKEN: &str = "broken";
/// A moment that is longer ago than any wait of the manifests.
const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Status that kubelets report of a running pod.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Readiness {
    /// Not ready.
    Held,
    /// Ready since its creation, so that controllers wait as long as the manifests say.
    Young,
    /// Ready for longer than the manifests ask for.
    Old,
}

/// The nodes of a cluster and its kubelets.
pub(super) struct Nodes<'a> {
    pub(super) kubectl: &'a Kubectl,
    pub(super) readiness: Readiness,
    addresses: u8,
    /// Least pods of each application that were ready at once.
    least: BTreeMap<String, usize>,
}

impl<'a> Nodes<'a> {
    pub(super) fn new(kubectl: &'a Kubectl) -> Self {
        Self {
            kubectl,
            readiness: Readiness::Held,
            addresses: 0,
            least: BTreeMap::new(),
        }
    }

    /// Adds a node with these labels and resources to the usual ones.
    pub(super) fn add(&self, name: &str, labels: &Value, resources: &Value) -> Result<()> {
        let mut all = json!({ "cpu": "4", "memory": "16Gi", "pods": "58" });
        merge(&mut all, resources);
        let mut named = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" });
        merge(&mut named, labels);
        self.kubectl.create(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": named },
        }))?;
        let condition = json!({ "type": "Ready", "status": "True", "reason": "Simulated" });
        let status = json!({ "capacity": all, "allocatable": all, "conditions": [condition] });
        self.status("node", name, &status)?;
        // The admission of nodes taints each new one, and no controller of nodes runs here.
        self.kubectl
            .run(&[
                "patch",
                "node",
                name,
                "--patch",
                r#"{"spec":{"taints":null}}"#,
            ])
            .map(drop)
    }

    /// One round of the kubelets. Returns the pods as they were before it.
    pub(super) fn round(&mut self) -> Result<Vec<Pod>> {
        let pods = self.pods()?;
        let mut ready: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in &pods {
            *ready.entry(&pod.app).or_default() += usize::from(pod.ready && !pod.stopping);
        }
        for (app, count) in ready {
            let least = self.least.entry(app.to_owned()).or_insert(count);
            *least = count.min(*least);
        }
        for pod in pods.iter().filter(|pod| pod.node.is_some()) {
            if pod.stopping {
                let gone = [
                    "delete",
                    "pod",
                    &pod.name,
                    "--namespace=clearseal",
                    "--force",
                ];
                self.kubectl
                    .run(&[&gone[..], &["--grace-period=0", "--ignore-not-found"]].concat())?;
            } else if !pod.running || self.ready_since(pod) != pod.ready_since.as_deref() {
                self.run_pod(pod)?;
            }
        }
        Ok(pods)
    }

    /// Lets the kubelets work until `hold` finds what it looks for.
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        mut hold: impl FnMut(&[Pod]) -> Result<Option<T>>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            let pods = self.round()?;
            if let Some(found) = hold(&pods)? {
                return Ok(found);
            }
            if begun.elapsed() > PATIENCE {
                bail!("did not come about: {what}; pods:\n{}", table(&pods));
            }
            std::thread::sleep(ROUND);
        }
    }

    /// Lets the kubelets work for a time, in which `holds` must be true at any moment.
    pub(super) fn stays(
        &mut self,
        what: &str,
        time: Duration,
        holds: impl Fn(&[Pod]) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let pods = self.round()?;
            ensure!(
                holds(&pods),
                "did not stay: {what}; pods:\n{}",
                table(&pods)
            );
            std::thread::sleep(ROUND);
        }
        Ok(())
    }

    /// Lets the kubelets work while a command runs; returns its output.
    pub(super) fn during(&mut self, mut command: Command) -> Result<std::process::Output> {
        let mut child = command.spawn().context("cannot run kubectl")?;
        while child.try_wait()?.is_none() {
            self.round()?;
        }
        Ok(child.wait_with_output()?)
    }

    /// Least pods of an application that were ready at once since it was last asked.
    pub(super) fn least_ready(&mut self, app: &str) -> usize {
        self.least.remove(app).unwrap_or_default()
    }

    /// The pods of the namespace.
    pub(super) fn pods(&self) -> Result<Vec<Pod>> {
        Pod::read_all(&self.kubectl.get(&["pods", "--namespace=clearseal"])?)
    }

    /// Since when the pod is to be ready. What once was ready stays so.
    fn ready_since<'p>(&self, pod: &'p Pod) -> Option<&'p str> {
        let broken = pod.images.iter().any(|image| image.ends_with(BROKEN));
        match self.readiness {
            Readiness::Old if !broken => Some(LONG_AGO),
            Readiness::Young if !broken && !pod.ready => Some(&pod.created),
            _ => pod.ready_since.as_deref(),
        }
    }

    fn run_pod(&mut self, pod: &Pod) -> Result<()> {
        let address = match &pod.address {
            Some(address) => address.clone(),
            None => {
                self.addresses = self.addresses.checked_add(1).context("too many pods")?;
                format!("10.1.0.{}", self.addresses)
            }
        };
        let (ready, since) = match self.ready_since(pod) {
            Some(since) => ("True", since),
            None => ("False", pod.created.as_str()),
        };
        let conditions = ["Initialized", "ContainersReady", "Ready"]
            .map(|kind| json!({ "type": kind, "status": ready, "lastTransitionTime": since }));
        let status = json!({
            "phase": "Running", "startTime": pod.created, "conditions": conditions,
            "podIP": address, "podIPs": [{ "ip": address }],
        });
        self.status("pod", &pod.name, &status)
    }

    fn status(&self, kind: &str, name: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status }).to_string();
        let arguments = ["patch", kind, name, "--namespace=clearseal"];
        self.kubectl
            .run(&[&arguments[..], &["--subresource=status", "--patch", &patch]].concat())
            .map(drop)
    }
}

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        into.extend(from.clone());
    }
}

fn table(pods: &[Pod]) -> String {
    let lines = pods.iter().map(|pod| {
        let node = pod.node.as_deref().unwrap_or("no node");
        let state = match (pod.stopping, pod.ready) {
            (true, _) => "stopping",
            (false, true) => "ready",
            (false, false) => "not ready",
        };
        let why = pod.unplaced.as_deref().unwrap_or_default();
        format!(
            "  {} on {node}, {state}, {} {why}",
            pod.name,
            pod.images.join(" ")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}
