//! `docs/ERRORS.md`, generated from the sources: every code that a program of this project can report.
//!
//! A code is written in a derive (`#[coded("CODE", remedy = "…")]`), or in a call or tuple next to its sentences. The
//! page is complete because it is made from every string literal that reads like a code, tests aside.
//!
//! `CLEARSEAL_UPDATE=1 cargo test -p error-codes --test reference` writes the page.

#![allow(clippy::unwrap_used)]

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item};

/// Packages whose codes a user, a client or an operator sees.
const PACKAGES: &[&str] = &[
    "crates/attestation",
    "crates/protocol",
    "crates/intake",
    "crates/merkle",
    "crates/witness",
    "crates/engine",
    "enclave-server",
    "host-proxy",
    "crates/key-release",
    "crates/key-policy",
    "testing/kms-simulator",
    "crates/sealed-model",
    "crates/scan",
    "crates/sealed-index",
    "crates/channel",
    "image",
    "crates/release",
    "verifier-wasm",
    "verifier-python",
    "crates/client",
    "cli",
];

/// Literals that look like a code but are not one.
const NO_CODES: &[&str] = &[
    "TIMESTAMP",
    "SHA384",
    "RUST_LOG",
    "XDG_CACHE_HOME",
    "NO_COLOR",
    // Algorithms of KMS.
    "RSAES_OAEP_SHA_256",
    "SYMMETRIC_DEFAULT",
];

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    meaning: String,
    remedy: String,
}

/// By package, then by code.
type Codes = BTreeMap<(usize, String), Entry>;

#[test]
fn the_page_of_errors_lists_every_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut codes = Codes::new();
    for (at, package) in PACKAGES.iter().enumerate() {
        let source = root.join(package).join("src");
        for file in sources(&source) {
            let text = std::fs::read_to_string(&file).unwrap();
            let parsed = syn::parse_file(&text).unwrap();
            parsed
                .items
                .iter()
                .for_each(|item| read(item, at, &mut codes));
        }
    }
    assert!(codes.len() > 150, "only {} codes found", codes.len());
    let (page, path) = (page(&codes), root.join("docs/ERRORS.md"));
    if std::env::var_os("CLEARSEAL_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        page,
        "write the page again: CLEARSEAL_UPDATE=1 cargo test -p error-codes --test reference"
    );
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.starts_with("tests") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(item: &Item, package: usize, codes: &mut Codes) {
    let attributes: &[Attribute] = match item {
        Item::Mod(module) => &module.attrs,
        Item::Fn(function) => &function.attrs,
        Item::Impl(implementation) => &implementation.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    };
    let for_tests = |attribute: &Attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.to_token_stream().to_string().contains("(test)")
    };
    if attributes.iter().any(for_tests) {
        return;
    }
    match item {
        Item::Mod(module) => {
            if let Some((_, items)) = &module.content {
                items.iter().for_each(|item| read(item, package, codes));
            }
        }
        Item::Enum(item) => {
            for variant in &item.variants {
                derived(&variant.attrs, package, codes);
            }
        }
        Item::Struct(item) => derived(&item.attrs, package, codes),
        _ => literals(item.to_token_stream(), package, codes),
    }
}

/// `#[coded("CODE", remedy = "…")]`, and the documentation above it.
fn derived(attributes: &[Attribute], package: usize, codes: &mut Codes) {
    for attribute in attributes.iter().filter(|a| a.path().is_ident("coded")) {
        let texts: Vec<_> = attribute
            .to_token_stream()
            .into_iter()
            .flat_map(strings)
            .collect();
        if let [code, remedy] = texts.as_slice() {
            let entry = Entry {
                meaning: documentation(attributes),
                remedy: remedy.clone(),
            };
            add(codes, package, code, entry);
        }
    }
}

/// Codes in other code: the sentences that follow one in the same call, tuple or macro describe it.
fn literals(tokens: TokenStream, package: usize, codes: &mut Codes) {
    let mut open: Option<(String, Vec<String>)> = None;
    let mut close = |open: &mut Option<(String, Vec<String>)>| {
        if let Some((code, sentences)) = open.take() {
            let mut sentences = sentences.into_iter();
            let first = sentences.next().unwrap_or_default();
            let (meaning, remedy) = match (sentences.next(), first.split_once(". ")) {
                (Some(second), _) => (first, second),
                (None, Some((meaning, remedy))) => (meaning.to_owned(), remedy.to_owned()),
                (None, None) => match first.split_once("; ") {
                    Some((meaning, remedy)) => (meaning.to_owned(), remedy.to_owned()),
                    None => (first, String::new()),
                },
            };
            add(codes, package, &code, Entry { meaning, remedy });
        }
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Literal(_) => {
                for text in strings(token) {
                    if is_code(&text) {
                        close(&mut open);
                        open = Some((text, Vec::new()));
                    } else if let Some((_, sentences)) = &mut open
                        && text.contains(' ')
                    {
                        sentences.push(text);
                    }
                }
            }
            TokenTree::Group(group) => {
                // `format!("…")` next to a code also describes it.
                if let (Some((_, sentences)), Delimiter::Parenthesis) =
                    (&mut open, group.delimiter())
                {
                    let inside = group.stream().into_iter().next();
                    sentences.extend(
                        inside
                            .into_iter()
                            .flat_map(strings)
                            .filter(|t| t.contains(' ')),
                    );
                }
                groups.push(group.stream());
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => close(&mut open),
            _ => {}
        }
    }
    close(&mut open);
    for group in groups {
        literals(group, package, codes);
    }
}

/// String literals of one token, or directly inside it.
fn strings(token: TokenTree) -> Vec<String> {
    match token {
        TokenTree::Literal(literal) => match syn::parse_str::<syn::LitStr>(&literal.to_string()) {
            Ok(text) => vec![text.value()],
            Err(_) => Vec::new(),
        },
        TokenTree::Group(group) => group.stream().into_iter().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

fn is_code(text: &str) -> bool {
    let shouted = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    text.contains('_')
        && text.bytes().all(shouted)
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && !text.starts_with("CLEARSEAL_")
        && !text.starts_with("CARGO_")
        && !text.starts_with("AWS_")
        && !NO_CODES.contains(&text)
}

/// Of several descriptions the first one is kept, unless it is empty.
fn add(codes: &mut Codes, package: usize, code: &str, entry: Entry) {
    let known = codes.entry((package, code.to_owned())).or_default();
    if known.meaning.is_empty() || (known.remedy.is_empty() && !entry.remedy.is_empty()) {
        *known = entry;
    }
}

/// The first paragraph of an item's documentation, links and markup as plain text.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
        .flat_map(|attribute| attribute.meta.to_token_stream())
        .flat_map(strings);
    let lines = lines.map(|line| line.trim().to_owned());
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ").replace(['[', ']'], "")
}

fn page(codes: &Codes) -> String {
    let mut page = String::from(
        "# Errors\n\nGenerated from the sources by `crates/error-codes/tests/reference.rs`. Do not edit it.\n\n\
         A code never changes its meaning; new ones may be added. An error says what happened, has one code, and says what to do next.\n\
         `{…}` is filled in at run time; nothing of a user's text is. Lines without a remedy are log lines: the sentence after the code is all \
         that there is to know.\n",
    );
    for (at, package) in PACKAGES.iter().enumerate() {
        let rows: Vec<_> = codes.iter().filter(|((of, _), _)| *of == at).collect();
        if rows.is_empty() {
            continue;
        }
        let package = package.rsplit('/').next().unwrap_or(package);
        write!(
            page,
            "\n## {package}\n\n| code | what happened | what to do |\n| --- | --- | --- |\n"
        )
        .unwrap();
        for ((_, code), Entry { meaning, remedy }) in rows {
            if meaning.is_empty() {
                // Only handled here: another package reports it.
                if codes.iter().any(|((of, other), entry)| {
                    *of != at && other == code && !entry.meaning.is_empty()
                }) {
                    continue;
                }
                writeln!(page, "| `{code}` | A finding; its text comes with it. | |").unwrap();
                continue;
            }
            let [meaning, remedy] = [meaning, remedy].map(|text| sentence(text));
            writeln!(page, "| `{code}` | {meaning} | {remedy} |").unwrap();
        }
    }
    page
}

/// One line that begins with a capital letter and ends with a full stop.
fn sentence(text: &str) -> String {
    let text = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|");
    let mut letters = text.chars();
    match letters.next() {
        None => String::new(),
        Some(first) => {
            let rest = letters.as_str().trim_end_matches('.');
            format!("{}{rest}.", first.to_uppercase())
        }
    }
}
