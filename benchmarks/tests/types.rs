//! The page's types are those of this crate.

#[test]
fn the_pages_types_are_up_to_date() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../web/src/features/benchmarks/record.gen.ts"
    );
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == benchmarks::typescript::module(),
        "record.gen.ts is stale; renew it: cargo run --package benchmarks -- --types > web/src/features/benchmarks/record.gen.ts"
    );
}
