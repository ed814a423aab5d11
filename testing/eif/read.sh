#!/usr/bin/env bash
# Reads enclave images with AWS's crate aws-nitro-enclaves-image-format, and compares its registers with those of `image describe`:
#   testing/eif/read.sh target/image/enclave.eif…
# Needs cargo, libssl-dev, jq, and target/debug/image (or IMAGE). Builds in a temporary folder, three minutes on two cores. Not part of `npm test`.
set -euo pipefail

image=${IMAGE:-target/debug/image}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
cat >"$folder/Cargo.toml" <<'TOML'
[package]
name = "read"
version = "0.0.0"
edition = "2024"

[dependencies]
aws-nitro-enclaves-image-format = "=0.8.1"
serde_json = "1"
TOML
cat >"$folder/src/main.rs" <<'RUST'
use aws_nitro_enclaves_image_format::utils::{PcrSignatureChecker, eif_reader::EifReader};

fn main() {
    let path = std::env::args().nth(1).expect("an image");
    let mut reader = EifReader::from_eif(path.clone()).expect("an image that can be read");
    assert!(reader.check_crc(), "another checksum");
    assert!(reader.get_metadata().is_some(), "no metadata");
    let registers = reader.get_measurements().expect("registers");
    if reader.signature_section.is_some() {
        reader.get_certificate_info(registers.clone()).expect("a certificate");
        assert_eq!(reader.sign_check, Some(true), "the signature is not over PCR0");
        let mut checker = PcrSignatureChecker::from_eif(&path).expect("a signature section");
        checker.verify().expect("a valid signature");
    }
    let registers: std::collections::BTreeMap<_, _> = registers
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("PCR")?, value)))
        .collect();
    println!("{}", serde_json::to_string(&registers).expect("text"));
}
RUST
cargo build --quiet --manifest-path "$folder/Cargo.toml"
for file in "$@"; do
  theirs=$("$folder/target/debug/read" "$file" | jq --sort-keys .)
  ours=$("$image" describe "$file" | jq --sort-keys .)
  if [ "$theirs" != "$ours" ]; then
    echo "$file: the registers differ" >&2
    diff <(echo "$theirs") <(echo "$ours") >&2
    exit 1
  fi
  echo "$file: $(jq --raw-output 'keys | map("PCR" + .) | join(", ")' <<<"$ours") are equal"
done
