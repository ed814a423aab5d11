//! Downloads a model of a hub: the files that a server needs, of one commit, each compared with the digest that the hub lists.

use crate::{model, paths, process};
use anyhow::{Context, Result, bail, ensure};
use sealed_model::{ModelName, is_needed_by_server};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// A model of a hub, and a branch, tag or commit of it.
pub(crate) struct HubModel {
    pub(crate) name: ModelName,
    pub(crate) revision: String,
}

/// The files of a commit, as `hub.mjs` lists and reads them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Listing {
    model: String,
    commit: String,
    files: Vec<ListedFile>,
}

#[derive(Serialize, Deserialize)]
struct ListedFile {
    name: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<String>,
}

impl HubModel {
    /// Name of the model in its lock.
    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The folder of this revision in the user's cache.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        let models = paths::cache()?.join("clearseal/models/hub");
        Ok(models.join(self.name()).join(&self.revision))
    }

    /// Asks the hub for the files that a server needs.
    pub(crate) fn list(&self) -> Result<Listing> {
        let output = script()
            .args(["list", self.name(), &self.revision])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start node")?;
        ensure!(
            output.status.success(),
            "cannot list the files of {} at {}",
            self.name(),
            self.revision
        );
        let mut listing: Listing =
            serde_json::from_slice(&output.stdout).context("the hub's list is not understood")?;
        listing.keep_needed()?;
        Ok(listing)
    }
}

impl Listing {
    fn keep_needed(&mut self) -> Result<()> {
        self.files.retain(|file| is_needed_by_server(&file.name));
        let is_below = |name: &str| {
            Path::new(name)
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        };
        if let Some(file) = self.files.iter().find(|file| !is_below(&file.name)) {
            bail!("the hub names a file outside its folder: {:?}", file.name);
        }
        ensure!(
            self.files
                .iter()
                .any(|file| file.name.ends_with(".safetensors")),
            "{} has no weights in safetensors; the formats of PyTorch run code when they are loaded",
            self.model
        );
        Ok(())
    }

    /// The command that downloads the files into `folder`. A stopped download goes on where it ended.
    pub(crate) fn download(&self, folder: &Path) -> Result<Command> {
        let parent = folder.parent().context("the model needs a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let mut list = folder.as_os_str().to_owned();
        list.push(".files.json");
        let list = PathBuf::from(list);
        fs::write(&list, serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", list.display()))?;
        let mut command = script();
        command.arg("fetch").arg(&list).arg(folder);
        Ok(command)
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.files.iter().map(|file| file.size);
        let megabytes = bytes.fold(0, u64::saturating_add).div_ceil(1_000_000);
        let (count, commit) = (self.files.len(), &self.commit);
        write!(f, "{count} files, {megabytes} MB, commit {commit}")
    }
}

/// Downloads a model and writes its lock, which later downloads of the same revision are compared with.
pub(crate) fn download(hub: &HubModel) -> Result<String> {
    let folder = hub.folder()?;
    if !folder.exists() {
        let listing = hub.list()?;
        eprintln!("{listing}");
        process::run(&mut listing.download(&folder)?)?;
    }
    let lock = model::lock_folder(&folder, Some(hub.name()))?;
    let lock = lock.path.unwrap_or_else(|| paths::root().join(model::LOCK));
    Ok(format!("{}\n{}", folder.display(), lock.display()))
}

fn script() -> Command {
    let mut command = Command::new("node");
    command.arg(paths::root().join("xtask/hub.mjs"));
    command
}

pub(crate) fn parse_name(name: &str) -> Result<ModelName, sealed_model::LockError> {
    ModelName::new(name)
}

/// Accepts a revision that names a folder.
pub(crate) fn parse_revision(revision: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match !revision.is_empty() && !revision.starts_with('.') && revision.bytes().all(is_plain) {
        true => Ok(revision.to_owned()),
        false => Err("a branch, tag or commit of letters, digits, `.`, `_` and `-`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        let file = |name: &&str| ListedFile {
            name: (*name).to_owned(),
            size: 600_000,
            sha256: None,
            git: Some(String::new()),
        };
        Listing {
            model: "org/name".to_owned(),
            commit: "0".repeat(40),
            files: names.iter().map(file).collect(),
        }
    }

    #[test]
    fn only_files_that_a_server_needs_are_downloaded() {
        let mut files = listing(&[
            "README.md",
            "config.json",
            "1_Pooling/config.json",
            "model.safetensors",
            "onnx/model.onnx",
            "pytorch_model.bin",
        ]);
        files.keep_needed().unwrap();
        let commit = "0".repeat(40);
        assert_eq!(files.to_string(), format!("3 files, 2 MB, commit {commit}"));
    }

    #[test]
    fn unsafe_lists_are_refused() {
        for (names, expected) in [
            (
                &["config.json", "pytorch_model.bin"][..],
                "no weights in safetensors",
            ),
            (
                &["../config.json", "model.safetensors"],
                "outside its folder",
            ),
            (&["/config.json", "model.safetensors"], "outside its folder"),
        ] {
            let refused = listing(names).keep_needed().unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn a_revision_names_one_folder() {
        for revision in ["main", "v1.5", "0123abcd"] {
            assert!(parse_revision(revision).is_ok(), "{revision}");
        }
        for revision in ["", "..", "refs/pr/1", "a b"] {
            assert!(parse_revision(revision).is_err(), "{revision}");
        }
    }
}
