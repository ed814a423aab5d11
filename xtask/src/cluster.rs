//! Kubernetes' control plane: built once from source, and started for the suite `cluster`.

mod build;
mod control_plane;
mod kubectl;
mod part;

use crate::servers::Signals;
use anyhow::Result;

pub(crate) use build::is_provided;
pub(crate) use control_plane::ControlPlane;
pub(crate) use kubectl::Kubectl;

/// Build Kubernetes' control plane, which the suite `cluster` applies the manifests to; ten minutes on two cores
#[derive(clap::Args)]
pub(crate) struct Options {}

/// Runs the verb.
pub(crate) fn run(_: &Options) -> Result<()> {
    build::run(&Signals::listen()?)
}
