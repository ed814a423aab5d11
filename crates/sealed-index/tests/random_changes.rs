//! Random changes, compactions and reopenings against a map in memory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealed_index::{Change, Disclosed, Index, Precision, Proof, Scope};

use crate::common::{ONE, Store, put, settings};

#[derive(Clone, Debug)]
enum Step {
    /// Ids and vectors to put, ids to delete.
    Change(BTreeMap<u8, [i8; 3]>, Vec<u8>),
    Compact(bool),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0..24_u8;
    let puts = prop::collection::btree_map(id.clone(), any::<[i8; 3]>(), 0..8);
    let change = (puts, prop::collection::vec(id, 0..4));
    let step = prop_oneof![
        6 => change.prop_map(|(puts, deletes)| Step::Change(puts, deletes)),
        1 => any::<bool>().prop_map(Step::Compact),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..40)
}

type Model = BTreeMap<String, [f32; 3]>;

fn vector(numbers: [i8; 3]) -> [f32; 3] {
    numbers.map(f32::from)
}

/// Searches by hand: f32 holds these sums exactly.
fn best(model: &Model, query: [f32; 3], k: usize) -> Vec<(String, f32)> {
    let mut rows: Vec<(String, f32)> = model
        .iter()
        .map(|(id, vector)| {
            let score = vector.iter().zip(query).map(|(a, b)| a * b).sum();
            (id.clone(), score)
        })
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    rows.truncate(k);
    rows
}

fn check(index: &Index, model: &Model) {
    assert_eq!(index.rows(), model.len() as u64);
    let query = [3.0, -2.0, 1.0];
    let (found, searched) = index.search(&[&query], 5, None, ONE).unwrap();
    assert_eq!(searched, model.len() as u64);
    let found: Vec<(String, f32)> = found[0]
        .iter()
        .map(|found| (found.row.id.to_owned(), found.score))
        .collect();
    assert_eq!(found, best(model, query, 5));
    let statement = index.statement();
    assert_eq!(statement.head(), index.head());
    for id in (0..24).map(|id| id.to_string()) {
        match (model.get(&id), index.prove(&id)) {
            (Some(expected), Proof::Row(proof)) => {
                let (row, stored) = index.get(&id).unwrap();
                assert_eq!(
                    (row.id, stored.as_slice()),
                    (id.as_str(), expected.as_slice())
                );
                let disclosed = Disclosed {
                    text: row.text,
                    vector: Some(expected),
                    metadata: Some(&row.metadata()),
                };
                assert_eq!(proof.verify(&statement, &id, disclosed), Ok(()));
            }
            (None, Proof::Absence(proof)) => assert_eq!(proof.verify(&statement, &id), Ok(())),
            (expected, proof) => panic!("{id}: {expected:?} {proof:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_index_is_a_map(steps in steps()) {
        let mut store = Store::default();
        let mut index = store.create(settings(Precision::F32));
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Change(puts, deletes) => {
                    let deletes: Vec<u8> =
                        deletes.into_iter().filter(|id| !puts.contains_key(id)).collect();
                    let mut changes: Vec<Change> = puts
                        .iter()
                        .map(|(id, numbers)| put(&id.to_string(), vector(*numbers)))
                        .collect();
                    for id in std::collections::BTreeSet::from_iter(&deletes) {
                        changes.push(Change::Delete(id.to_string().into()));
                        model.remove(&id.to_string());
                    }
                    model.extend(puts.into_iter().map(|(id, n)| (id.to_string(), vector(n))));
                    index = store.change(&index, &changes);
                }
                Step::Compact(forget) => {
                    let scope = if forget { Scope::Forget } else { Scope::Small };
                    let map = index.statement().map;
                    if let Some((next, writes)) = index.compact(scope, &store.random()).unwrap() {
                        store.store(writes);
                        index = next;
                    }
                    prop_assert_eq!(index.statement().map, map);
                }
                Step::Reopen => {
                    let opened = store.open().unwrap();
                    prop_assert_eq!(opened.statement(), index.statement());
                    index = opened;
                }
            }
            check(&index, &model);
        }
        // The root depends on the rows alone, aside from the versions that wrote them.
        prop_assert_eq!(store.open().unwrap().statement(), index.statement());
    }
}

#[test]
fn nothing_of_a_deleted_row_is_left_after_compaction() {
    let mut store = Store::default();
    let index = store.create(settings(Precision::Int8));
    let index = store.change(
        &index,
        &[put("a", [1.0, 0.0, 0.0]), put("b", [0.3, 1.0, 0.0])],
    );
    let index = store.change(&index, &[put("c", [0.0, 0.7, 1.0])]);
    let index = store.change(&index, &[Change::Delete("a".to_owned().into())]);
    let names: Vec<_> = store.objects.keys().copied().collect();
    let before = index.statement();
    let (index, writes) = index
        .compact(Scope::Forget, &store.random())
        .unwrap()
        .unwrap();
    // The segment with `c` alone stays.
    assert_eq!(writes.obsolete.len(), 1);
    assert!(names.contains(&writes.obsolete[0]));
    store.store(writes);
    assert_eq!(index.statement().map, before.map);
    assert_eq!(index.statement().version, before.version + 1);
    let opened = store.open().unwrap();
    assert_eq!(
        opened.iter().map(|(row, _)| row.id).collect::<Vec<_>>(),
        ["c", "b"]
    );
    assert!(
        opened
            .compact(Scope::Forget, &store.random())
            .unwrap()
            .is_none()
    );
}

#[test]
fn small_segments_are_merged_and_rows_written_few_times() {
    let mut store = Store::default();
    let mut index = store.create(settings(Precision::F16));
    let mut written = 0;
    for number in 0..512 {
        let id = number.to_string();
        index = store.change(&index, &[put(&id, [1.0, 2.0, 3.0])]);
        if let Some((next, writes)) = index.compact(Scope::Small, &store.random()).unwrap() {
            written += writes.objects.len();
            index = next;
            store.store(writes);
        }
    }
    assert_eq!(index.rows(), 512);
    assert!(index.segments() < 32, "{}", index.segments());
    // A merge for each 8 segments, one for each 8 of those, and so on.
    assert!(written <= 512 / 7 + 1, "{written}");
    assert_eq!(store.open().unwrap().statement(), index.statement());
}
