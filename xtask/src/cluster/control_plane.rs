//! The control plane as processes on loopback ports, in a folder that goes with them.

use super::part::Part;
use super::{Kubectl, build};
use crate::process::{free_port, run};
use crate::{needs, paths};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest wait for the API server.
const PATIENCE: Duration = Duration::from_secs(180);
/// Controllers that act on the objects of the manifests. Without kubelets, controllers of nodes would only find every node lost.
const CONTROLLERS: &str = "deployment-controller,disruption-controller,endpointslice-controller,garbage-collector-controller,\
     horizontal-pod-autoscaler-controller,persistentvolume-binder-controller,replicaset-controller,serviceaccount-controller,\
     statefulset-controller";
/// Whom the certificate of the API server and tokens of service accounts name.
const ISSUER: &str = "https://kubernetes.default.svc";

/// A running control plane. Dropping it stops it.
pub(crate) struct ControlPlane {
    kubectl: Kubectl,
    /// In the order of their start. Their folder goes after them.
    parts: Vec<Part>,
    folder: Folder,
    program: PathBuf,
}

impl ControlPlane {
    /// Starts etcd, API server, controllers and scheduler; returns when the API server is ready.
    pub(crate) fn start() -> Result<Self> {
        let (folder, program) = (Folder::new()?, build::program()?);
        let kubectl = Kubectl {
            program: program.clone(),
            home: folder.0.clone(),
        };
        let mut this = Self {
            kubectl,
            parts: Vec::new(),
            folder,
            program,
        };
        let (store, peers, server) = (free_port()?, free_port()?, free_port()?);
        let [store, peers] = [store, peers].map(|port| format!("http://127.0.0.1:{port}"));
        this.etcd(&store, &peers)?;
        this.api_server(&store, server)?;
        this.wait_until_ready()?;
        let kubeconfig = format!("--kubeconfig={}", this.path("kubeconfig").display());
        // One of each: neither elects a leader, and no client asks them anything.
        let common = [
            kubeconfig,
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
        ];
        let mut controllers = common.to_vec();
        controllers.push(format!("--controllers={CONTROLLERS}"));
        controllers.push("--horizontal-pod-autoscaler-sync-period=1s".into());
        this.part("kube-controller-manager", &controllers)?;
        this.part("kube-scheduler", &common)?;
        Ok(this)
    }

    /// Asks this API server.
    pub(crate) fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Version of the server, as it says itself; an error where it is another one than was pinned.
    pub(crate) fn version(&self) -> Result<String> {
        let reported: Value = serde_json::from_str(&self.kubectl.run(&["get", "--raw=/version"])?)?;
        let version = reported["gitVersion"].as_str().context("no version")?;
        ensure!(
            version == build::version()?,
            "the API server says that it is {version}"
        );
        Ok(version.to_owned())
    }

    /// Serves the number in the file that is returned as the external metric at `path` with `selector`.
    pub(crate) fn external_metric(&mut self, path: &str, selector: &str) -> Result<PathBuf> {
        let (file, port) = (self.path("metric"), free_port()?);
        fs::write(&file, "0")?;
        let address = format!("127.0.0.1:{port}");
        let value = file.display().to_string();
        let arguments = [address, path.to_owned(), selector.to_owned(), value];
        self.part("external-metrics", &arguments)?;
        let namespace = "kube-system";
        self.kubectl.create(&json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "external-metrics", "namespace": namespace },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        }))?;
        self.kubectl.create(&json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1beta1.external.metrics.k8s.io" },
            "spec": {
                "group": "external.metrics.k8s.io", "version": "v1beta1",
                "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
                "service": { "name": "external-metrics", "namespace": namespace, "port": port },
            },
        }))?;
        Ok(file)
    }

    /// Fails where a part has ended by itself.
    pub(crate) fn alive(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(Part::alive)
    }

    fn etcd(&mut self, store: &str, peers: &str) -> Result<()> {
        let data = self.path("etcd");
        let arguments = [
            "--name=one".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={store}"),
            format!("--advertise-client-urls={store}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=one={peers}"),
            // Its contents are deleted with it.
            "--unsafe-no-fsync".to_owned(),
        ];
        self.part("etcd", &arguments)
    }

    fn api_server(&mut self, store: &str, port: u16) -> Result<()> {
        needs::debian("openssl", "openssl")?;
        let (key, certificates, tokens) = (
            self.path("accounts.key"),
            self.path("certificates"),
            self.path("tokens.csv"),
        );
        run(Command::new("openssl")
            // The one form that the server reads both keys from.
            .args(["ecparam", "-genkey", "-noout", "-name", "prime256v1"])
            .arg("-out")
            .arg(&key))?;
        let token = token()?;
        fs::write(&tokens, format!("{token},operator,1,system:masters\n"))?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{ "name": "one", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                // The server makes it as it starts, for this address, under a root in the same file.
                "certificate-authority": certificates.join("apiserver.crt"),
            }}],
            "users": [{ "name": "operator", "user": { "token": token } }],
            "contexts": [{ "name": "one", "context": { "cluster": "one", "user": "operator" } }],
        });
        fs::write(self.path("kubeconfig"), kubeconfig.to_string())?;
        let arguments = [
            format!("--etcd-servers={store}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", certificates.display()),
            format!("--token-auth-file={}", tokens.display()),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            format!("--service-account-issuer={ISSUER}"),
            format!("--service-account-key-file={}", key.display()),
            format!("--service-account-signing-key-file={}", key.display()),
        ];
        self.part("kube-apiserver", &arguments)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while let Err(error) = self.kubectl.run(&["get", "--raw=/readyz"]) {
            self.alive()?;
            if begun.elapsed() > PATIENCE {
                return Err(error.context("the API server is not ready"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    fn part(&mut self, name: &'static str, arguments: &[String]) -> Result<()> {
        let log = paths::target()?.join(format!("clearseal/cluster-{name}.log"));
        let part = Part::start(&self.program, name, arguments, log)?;
        self.parts.push(part);
        Ok(())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Those that ask end before those that answer.
        while let Some(part) = self.parts.pop() {
            drop(part);
        }
    }
}

/// A new folder that its owner alone can read, removed when dropped: it holds a token and keys.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("clearseal-cluster-{}", token()?));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: {} stays: {error}", self.0.display());
        }
    }
}

/// 128 random bits.
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("no random bytes")?;
    Ok(base16ct::lower::encode_string(&bytes))
}
