//! etcd, API server, controllers, scheduler and kubectl as one program, from Go's sources: `xtask/cluster` pins their versions.

use crate::image::Parts;
use crate::servers::Signals;
use crate::steps::Steps;
use crate::{needs, paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Its name among the parts.
const PART: &str = "control-plane";
/// Inputs of the build, except for the compiler.
const SOURCES: [&str; 3] = ["main.go", "go.mod", "go.sum"];

/// Whether it is built. It never is for a suite.
pub(crate) fn is_provided() -> Result<()> {
    ensure!(
        parts()?.has(PART, &recipe()?),
        "Kubernetes' control plane not built; `npm run test:cluster` builds it, in about ten minutes"
    );
    Ok(())
}

/// The program, whose first argument names a part.
pub(super) fn program() -> Result<PathBuf> {
    is_provided()?;
    Ok(parts()?.path(PART))
}

/// Version of Kubernetes, as `v1.2.3`.
pub(super) fn version() -> Result<String> {
    let path = sources().join("go.mod");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    find_version(&text)
        .map(str::to_owned)
        .with_context(|| format!("{} names no version of k8s.io/kubernetes", path.display()))
}

/// Builds it where it is not there.
pub(super) fn run(signals: &Signals) -> Result<()> {
    let (parts, recipe) = (parts()?, recipe()?);
    if !parts.has(PART, &recipe) {
        ensure!(
            needs::find("go").is_some(),
            "Go is missing; install the version that xtask/cluster/go.mod names, or a newer one (https://go.dev/dl)"
        );
        let built = parts.workshop(PART)?.join(PART);
        let mut build = Command::new("go");
        build
            .args(["build", "-trimpath", "-buildvcs=false", "-ldflags"])
            // The server tells its version to everybody who asks; a build outside of its repository does not know it.
            .arg(format!(
                "-s -w -X k8s.io/component-base/version.gitVersion={}",
                version()?
            ))
            .arg("-o")
            .arg(&built)
            .arg(".")
            .current_dir(sources())
            .env("CGO_ENABLED", "0");
        Steps::new(1, signals).watch(
            "Build Kubernetes' control plane",
            &mut build,
            &paths::target()?.join("clearseal/cluster.log"),
        )?;
        parts.take(PART, &recipe, &built)?;
        fs::remove_file(&built).with_context(|| format!("cannot remove {}", built.display()))?;
    }
    println!("the control plane is there: {}", parts.path(PART).display());
    Ok(())
}

fn parts() -> Result<Parts> {
    Parts::find_in("CLEARSEAL_CLUSTER_PARTS", "cluster")
}

fn sources() -> PathBuf {
    paths::root().join("xtask/cluster")
}

fn recipe() -> Result<String> {
    let texts = SOURCES.map(|name| {
        let path = sources().join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    });
    texts.into_iter().collect()
}

fn find_version(module: &str) -> Option<&str> {
    module
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
}

#[cfg(test)]
mod tests {
    use super::find_version;

    #[test]
    fn the_version_is_the_module_s() {
        let module = "require (\n\tk8s.io/kubectl v0.37.2\n\tk8s.io/kubernetes v1.37.2\n)\n";
        assert_eq!(find_version(module), Some("v1.37.2"));
        assert_eq!(find_version("module x\n"), None);
    }
}
