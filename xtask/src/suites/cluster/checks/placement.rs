//! Which node a pod starts on, and the name that it is found by.

use super::{all_ready, replicas};
use crate::cluster::Kubectl;
use crate::suites::cluster::Cluster;
use crate::suites::cluster::nodes::Readiness;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Volumes that can be bound: one for each replica that the checks start.
const VOLUMES: u8 = 3;
/// Domain of names in a cluster.
const DOMAIN: &str = "svc.cluster.local";
/// Service that names the replicas, and the one that leads to the balancer.
const REPLICAS: &str = "clearseal-replicas";
const BALANCER: &str = "clearseal";

/// Label of a node with the device plugin.
fn labelled() -> Value {
    json!({ "aws-nitro-enclaves-k8s-dp": "enabled" })
}

/// A node on which a replica can run: the plugin lets four pods have an enclave.
pub(super) fn nitro(cluster: &Cluster<'_>, name: &str) -> Result<()> {
    let resources = json!({ "aws.ec2.nitro/nitro_enclaves": "4", "hugepages-2Mi": "4Gi" });
    cluster.nodes.add(name, &labelled(), &resources)
}

pub(super) fn placed(cluster: &mut Cluster<'_>) -> Result<()> {
    storage(cluster)?;
    let (none, enclaves) = (json!({}), json!({ "aws.ec2.nitro/nitro_enclaves": "4" }));
    let pages = json!({ "hugepages-2Mi": "4Gi" });
    let nodes = &mut cluster.nodes;
    nodes.add("ordinary", &none, &none)?;
    nodes.add("without-pages", &labelled(), &enclaves)?;
    nodes.add("without-enclaves", &labelled(), &pages)?;
    nodes.until("the balancer starts on some node", |pods| {
        let mut balancers = pods.iter().filter(|pod| pod.app == "clearseal-balancer");
        Ok(balancers.any(|pod| pod.running).then_some(()))
    })?;
    let reasons = [
        "Insufficient aws.ec2.nitro/nitro_enclaves",
        "Insufficient hugepages-2Mi",
        "didn't match Pod's node affinity/selector",
    ];
    // Two, although the manifest names no number: the autoscaler sees to its least.
    let what = "two replicas find no node, each for three reasons";
    nodes.until(what, |pods| {
        let replicas = replicas(pods);
        ensure!(
            replicas.iter().all(|pod| pod.node.is_none()),
            "a replica starts on a node that lacks something"
        );
        let refused = replicas.iter().filter(|pod| {
            let why = pod.unplaced.as_deref().unwrap_or_default();
            reasons.iter().all(|reason| why.contains(reason))
        });
        Ok((refused.count() == 2).then_some(()))
    })?;
    nitro(cluster, "nitro-1")?;
    let what =
        "one replica starts on the first node that fits, the other one waits for another node";
    cluster.nodes.until(what, |pods| {
        let replicas = replicas(pods);
        let waits = replicas.iter().any(|pod| {
            let why = pod.unplaced.as_deref().unwrap_or_default();
            pod.node.is_none() && why.contains("didn't match pod anti-affinity rules")
        });
        let runs = replicas
            .iter()
            .any(|pod| pod.node.as_deref() == Some("nitro-1"));
        Ok((waits && runs).then_some(()))
    })?;
    nitro(cluster, "nitro-2")?;
    cluster.nodes.until("both replicas start", |pods| {
        let nodes: BTreeSet<_> = replicas(pods)
            .iter()
            .filter_map(|pod| pod.node.as_deref())
            .collect();
        Ok((nodes == BTreeSet::from(["nitro-1", "nitro-2"])).then_some(()))
    })
}

/// A default storage class like that of a cloud's disks: bound where the pod starts, readable by one pod.
fn storage(cluster: &Cluster<'_>) -> Result<()> {
    let kubectl = cluster.nodes.kubectl;
    kubectl.create(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": "disks",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }))?;
    for number in 0..VOLUMES {
        let name = format!("disk-{number}");
        kubectl.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": name },
            "spec": {
                "capacity": { "storage": "100Gi" }, "accessModes": ["ReadWriteOncePod"],
                "storageClassName": "disks", "csi": { "driver": "disks.example", "volumeHandle": name },
            },
        }))?;
    }
    Ok(())
}

pub(super) fn named(cluster: &mut Cluster<'_>) -> Result<()> {
    let kubectl = cluster.nodes.kubectl;
    let map = kubectl.get(&["configmap", "clearseal-balancer", "--namespace=clearseal"])?;
    let configuration = map["data"]["haproxy.cfg"]
        .as_str()
        .context("no configuration")?;
    let looked_for: BTreeSet<_> = configuration
        .lines()
        .filter_map(|line| line.trim().strip_prefix("server ")?.split(' ').nth(1))
        .collect();
    let scaler = kubectl.get(&["hpa", "clearseal", "--namespace=clearseal"])?;
    let most = scaler["spec"]["maxReplicas"].as_u64().context("no limit")?;
    ensure!(
        looked_for.len() as u64 == most,
        "the balancer looks for {} replicas, and the autoscaler may start {most}",
        looked_for.len()
    );
    // None is ready yet: kubelets hold them back.
    cluster.nodes.until("both replicas have a name", |_| {
        let found = addresses(&endpoints(kubectl, REPLICAS)?);
        ensure!(
            found.iter().all(|name| looked_for.contains(name.as_str())),
            "the balancer does not look for all of {found:?}"
        );
        Ok((found.len() == 2).then_some(()))
    })?;
    ensure!(
        ready(&endpoints(kubectl, BALANCER)?).is_empty(),
        "a balancer that is not ready is found"
    );
    cluster.nodes.readiness = Readiness::Old;
    cluster.nodes.until("the balancer is found", |pods| {
        let found = ready(&endpoints(kubectl, BALANCER)?).len();
        Ok((all_ready(pods, 2) && found == 1).then_some(()))
    })
}

/// Where a service leads.
fn endpoints(kubectl: &Kubectl, service: &str) -> Result<Value> {
    let selector = format!("--selector=kubernetes.io/service-name={service}");
    kubectl.get(&["endpointslices", "--namespace=clearseal", &selector])
}

/// Targets of a service: the port `http` of each endpoint that is ready.
fn ready(slices: &Value) -> Vec<(&Value, u64)> {
    let mut found = Vec::new();
    for slice in slices["items"].as_array().into_iter().flatten() {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let ports = ports.filter(|port| port["name"] == "http");
        for port in ports.filter_map(|port| port["port"].as_u64()) {
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
            found.extend(ready.map(|endpoint| (endpoint, port)));
        }
    }
    found
}

/// Name and port of each replica.
fn addresses(slices: &Value) -> BTreeSet<String> {
    let named = ready(slices).into_iter().filter_map(|(endpoint, port)| {
        let host = endpoint["hostname"].as_str()?;
        Some(format!("{host}.{REPLICAS}.clearseal.{DOMAIN}:{port}"))
    });
    named.collect()
}
