//! Prose: comments, messages and Markdown avoid the forms that CONTRIBUTING.md lists under "Words".
//!
//! The table there is the only list. Its first column holds the forms in quotes. A form that ends with `…` is refused only where it opens
//! a comment, one that ends with a full stop only at the end of a clause.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::paths;

/// Heading of the section with the table.
const SECTION: &str = "## Words";
/// Endings of files with prose that people write.
const WRITTEN: [&str; 11] = [
    "css", "html", "js", "md", "mjs", "py", "rs", "sh", "toml", "ts", "tsx",
];
/// Endings of files that the program next to them generates from prose that is checked at its source.
const GENERATED: [&str; 2] = [".gen.ts", ".d.ts"];
/// This file, whose tests name forms.
const HERE: &str = "xtask/src/suites/prose.rs";
/// Words that make another construction of a form that ends with "no".
const COMPARATIVES: [&str; 4] = ["longer", "more", "less", "fewer"];
/// Members of stable formats, by the folders whose sources name them.
const FORMAT_MEMBERS: [(&str, &str); 2] = [
    ("benchmarks/", "said"),
    ("web/src/features/benchmarks/", "said"),
];
/// Starts of a comment's text.
const COMMENT_MARKS: [&str; 6] = ["///", "//!", "//", "/**", "#", "* "];

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Form {
    /// In lower case.
    text: String,
    opens_comment: bool,
    ends_clause: bool,
    instead: String,
}

pub(crate) fn test() -> Result<Option<String>> {
    let root = paths::root();
    let contributing = std::fs::read_to_string(root.join("CONTRIBUTING.md"))
        .context("cannot read CONTRIBUTING.md")?;
    let forms = read_forms(&contributing);
    ensure!(
        forms.len() >= 10,
        "CONTRIBUTING.md lists {} forms under \"{SECTION}\"; its table is missing or has another shape",
        forms.len()
    );
    let mut found = Vec::new();
    for file in list_files(root)? {
        let text = std::fs::read_to_string(root.join(&file))
            .with_context(|| format!("cannot read {file}"))?;
        for (number, line) in text.lines().enumerate() {
            if file == "CONTRIBUTING.md" && line.starts_with("| \"") {
                continue;
            }
            let is_member = |form: &Form| {
                let mut members = FORMAT_MEMBERS.iter();
                members.any(|(folder, member)| file.starts_with(folder) && form.text == *member)
            };
            let mut refused = forms.iter().filter(|form| !is_member(form));
            if let Some(form) = refused.find(|form| form.occurs_in(line)) {
                found.push(format!(
                    "{file}:{}: \"{}\"; write {}",
                    number + 1,
                    form.text,
                    form.instead
                ));
            }
        }
    }
    if !found.is_empty() {
        bail!(
            "{}\n{} lines; CONTRIBUTING.md explains the forms under \"{SECTION}\"",
            found.join("\n"),
            found.len()
        );
    }
    Ok(None)
}

/// Tracked and new files that people write, relative to `root`.
fn list_files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run `git ls-files`")?;
    ensure!(output.status.success(), "`git ls-files` failed");
    let names = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    Ok(names
        .lines()
        .filter(|name| {
            let (_, ending) = name.rsplit_once('.').unwrap_or_default();
            WRITTEN.contains(&ending)
                && *name != HERE
                && !GENERATED.iter().any(|other| name.ends_with(other))
        })
        .filter(|name| root.join(name).is_file())
        .map(str::to_owned)
        .collect())
}

/// Rows of the table: `| "form", "another" | instead |`.
fn read_forms(contributing: &str) -> Vec<Form> {
    let section = contributing
        .split_once(SECTION)
        .map_or("", |(_, rest)| rest);
    let section = section
        .split_once("\n## ")
        .map_or(section, |(before, _)| before);
    section
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let (forms, instead) = (cells.next()?, cells.next()?.trim_end_matches(" |"));
            Some(forms.split('"').skip(1).step_by(2).map(move |form| Form {
                text: form.trim_end_matches(['…', '.']).trim_end().to_lowercase(),
                opens_comment: form.ends_with('…'),
                ends_clause: form.ends_with('.'),
                instead: instead.to_owned(),
            }))
        })
        .flatten()
        .collect()
}

impl Form {
    fn occurs_in(&self, line: &str) -> bool {
        if self.opens_comment {
            let line = line.trim_start();
            return COMMENT_MARKS.iter().any(|mark| {
                line.strip_prefix(mark)
                    .is_some_and(|text| starts_with_capital(text.trim_start(), &self.text))
            });
        }
        let lower = line.to_lowercase();
        lower.match_indices(&self.text).any(|(at, _)| {
            let (before, after) = (&lower[..at], &lower[at + self.text.len()..]);
            if before.ends_with(is_part_of_word) || after.starts_with(is_part_of_word) {
                return false;
            }
            if self.ends_clause {
                return !after.trim_start().starts_with(is_part_of_word);
            }
            !self.text.ends_with(" no")
                || !(before.ends_with("there ") || continues_otherwise(after))
        })
    }
}

/// Whether `text` begins with `form`, its first letter in upper case, as a whole word or up to a bracket.
fn starts_with_capital(text: &str, form: &str) -> bool {
    let Some(rest) = text.get(form.len()..) else {
        return false;
    };
    text.get(..form.len())
        .is_some_and(|start| start.to_lowercase() == *form)
        && text.starts_with(char::is_uppercase)
        && (form.ends_with(['[', '`']) || !rest.starts_with(is_part_of_word))
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn continues_otherwise(after: &str) -> bool {
    let next = after.split_whitespace().next().unwrap_or_default();
    COMPARATIVES.contains(&next.trim_end_matches(|letter: char| !letter.is_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::{Form, read_forms};

    const TABLE: &str = "# C\n\n## Words\n\n| avoid | write |\n| --- | --- |\n| \"What…\", \"As [`…\" | the noun |\n| \"said\" | reported |\n| \"is no\" | is not |\n| \"of its own.\" | separate |\n\n## Next\n\n| \"x\" | y |\n";

    #[test]
    fn the_table_is_read() {
        let forms = read_forms(TABLE);
        let texts: Vec<_> = forms
            .iter()
            .map(|form| (form.text.as_str(), form.opens_comment))
            .collect();
        assert_eq!(
            texts,
            [
                ("what", true),
                ("as [`", true),
                ("said", false),
                ("is no", false),
                ("of its own", false)
            ]
        );
        assert_eq!(forms[2].instead, "reported");
    }

    #[test]
    fn forms_are_found_as_words() {
        let forms = read_forms(TABLE);
        let found = |line: &str| forms.iter().any(|form: &Form| form.occurs_in(line));
        for line in [
            "/// What leaves",
            "    // What",
            " * What is sent",
            "//! As [`encode`]",
            "he said so",
            "fn said(",
            "This Is no key",
            "a key of its own, kept",
            "a key of its own",
        ] {
            assert!(found(line), "{line}");
        }
        for line in [
            "/// Whatever",
            "let what = 1; // what",
            "What is it?",
            "is_said",
            "unsaid",
            "is no longer",
            "is no more.",
            "is not",
            "There is no key",
            "heads of its own log",
            "/// As [a] matrix",
        ] {
            assert!(!found(line), "{line}");
        }
    }
}
