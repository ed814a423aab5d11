//! The kernel, from Debian's source package and `image/kernel/enclave.config`. The same input gives the same file.

use super::Parts;
use super::source::{self, Package, Pinned};
use crate::servers::Signals;
use crate::steps::Steps;
use crate::{needs, paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Build the kernel
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Build it even where it is there
    #[arg(long)]
    again: bool,
}

/// Its name among the parts.
pub(super) const PART: &str = "bzImage";
/// Its version, as the image's metadata say.
pub(super) const VERSION: &str = "6.12.117";

const SOURCE: Package = Package {
    name: "linux-source-6.12",
    version: "6.12.117-1~deb12u1",
    suite: "bookworm-security",
    source: false,
    files: &[Pinned {
        file: "linux-source-6.12_6.12.117-1~deb12u1_all.deb",
        sha256: "e849faf31ca3555757f3a8877cb01af92122f744f75d1f3102734651c4e14703",
    }],
};
/// Values that the kernel's build would otherwise ask of the building machine. Not every `date` accepts `1` alone.
const FIXED: [(&str, &str); 5] = [
    ("KBUILD_BUILD_TIMESTAMP", "@1"),
    ("KBUILD_BUILD_USER", "clearseal"),
    ("KBUILD_BUILD_HOST", "clearseal"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("LC_ALL", "C"),
];

/// Everything that decides what the file holds, but for the compiler, which the kernel names itself.
pub(super) fn recipe() -> Result<String> {
    let config = config()?;
    let pins: String = SOURCE.files.iter().map(|pinned| pinned.sha256).collect();
    Ok(format!("{pins}\n{FIXED:?}\n{config}"))
}

/// Runs the verb.
pub(crate) fn run(options: &Options, signals: &Signals) -> Result<()> {
    super::only_linux()?;
    let parts = Parts::find()?;
    let recipe = recipe()?;
    if parts.has(PART, &recipe) && !options.again {
        println!("the kernel is there: {}", parts.path(PART).display());
        return Ok(());
    }
    for (program, package) in [
        ("gcc", "gcc"),
        ("make", "make"),
        ("bc", "bc"),
        ("flex", "flex"),
        ("bison", "bison"),
        ("xz", "xz-utils"),
    ] {
        needs::debian(program, package)?;
    }
    needs::debian_file("/usr/include/libelf.h", "libelf-dev")?;
    let mut steps = Steps::new(6, signals);
    let work = parts.workshop("kernel")?;
    let sources = parts.folder().with_file_name("source");
    source::fetch(&SOURCE, &sources, &mut steps)?;
    let log = paths::target()?.join("clearseal/kernel.log");
    let tree = work.join("linux-source-6.12");
    for (title, command) in [
        ("Unpack the package", unpack(&sources, &work)),
        ("Unpack the kernel's source", untar(&work)),
    ] {
        let mut command = command;
        steps.watch(title, &mut command, &log)?;
    }
    steps.quick("Configure", || configure(&tree))?;
    let mut make = make(&tree);
    make.args(["-s", &format!("-j{}", processors()), "bzImage"]);
    steps.watch("Build the kernel", &mut make, &log)?;
    let built = tree.join("arch/x86/boot/bzImage");
    parts.take(PART, &recipe, &built)?;
    println!(
        "{}\nSHA-256 {}",
        parts.path(PART).display(),
        source::sha256(&built)?
    );
    fs::remove_dir_all(&work).with_context(|| format!("cannot clear {}", work.display()))
}

fn config() -> Result<String> {
    let path = paths::root().join("image/kernel/enclave.config");
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn unpack(sources: &Path, work: &Path) -> Command {
    let mut command = Command::new("dpkg-deb");
    command.arg("-x");
    for pinned in SOURCE.files {
        command.arg(sources.join(pinned.file));
    }
    command.arg(work);
    command
}

fn untar(work: &Path) -> Command {
    let mut command = Command::new("tar");
    command
        .arg("xf")
        .arg(work.join("usr/src/linux-source-6.12.tar.xz"))
        .current_dir(work);
    command
}

fn make(tree: &Path) -> Command {
    let mut command = Command::new("make");
    command.current_dir(tree).envs(FIXED);
    command
}

/// Options without a name here are off. Options of `enclave.config` must have their value in the end, or a dependency was forgotten.
fn configure(tree: &Path) -> Result<String> {
    let quiet = |command: &mut Command| -> Result<()> {
        let output = command.output().context("cannot run make")?;
        ensure!(
            output.status.success(),
            "the kernel cannot be configured:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    };
    quiet(make(tree).args(["-s", "tinyconfig"]))?;
    quiet(
        Command::new("scripts/kconfig/merge_config.sh")
            .args(["-m", ".config"])
            .arg(paths::root().join("image/kernel/enclave.config"))
            .current_dir(tree)
            .envs(FIXED),
    )?;
    quiet(make(tree).args(["-s", "olddefconfig"]))?;
    let made = fs::read_to_string(tree.join(".config"))?;
    let wanted = config()?;
    let lost = lost(&wanted, &made);
    ensure!(
        lost.is_empty(),
        "the kernel does not take these lines of enclave.config: {}",
        lost.join(", ")
    );
    Ok(format!("{} options", options(&wanted).count()))
}

/// Lines of a configuration that say something: values, and what is off.
fn options(config: &str) -> impl Iterator<Item = &str> {
    config
        .lines()
        .filter(|line| line.starts_with("CONFIG_") || line.ends_with(" is not set"))
}

/// Wanted options that are missing from the result. An option that a kernel does not offer counts as off.
fn lost<'a>(wanted: &'a str, made: &str) -> Vec<&'a str> {
    options(wanted)
        .filter(|line| match line.strip_suffix(" is not set") {
            Some(off) => {
                let name = off.trim_start_matches("# ");
                made.lines().any(|made| {
                    made.strip_prefix(name)
                        .is_some_and(|it| it.starts_with('='))
                })
            }
            None => !made.lines().any(|made| made == *line),
        })
        .collect()
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::{lost, options};

    #[test]
    fn an_option_that_did_not_come_about_is_named() {
        let wanted = "# A comment.\nCONFIG_A=y\nCONFIG_B=\"x\"\n# CONFIG_C is not set\n# CONFIG_D is not set\n";
        assert_eq!(options(wanted).count(), 4);
        let made = "CONFIG_A=y\n# CONFIG_C is not set\nCONFIG_B=\"x\"\nCONFIG_DD=y\n";
        assert!(lost(wanted, made).is_empty());
        assert_eq!(
            lost(wanted, "CONFIG_A=m\nCONFIG_B=\"x\"\nCONFIG_D=y\n"),
            ["CONFIG_A=y", "# CONFIG_D is not set"]
        );
    }
}
