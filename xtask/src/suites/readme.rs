//! README and docs: every link inside the project leads somewhere, every script and every verb of the task runner exists.

use crate::paths;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn test() -> Result<Option<String>> {
    let root = paths::root();
    let scripts = scripts(&root.join("package.json"))?;
    let mut wrong = Vec::new();
    for page in pages(root)? {
        let text = std::fs::read_to_string(&page)
            .with_context(|| format!("cannot read {}", page.display()))?;
        let name = page.strip_prefix(root).unwrap_or(&page).display();
        let folder = page.parent().unwrap_or(root);
        for link in links(&text) {
            if !folder.join(link).exists() {
                wrong.push(format!("{name}: the link to {link} leads nowhere"));
            }
        }
        for command in commands(&text, "npm ") {
            let script = command.strip_prefix("run ").unwrap_or(command);
            if !scripts.contains(first_word(script)) {
                wrong.push(format!("{name}: package.json has no script `{script}`"));
            }
        }
        for command in commands(&text, "cargo xtask ") {
            if crate::command()
                .find_subcommand(first_word(command))
                .is_none()
            {
                wrong.push(format!("{name}: the task runner has no verb `{command}`"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(None)
}

fn pages(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut pages = vec![root.join("examples/README.md")];
    for folder in [root, &root.join("docs"), &root.join("docs/adr")] {
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    Ok(pages)
}

fn scripts(package: &Path) -> Result<BTreeSet<String>> {
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(package)?)?;
    let scripts = json["scripts"]
        .as_object()
        .context("package.json has no scripts")?;
    Ok(scripts.keys().cloned().collect())
}

/// Targets of links that stay inside the project, without their fragments.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .map(|target| target.split_once('#').map_or(target, |(path, _)| path))
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

/// Rests of the code blocks' lines that begin with `program`.
fn commands<'a>(text: &'a str, program: &'a str) -> impl Iterator<Item = &'a str> {
    let blocks = text.split("```").skip(1).step_by(2);
    blocks
        .flat_map(str::lines)
        .filter_map(move |line| line.strip_prefix(program))
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{commands, first_word, links};

    #[test]
    fn links_and_commands_are_found() {
        let text = "[a](docs/a.md) ![b](b.png) [c](https://c) [d](#d) [e](e.md#x)\n```sh\nnpm test  # all\nnpm run fuzz\ncargo xtask image run\n```\nnpm prose";
        assert_eq!(
            links(text).collect::<Vec<_>>(),
            ["docs/a.md", "b.png", "e.md"]
        );
        let of = |program| commands(text, program).collect::<Vec<_>>();
        assert_eq!(of("npm "), ["test  # all", "run fuzz"]);
        assert_eq!(of("cargo xtask "), ["image run"]);
        assert_eq!(first_word("image run"), "image");
    }
}
