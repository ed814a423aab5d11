//! Admission by the API server, and the permissions of the pods.

use super::apply;
use crate::cluster::Kubectl;
use crate::paths;
use crate::suites::cluster::Cluster;
use crate::suites::cluster::pods::containers;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;

pub(super) fn accepted(cluster: &mut Cluster<'_>) -> Result<()> {
    apply(cluster)?;
    // kubectl says `configured` of lists that the server completes, each time: only a comparison tells whether something changes.
    let mut diff = vec!["diff"];
    diff.extend(cluster.manifests.iter().map(String::as_str));
    cluster
        .nodes
        .kubectl
        .run(&diff)
        .map(drop)
        .context("applied again, the manifests change something")
}

pub(super) fn unprivileged(cluster: &mut Cluster<'_>) -> Result<()> {
    let kubectl = cluster.nodes.kubectl;
    for pod in cluster.nodes.pods()? {
        let volumes = pod.spec["volumes"].as_array().context("no volumes")?;
        ensure!(
            volumes.iter().all(|volume| volume["projected"].is_null()),
            "{} has a token of its service account",
            pod.name
        );
        ensure!(
            pod.spec["serviceAccountName"] == "default",
            "{} has a service account that no check knows",
            pod.name
        );
    }
    // Every account may ask what it may do, and read what the server offers.
    let (own, others) = (rights(kubectl, "clearseal")?, rights(kubectl, "default")?);
    let more = own
        .lines()
        .find(|line| !others.lines().any(|it| it == *line));
    ensure!(more.is_none(), "the pods' account may do this: {more:?}");
    let error = kubectl
        .create(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "intruder", "namespace": "clearseal" },
            "spec": { "hostNetwork": true, "containers": [{ "name": "one", "image": "one" }] },
        }))
        .err()
        .context("a pod on the network of its node is admitted")?;
    ensure!(
        error
            .to_string()
            .contains("violates PodSecurity \"baseline"),
        "a pod on the network of its node is refused for another reason: {error}"
    );
    restricted(kubectl)
}

/// Warnings of the API server about the next stricter level: replicas with reasons, no balancer.
fn restricted(kubectl: &Kubectl) -> Result<()> {
    let label = [
        "label",
        "namespace",
        "clearseal",
        "--overwrite",
        "--dry-run=server",
    ];
    let level = "pod-security.kubernetes.io/enforce=restricted";
    let output = kubectl
        .command(&[&label[..], &[level]].concat())
        .output()
        .context("cannot run kubectl")?;
    let warnings = String::from_utf8_lossy(&output.stderr);
    let pods: Vec<_> = warnings
        .lines()
        .filter_map(|line| line.strip_prefix("Warning: clearseal-"))
        .collect();
    let expected = "runAsNonRoot != true, seccompProfile";
    match pods.as_slice() {
        [replicas] if replicas.ends_with(expected) && !replicas.starts_with("balancer") => Ok(()),
        _ => bail!("the level `restricted` finds something else: {warnings}"),
    }
}

/// Permissions of a namespace's default account in that of the manifests, a line each.
fn rights(kubectl: &Kubectl, namespace: &str) -> Result<String> {
    let account = format!("--as=system:serviceaccount:{namespace}:default");
    let group = format!("--as-group=system:serviceaccounts:{namespace}");
    kubectl.run(&[
        "auth",
        "can-i",
        "--list",
        "--no-headers",
        "--namespace=clearseal",
        "--as-group=system:authenticated",
        "--as-group=system:serviceaccounts",
        &account,
        &group,
    ])
}

pub(super) fn runnable(cluster: &mut Cluster<'_>) -> Result<()> {
    let pods = cluster.nodes.pods()?;
    let replica = pods
        .iter()
        .find(|pod| pod.is_replica())
        .context("no replica")?;
    let pod = &replica.spec["securityContext"]["seccompProfile"];
    for container in containers(&replica.spec) {
        let own = &container["securityContext"]["seccompProfile"];
        let profile = if own.is_null() { pod } else { own };
        ensure!(
            profile["type"] != "RuntimeDefault",
            "{} has the runtime's seccomp profile, which refuses vsock sockets",
            container["name"]
        );
    }
    let proxy = containers(&replica.spec)
        .find(|container| container["name"] == "proxy")
        .context("no proxy")?;
    ensure!(
        proxy["command"].is_null(),
        "the proxy runs another command than its image's"
    );
    let fixed = entry_point()?;
    let given = proxy["args"].as_array().context("no arguments")?;
    for option in given.iter().filter_map(Value::as_str).map(name) {
        ensure!(
            !fixed.iter().any(|fixed| name(fixed) == option),
            "the proxy is given {option} twice, by its image and by the manifest, and would not start"
        );
    }
    Ok(())
}

/// Entry point of host-proxy's image.
fn entry_point() -> Result<Vec<String>> {
    let path = paths::root().join("deploy/host-proxy/Containerfile");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let words = text
        .lines()
        .find_map(|line| line.strip_prefix("ENTRYPOINT "))
        .context("host-proxy's image has no entry point")?;
    serde_json::from_str(words).context("host-proxy's entry point is not a list")
}

/// An option without its value.
fn name(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}
