//! The manifests of `deploy/kubernetes` on a real control plane: API server, controllers and scheduler are Kubernetes' own, nodes and
//! kubelets are simulated.

mod checks;
mod nodes;
mod pods;

use crate::cluster::ControlPlane;
use crate::paths;
use crate::steps::elapsed;
use anyhow::{Context, Result};
use nodes::Nodes;
use std::path::PathBuf;
use std::time::Instant;

/// Metric that the autoscaler requests from the adapter between Prometheus and Kubernetes.
const METRIC: &str = "/namespaces/clearseal/haproxy_backend_current_queue";
const SELECTOR: &str = "proxy=sealed";

pub(crate) fn test() -> Result<Option<String>> {
    let mut plane = ControlPlane::start()?;
    println!("Kubernetes {}", plane.version()?);
    let metric = plane.external_metric(METRIC, SELECTOR)?;
    let folder = paths::root().join("deploy/kubernetes");
    let manifests = ["clearseal.yaml", "balancer.yaml"]
        .map(|name| format!("--filename={}", folder.join(name).display()));
    let cluster = Cluster {
        nodes: Nodes::new(plane.kubectl()),
        manifests,
        metric,
    };
    let checked = run_checks(cluster);
    // A part that ended by itself is a better reason than the check that missed it.
    plane.alive()?;
    checked.map(|()| None)
}

fn run_checks(mut cluster: Cluster<'_>) -> Result<()> {
    for (name, check) in checks::CHECKS {
        let begun = Instant::now();
        check(&mut cluster).with_context(|| format!("on a real API server: {name}"))?;
        println!("  {name}  ({})", elapsed(begun));
    }
    Ok(())
}

/// Inputs of a check.
struct Cluster<'a> {
    nodes: Nodes<'a>,
    /// The manifests, as arguments of kubectl.
    manifests: [String; 2],
    /// File with the number of requests that wait at the balancer.
    metric: PathBuf,
}
