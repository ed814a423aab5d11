//! A host that edits, cuts, mixes and withholds objects, and changes that cannot be made.

use proptest::prelude::*;
use sealed_index::{
    Change, ChangeError, Head, HistoryError, Index, IndexError, IndexKey, Opening, Precision,
    Settings,
};

use crate::common::{Store, key, put, row, settings};

fn stored() -> (Store, Index) {
    let mut store = Store::default();
    let index = store.create(settings(Precision::F32));
    let index = store.change(&index, &[put("a", [1.0, 0.0, 0.0])]);
    let index = store.change(&index, &[put("b", [0.0, 1.0, 0.0])]);
    (store, index)
}

fn refusal(store: &Store) -> &'static str {
    match store.open() {
        Ok(_) => "opened",
        Err(error) => error.code(),
    }
}

#[test]
fn every_changed_byte_is_found() {
    let (store, _) = stored();
    for name in store.objects.keys() {
        for at in 0..store.objects[name].len() {
            let mut changed = store.clone();
            changed.objects.get_mut(name).unwrap()[at] ^= 1;
            assert_ne!(refusal(&changed), "opened", "byte {at}");
        }
    }
    let newest = *store.states.keys().last().unwrap();
    for at in 0..store.states[&newest].len() {
        let mut changed = store.clone();
        changed.states.get_mut(&newest).unwrap()[at] ^= 0x80;
        assert_ne!(refusal(&changed), "opened", "byte {at} of the state");
    }
}

#[test]
fn cut_and_extended_objects_are_found() {
    let (store, _) = stored();
    let name = *store.objects.keys().next().unwrap();
    for length in 0..store.objects[&name].len() {
        let mut cut = store.clone();
        cut.objects.get_mut(&name).unwrap().truncate(length);
        assert_ne!(refusal(&cut), "opened", "{length} bytes");
    }
    let mut extended = store.clone();
    extended.objects.get_mut(&name).unwrap().push(0);
    assert_eq!(refusal(&extended), "INDEX_OBJECT_LENGTH");
}

#[test]
fn genuine_objects_in_the_wrong_place_are_found() {
    let (store, _) = stored();
    let names: Vec<_> = store.objects.keys().copied().collect();
    let mut swapped = store.clone();
    swapped
        .objects
        .insert(names[0], store.objects[&names[1]].clone());
    assert_eq!(refusal(&swapped), "INDEX_OBJECT_SWAPPED");
    let mut repeated = store.clone();
    repeated.states.insert(3, store.states[&2].clone());
    assert_eq!(refusal(&repeated), "INDEX_OBJECT_SWAPPED");
    let mut as_state = store.clone();
    as_state.states.insert(3, store.objects[&names[0]].clone());
    assert_eq!(refusal(&as_state), "INDEX_OBJECT_SWAPPED");
    let mut missing = store.clone();
    missing.objects.remove(&names[0]);
    assert_eq!(refusal(&missing), "INDEX_OBJECT_UNKNOWN");
    let opened = Opening::new(key(2), 2, store.states[&2].clone());
    assert!(matches!(opened, Err(IndexError::ObjectSwapped)));
}

#[test]
fn segments_of_another_state_are_not_taken() {
    let (store, _) = stored();
    let opening = Opening::new(key(1), 2, store.states[&2].clone()).unwrap();
    let first = opening.segments().next().unwrap();
    let opened = opening.open_segment(first.number, store.objects[&first.name].clone());
    assert!(matches!(
        opening.finish(vec![opened.unwrap()]),
        Err(IndexError::Segments)
    ));
    let opening = Opening::new(key(1), 2, store.states[&2].clone()).unwrap();
    assert!(matches!(
        opening.open_segment(9, Vec::new()),
        Err(IndexError::Segments)
    ));
}

#[test]
fn an_older_version_and_another_history_are_recognised() {
    let (mut store, index) = stored();
    let seen = index.head();
    assert_eq!(index.check(&seen), Ok(None));
    // The host restores a copy from before the last change.
    let mut older = store.clone();
    older.states.pop_last();
    let rolled_back = older.open().unwrap();
    let expected = HistoryError::RolledBack { seen: 2, newest: 1 };
    assert_eq!(rolled_back.check(&seen), Err(expected));
    // Somebody else writes to that copy: version 2 exists again, with other rows.
    let forked = older.change(&rolled_back, &[put("c", [0.0, 0.0, 1.0])]);
    assert_eq!(forked.check(&seen), Err(HistoryError::Forked { seen: 2 }));
    // The fork stays recognisable after later changes.
    let forked = older.change(&forked, &[put("d", [0.0, 0.0, 1.0])]);
    assert_eq!(forked.check(&seen), Err(HistoryError::Forked { seen: 2 }));
    // And a later version continues the one that was seen.
    let later = store.change(&index, &[Change::Delete("a".to_owned().into())]);
    assert_eq!(later.check(&seen), Ok(None));
    assert_eq!(store.open().unwrap().check(&seen), Ok(None));
    let invented = Head {
        version: u64::MAX,
        head: [0; 32],
    };
    assert!(matches!(
        later.check(&invented),
        Err(HistoryError::RolledBack { .. })
    ));
}

#[test]
fn refused_changes_change_nothing() {
    let (mut store, index) = stored();
    let before = index.statement();
    let mut long = row("x", [0.0; 3]);
    long.text = Some("x".repeat(sealed_index::MAX_TEXT + 1));
    let mut short = row("x", [0.0; 3]);
    short.vector.pop();
    let cases = [
        (vec![put("", [0.0; 3])], "INDEX_ROW_ID"),
        (vec![put(&"x".repeat(257), [0.0; 3])], "INDEX_ROW_ID"),
        (
            vec![put("x", [0.0; 3]), Change::Delete("x".to_owned().into())],
            "INDEX_ROW_REPEATED",
        ),
        (vec![Change::Put(long)], "INDEX_TEXT_TOO_LONG"),
        (vec![Change::Put(short)], "VECTOR_LENGTH"),
        (vec![put("x", [f32::NAN, 0.0, 0.0])], "VECTOR_NOT_FINITE"),
    ];
    for (changes, code) in cases {
        let error: ChangeError = index.stage(&changes, &store.random()).err().unwrap();
        assert_eq!(error.code(), code);
        assert_eq!(index.statement(), before);
    }
    let nothing = index.stage(
        &[Change::Delete("unknown".to_owned().into())],
        &store.random(),
    );
    let nothing = nothing.unwrap();
    assert!(nothing.writes.is_none());
    assert_eq!((nothing.put, nothing.deleted), (0, 0));
    assert_eq!(nothing.index.statement(), before);
}

#[test]
fn settings_that_no_index_can_have_are_refused() {
    let good = settings(Precision::F32);
    let cases = [
        Settings {
            dimensions: 0,
            ..good.clone()
        },
        Settings {
            dimensions: 4097,
            ..good.clone()
        },
        Settings {
            model: String::new(),
            ..good.clone()
        },
        Settings {
            prompt: Some("x".repeat(4097)),
            ..good
        },
    ];
    for settings in cases {
        let refused = Index::create(key(1), settings, &[0; 32]).err().unwrap();
        assert_eq!(refused.code(), "INDEX_SETTINGS_INVALID");
    }
}

#[test]
fn keys_are_43_characters() {
    let text = key(9).to_base64url();
    let read = IndexKey::from_base64url(&text).unwrap();
    assert_eq!(read.id(), key(9).id());
    assert_ne!(read.id(), key(8).id());
    for wrong in [
        "",
        "AAAA",
        &text[1..],
        &format!("{}=", &*text),
        &format!("{}A", &*text),
    ] {
        assert!(IndexKey::from_base64url(wrong).is_err(), "{wrong}");
    }
    let id = read.id();
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("00".parse::<sealed_index::IndexId>().is_err());
    assert!(
        id.to_string()
            .to_uppercase()
            .parse::<sealed_index::IndexId>()
            .is_err()
    );
}

proptest! {
    #[test]
    fn bytes_that_are_no_object_do_not_open(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        prop_assert!(Opening::new(key(1), 0, bytes).is_err());
    }
}
