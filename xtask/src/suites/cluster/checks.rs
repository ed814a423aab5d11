//! The checks, in the order in which an operator meets them.

mod access;
mod lifecycle;
mod placement;

use super::Cluster;
use super::pods::Pod;
use anyhow::Result;

type Check = fn(&mut Cluster<'_>) -> Result<()>;

/// A check relies on what those before it left.
pub(super) const CHECKS: [(&str, Check); 11] = [
    (
        "the manifests are accepted strictly, without a warning; applied again they change nothing",
        access::accepted,
    ),
    (
        "replicas start on nodes with enclaves and huge pages alone, one on each; the balancer starts anywhere",
        placement::placed,
    ),
    (
        "each replica has the name that the balancer looks for, ready or not",
        placement::named,
    ),
    (
        "the pods have no rights in the cluster, and privileged ones are refused",
        access::unprivileged,
    ),
    (
        "the proxy's options fit its image, and its sandbox lets it reach the enclave",
        access::runnable,
    ),
    (
        "the autoscaler adds a replica for requests that wait, and a second apply does not undo that",
        lifecycle::scaled,
    ),
    (
        "drains take one replica at a time, and wait until it is ready elsewhere",
        lifecycle::drained,
    ),
    (
        "a release is rolled one replica at a time, each after the last one was ready long enough",
        lifecycle::rolled,
    ),
    (
        "a release that never becomes ready stops at one replica, and is taken back by applying the last one",
        lifecycle::withdrawn,
    ),
    (
        "a new balancer is ready before the old one goes",
        lifecycle::balancer_replaced,
    ),
    (
        "the log of a replica that is no longer wanted is kept",
        lifecycle::log_kept,
    ),
];

/// The replicas that are there to stay.
fn replicas(pods: &[Pod]) -> Vec<&Pod> {
    pods.iter()
        .filter(|pod| pod.is_replica() && !pod.stopping)
        .collect()
}

/// Whether there are so many replicas, and all are ready.
fn all_ready(pods: &[Pod], count: usize) -> bool {
    let replicas = replicas(pods);
    replicas.len() == count && replicas.iter().all(|pod| pod.ready)
}

/// Applies the manifests, as an operator does.
fn apply(cluster: &Cluster<'_>) -> Result<()> {
    let mut arguments = vec!["apply", "--validate=strict", "--warnings-as-errors"];
    arguments.extend(cluster.manifests.iter().map(String::as_str));
    cluster.nodes.kubectl.run(&arguments).map(drop)
}
