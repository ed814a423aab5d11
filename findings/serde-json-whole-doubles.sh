#!/usr/bin/env bash
# serde_json 1.0.154 (crates.io) reads some whole numbers that are written with a point as their neighbour.
#
# Expected: 9007199254740991.0 (2^53 - 1) becomes the f64 of that value, which holds it exactly; the same text without `.0` does.
# Observed: without the crate's feature `float_roundtrip` the f64 is 9007199254740990. With the feature it is exact. JavaScript and
# Python read the exact value, so a count that such a client writes with a point arrives as another one.
#
# Output seen:
#   default: 9007199254740990 and 9007199254740991
#   float_roundtrip: 9007199254740991 and 9007199254740991
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

read_numbers() { # name, features
  mkdir -p "$folder/$1/src"
  cat > "$folder/$1/Cargo.toml" <<TOML
[package]
name = "read"
version = "0.0.0"
edition = "2021"

[dependencies]
serde_json = { version = "=1.0.154", features = [$2] }
TOML
  cat > "$folder/$1/src/main.rs" <<'RUST'
fn main() {
    let point: f64 = serde_json::from_str("9007199254740991.0").unwrap();
    let whole: f64 = serde_json::from_str("9007199254740991").unwrap();
    println!("{point} and {whole}");
}
RUST
  cargo run --quiet --manifest-path "$folder/$1/Cargo.toml"
}

default=$(read_numbers default '')
exact=$(read_numbers exact '"float_roundtrip"')
echo "default: $default"
echo "float_roundtrip: $exact"
[ "$default" = "9007199254740990 and 9007199254740991" ] && [ "$exact" = "9007199254740991 and 9007199254740991" ]
