//! Histories that are longer than a state holds.

use sealed_index::{Head, HistoryError, Precision, Scope, Settings};

use crate::common::{Store, put, settings};

#[test]
fn heads_of_all_versions_stay_known() {
    let mut store = Store::default();
    let mut index = store.create(settings(Precision::F32));
    let mut heads = vec![index.head()];
    let mut compared = 0;
    for number in 1..2 * 2048_u32 + 100 {
        index = store.change(&index, &[put("a", [number as f32, 0.0, 0.0])]);
        heads.push(index.head());
        assert_eq!(index.statement().head(), index.head());
    }
    let index = store.open().unwrap();
    let other = [1; 32];
    for seen in &heads {
        let wrong = Head {
            head: other,
            ..*seen
        };
        let forked = Err(HistoryError::Forked { seen: seen.version });
        match index.check(seen) {
            Ok(None) => {
                compared += 1;
                assert_eq!(index.check(&wrong), forked.map(|()| None));
            }
            Ok(Some(name)) => {
                let object = || store.objects[&name].clone();
                assert_eq!(index.check_older(seen, name, object()).unwrap(), Ok(()));
                assert_eq!(index.check_older(&wrong, name, object()).unwrap(), forked);
                let mut changed = object();
                *changed.last_mut().unwrap() ^= 1;
                assert!(index.check_older(seen, name, changed).is_err());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!((1024..2048).contains(&compared), "{compared}");
    let newest = index.head().version;
    let future = Head {
        version: newest + 1,
        head: other,
    };
    let expected = HistoryError::RolledBack {
        seen: newest + 1,
        newest,
    };
    assert_eq!(index.check(&future), Err(expected));
}

#[test]
fn the_memory_of_an_index_includes_settings_and_history() {
    let mut store = Store::default();
    let empty = |prompt: String| {
        let settings = Settings {
            prompt: Some(prompt),
            ..settings(Precision::F32)
        };
        Store::default().create(settings).memory()
    };
    assert_eq!(empty("a".repeat(4096)) - empty("a".repeat(96)), 4000);
    let created = store.create(settings(Precision::F32));
    let first = store.change(&created, &[put("a", [1.0, 0.0, 0.0])]);
    let second = store.change(&first, &[put("a", [1.0, 0.0, 0.0])]);
    let (compacted, _) = second.compact(Scope::Forget, &[9; 32]).unwrap().unwrap();
    // The same row, two versions later.
    assert_eq!(compacted.memory() - first.memory(), 2 * 32);
}
