//! Changes to running replicas: scaling, drains, releases.

use super::{all_ready, apply, placement, replicas};
use crate::suites::cluster::Cluster;
use crate::suites::cluster::nodes::{BROKEN, Readiness};
use crate::suites::cluster::pods::Pod;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// How long nothing must happen, where nothing may.
const QUIET: Duration = Duration::from_secs(5);
/// Requests that wait: eight for each of three replicas.
const WAITING: &str = "24";
const REPLICAS: usize = 3;

pub(super) fn scaled(cluster: &mut Cluster<'_>) -> Result<()> {
    placement::nitro(cluster, "nitro-3")?;
    placement::nitro(cluster, "nitro-4")?;
    fs::write(&cluster.metric, WAITING)?;
    // Later than `stabilizationWindowSeconds` after the requests began to wait.
    cluster.nodes.until("a third replica is ready", |pods| {
        Ok(all_ready(pods, REPLICAS).then_some(()))
    })?;
    let scaler = get(cluster, "hpa")?;
    let conditions = scaler["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    ensure!(
        conditions.any(|it| it["type"] == "ScalingActive" && it["reason"] == "ValidMetricFound"),
        "the autoscaler finds no metric: {}",
        scaler["status"]["conditions"]
    );
    apply(cluster)?;
    cluster
        .nodes
        .stays("three replicas", QUIET, |pods| all_ready(pods, REPLICAS))
}

pub(super) fn drained(cluster: &mut Cluster<'_>) -> Result<()> {
    let pods = cluster.nodes.pods()?;
    let nodes: Vec<_> = replicas(&pods)
        .iter()
        .filter_map(|pod| pod.node.clone())
        .collect();
    let [first, second, ..] = nodes.as_slice() else {
        anyhow::bail!("two replicas have no node");
    };
    let before = identities(&pods);
    cluster.nodes.readiness = Readiness::Held;
    let drained = drain(cluster, first, "60s")?;
    ensure!(
        drained.status.success(),
        "{}",
        String::from_utf8_lossy(&drained.stderr)
    );
    let what = "the drained replica starts on another node";
    cluster.nodes.until(what, |pods| {
        let new: Vec<_> = replicas(pods)
            .into_iter()
            .filter(|pod| !before.contains(&pod.uid))
            .collect();
        ensure!(new.len() <= 1, "more than one replica is drained");
        Ok(new
            .iter()
            .any(|pod| pod.running && pod.node.as_ref() != Some(first))
            .then_some(()))
    })?;
    let drained = drain(cluster, second, "6s")?;
    let why = String::from_utf8_lossy(&drained.stderr);
    ensure!(
        !drained.status.success() && why.contains("violate the pod's disruption budget"),
        "a second replica is drained while the first one is not ready: {why}"
    );
    cluster.nodes.readiness = Readiness::Old;
    let kubectl = cluster.nodes.kubectl;
    kubectl.run(&["uncordon", first])?;
    cluster
        .nodes
        .until("the drained replica is ready", |pods| {
            Ok(all_ready(pods, REPLICAS).then_some(()))
        })?;
    let drained = drain(cluster, second, "60s")?;
    ensure!(
        drained.status.success(),
        "{}",
        String::from_utf8_lossy(&drained.stderr)
    );
    kubectl.run(&["uncordon", second])?;
    cluster.nodes.until("all replicas are ready again", |pods| {
        Ok(all_ready(pods, REPLICAS).then_some(()))
    })
}

pub(super) fn rolled(cluster: &mut Cluster<'_>) -> Result<()> {
    let before = identities(&cluster.nodes.pods()?);
    cluster.nodes.least_ready("clearseal");
    cluster.nodes.readiness = Readiness::Young;
    release(cluster, "next")?;
    let new = |pods: &[Pod]| -> Vec<String> {
        let replicas = replicas(pods).into_iter();
        let new = replicas.filter(|pod| pod.ready && !before.contains(&pod.uid));
        new.map(|pod| pod.name.clone()).collect()
    };
    cluster
        .nodes
        .until("the first replica is replaced", |pods| {
            Ok((!new(pods).is_empty()).then_some(()))
        })?;
    let what = "the last replica alone is replaced until it was ready for minReadySeconds";
    cluster.nodes.stays(what, QUIET, |pods| {
        new(pods) == ["clearseal-2"] && all_ready(pods, REPLICAS)
    })?;
    cluster.nodes.readiness = Readiness::Old;
    cluster.nodes.until("all replicas are replaced", |pods| {
        Ok((new(pods).len() == REPLICAS).then_some(()))
    })?;
    let least = cluster.nodes.least_ready("clearseal");
    ensure!(
        least >= REPLICAS - 1,
        "only {least} replicas were ready at once"
    );
    Ok(())
}

pub(super) fn withdrawn(cluster: &mut Cluster<'_>) -> Result<()> {
    release(cluster, BROKEN)?;
    let is_broken = |pod: &Pod| pod.images.iter().any(|image| image.ends_with(BROKEN));
    cluster.nodes.until("the broken release starts", |pods| {
        let mut replicas = replicas(pods).into_iter();
        Ok(replicas
            .any(|pod| pod.running && is_broken(pod))
            .then_some(()))
    })?;
    let what = "one replica alone has the broken release";
    cluster.nodes.stays(what, QUIET, |pods| {
        let (broken, good): (Vec<_>, Vec<_>) =
            replicas(pods).into_iter().partition(|pod| is_broken(pod));
        broken.len() == 1 && good.len() == REPLICAS - 1 && good.iter().all(|pod| pod.ready)
    })?;
    apply(cluster)?;
    let wanted = get(cluster, "statefulset")?;
    let wanted = wanted["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    cluster
        .nodes
        .until("all replicas have the last release", |pods| {
            let last = replicas(pods)
                .iter()
                .all(|pod| pod.images.iter().any(|image| wanted == image.as_str()));
            Ok((last && all_ready(pods, REPLICAS)).then_some(()))
        })
}

pub(super) fn balancer_replaced(cluster: &mut Cluster<'_>) -> Result<()> {
    const APP: &str = "clearseal-balancer";
    let before = identities(&cluster.nodes.pods()?);
    cluster.nodes.least_ready(APP);
    cluster.nodes.kubectl.run(&[
        "rollout",
        "restart",
        "deployment/clearseal-balancer",
        "--namespace=clearseal",
    ])?;
    cluster.nodes.until("one new balancer is left", |pods| {
        let balancers: Vec<_> = pods.iter().filter(|pod| pod.app == APP).collect();
        Ok(match balancers.as_slice() {
            [one] => (one.ready && !before.contains(&one.uid)).then_some(()),
            _ => None,
        })
    })?;
    ensure!(
        cluster.nodes.least_ready(APP) == 1,
        "for a moment no balancer was ready"
    );
    Ok(())
}

pub(super) fn log_kept(cluster: &mut Cluster<'_>) -> Result<()> {
    let kubectl = cluster.nodes.kubectl;
    let claim = ["pvc", "log-clearseal-2", "--namespace=clearseal"];
    let volume = kubectl.get(&claim)?["spec"]["volumeName"].clone();
    ensure!(
        volume.is_string(),
        "the log of the third replica has no volume"
    );
    kubectl.run(&["delete", "hpa", "clearseal", "--namespace=clearseal"])?;
    for count in [2, REPLICAS] {
        let replicas = format!("--replicas={count}");
        kubectl.run(&[
            "scale",
            "statefulset",
            "clearseal",
            "--namespace=clearseal",
            &replicas,
        ])?;
        cluster
            .nodes
            .until("the replicas are as many as asked for", |pods| {
                Ok(all_ready(pods, count).then_some(()))
            })?;
        ensure!(
            kubectl.get(&claim)?["spec"]["volumeName"] == volume,
            "with {count} replicas the log of the third one is on another volume"
        );
    }
    Ok(())
}

/// Rolls another image of the proxy.
fn release(cluster: &Cluster<'_>, tag: &str) -> Result<()> {
    let image = format!("proxy=registry.example/clearseal-host-proxy:{tag}");
    let arguments = [
        "set",
        "image",
        "statefulset/clearseal",
        "--namespace=clearseal",
    ];
    cluster
        .nodes
        .kubectl
        .run(&[&arguments[..], &[&image]].concat())
        .map(drop)
}

fn drain(cluster: &mut Cluster<'_>, node: &str, patience: &str) -> Result<std::process::Output> {
    let timeout = format!("--timeout={patience}");
    let arguments = ["drain", node, "--delete-emptydir-data", &timeout];
    let command = cluster.nodes.kubectl.command(&arguments);
    cluster.nodes.during(command)
}

fn get(cluster: &Cluster<'_>, kind: &str) -> Result<Value> {
    let arguments = [kind, "clearseal", "--namespace=clearseal"];
    cluster
        .nodes
        .kubectl
        .get(&arguments)
        .with_context(|| format!("no {kind}"))
}

fn identities(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(|pod| pod.uid.clone()).collect()
}
