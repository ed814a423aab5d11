//! Metadata and filters.

use sealed_index::{Change, Filter, Metadata, Precision};

use crate::common::{ONE, Store, row, settings};

#[test]
fn metadata_are_read_in_one_form() {
    let cases = [
        ("{}", "{}"),
        (
            r#"{"b":1,"a":"x","c":true}"#,
            r#"{"a":"x","b":1.0,"c":true}"#,
        ),
        (r#"{"a":-0.0}"#, r#"{"a":0.0}"#),
        (r#"{"a":9007199254740992}"#, r#"{"a":9007199254740992.0}"#),
        (r#"{"a":""}"#, r#"{"a":""}"#),
    ];
    for (written, read) in cases {
        let metadata: Metadata = serde_json::from_str(written).unwrap();
        assert_eq!(serde_json::to_string(&metadata).unwrap(), read);
        assert_eq!(metadata.is_empty(), written == "{}");
    }
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(1024));
    let name = format!(r#"{{"{}":1}}"#, "x".repeat(65));
    let members: Vec<String> = (0..17).map(|number| format!(r#""{number}":1"#)).collect();
    let many = format!("{{{}}}", members.join(","));
    let refused = [
        "[]",
        r#"{"a":null}"#,
        r#"{"a":[1]}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"a":1,"a":1}"#,
        r#"{"a":9007199254740993}"#,
        r#"{"a":-9007199254740993}"#,
        r#"{"a":1e999}"#,
        r#"{"":1}"#,
        &long,
        &name,
        &many,
    ];
    for text in refused {
        assert!(serde_json::from_str::<Metadata>(text).is_err(), "{text}");
    }
}

#[test]
fn filters_choose_rows() {
    let rows = [
        ("a", r#"{"year":2024,"kind":"letter","open":true}"#),
        ("b", r#"{"year":2025,"kind":"note","open":false}"#),
        ("c", r#"{"year":"2025","kind":"letter"}"#),
        ("d", "{}"),
    ];
    let mut store = Store::default();
    let index = store.create(settings(Precision::F32));
    let changes = rows.map(|(id, metadata)| {
        let mut row = row(id, [1.0, 0.0, 0.0]);
        row.metadata = serde_json::from_str(metadata).unwrap();
        Change::Put(row)
    });
    let index = store.change(&index, &changes);
    let cases = [
        (r#"{"field":"year","eq":2025}"#, "b"),
        (r#"{"field":"year","ne":2025}"#, "acd"),
        (r#"{"field":"year","gte":2024}"#, "ab"),
        (r#"{"field":"year","gt":2024}"#, "b"),
        (r#"{"field":"year","lt":2025}"#, "a"),
        (r#"{"field":"year","lte":2025}"#, "ab"),
        (r#"{"field":"year","lt":"3"}"#, "c"),
        (r#"{"field":"kind","in":["note","letter"]}"#, "abc"),
        (r#"{"field":"kind","in":[]}"#, ""),
        (r#"{"field":"open","eq":true}"#, "a"),
        (r#"{"not":{"field":"open","eq":true}}"#, "bcd"),
        (
            r#"{"and":[{"field":"kind","eq":"letter"},{"field":"year","lt":2025}]}"#,
            "a",
        ),
        (
            r#"{"or":[{"field":"kind","eq":"note"},{"field":"year","eq":2024}]}"#,
            "ab",
        ),
        (r#"{"and":[]}"#, "abcd"),
        (r#"{"or":[]}"#, ""),
    ];
    for (filter, expected) in cases {
        let filter: Filter = serde_json::from_str(filter).unwrap();
        let (found, searched) = index
            .search(&[&[1.0, 0.0, 0.0]], 10, Some(&filter), ONE)
            .unwrap();
        let found: String = found[0].iter().map(|found| found.row.id).collect();
        assert_eq!(found, expected);
        assert_eq!(searched, expected.len() as u64);
    }
}

#[test]
fn filters_that_are_not_one_are_refused() {
    let many = format!(r#"{{"field":"a","in":[{}]}}"#, vec!["1"; 257].join(","));
    let twice = format!(r#"{{"and":[{0},{0}]}}"#, many.replacen("1,", "", 100));
    let cases = [
        "{}",
        r#"{"field":"a"}"#,
        r#"{"eq":1}"#,
        r#"{"field":"a","eq":1,"ne":2}"#,
        r#"{"field":"a","eq":1,"in":[2]}"#,
        r#"{"and":[],"or":[]}"#,
        r#"{"and":[],"eq":1}"#,
        r#"{"and":[{}]}"#,
        r#"{"field":"a","like":1}"#,
        r#"{"field":"a","eq":[1]}"#,
        &many,
        &twice,
    ];
    for text in cases {
        assert!(serde_json::from_str::<Filter>(text).is_err(), "{text}");
    }
    // Each part counts, also one without a comparison.
    let empties = |count| format!(r#"{{"and":[{}]}}"#, vec![r#"{"and":[]}"#; count].join(","));
    assert!(serde_json::from_str::<Filter>(&empties(255)).is_ok());
    let negations = format!(
        "{}{}{}",
        r#"{"not":"#.repeat(100),
        empties(200),
        "}".repeat(100)
    );
    for many in [empties(256), empties(100_000), negations] {
        let refused = serde_json::from_str::<Filter>(&many).err().unwrap();
        assert!(refused.to_string().contains("256 parts"), "{refused}");
    }
    let deep = format!("{}{}{}", r#"{"not":"#.repeat(1000), "{}", "}".repeat(1000));
    assert!(serde_json::from_str::<Filter>(&deep).is_err());
}
