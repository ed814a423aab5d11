//! The page's types agree with this crate's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use benchmarks::{schema, typescript};

#[test]
fn the_pages_types_are_up_to_date() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../web/src/features/benchmarks/record.gen.ts"
    );
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == typescript::module(),
        "record.gen.ts is out of date; regenerate it: cargo run --package benchmarks -- --types > web/src/features/benchmarks/record.gen.ts"
    );
}

/// Both are derived from one type, by two libraries.
#[test]
fn types_and_schema_agree_on_what_may_be_absent() {
    let (schema, module) = (schema::schema().to_value(), typescript::module());
    let named = schema["$defs"].as_object().unwrap();
    let named = named.iter().map(|(name, one)| match name.as_str() {
        "Record" => ("BenchmarkRecord", one),
        name => (name, one),
    });
    let mut judged = 0;
    for (name, definition) in named.chain([("RecordFile", &schema)]) {
        let Some(fields) = definition["properties"].as_object() else {
            continue;
        };
        let start = format!("export type {name} = Immutable<{{");
        let (_, body) = module.split_once(&start).unwrap();
        let (body, _) = body.split_once("}>;").unwrap();
        let required = definition["required"].as_array();
        for field in fields.keys() {
            let mark = match required.is_some_and(|all| all.contains(&field.as_str().into())) {
                true => ":",
                false => "?:",
            };
            assert!(
                body.contains(&format!("\n{field}{mark} ")),
                "{name}.{field}"
            );
            judged += 1;
        }
    }
    assert!(judged > 60, "{judged}");
}
