//! A store in memory, and small indexes.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use sealed_index::{
    Change, Index, IndexError, IndexKey, ObjectName, Opening, Precision, Row, Settings, Staged,
    Writes,
};

pub(crate) const ONE: NonZeroUsize = NonZeroUsize::MIN;

pub(crate) fn key(seed: u8) -> IndexKey {
    IndexKey::new(&[seed; 32])
}

pub(crate) fn settings(precision: Precision) -> Settings {
    Settings {
        model: "all-MiniLM-L6-v2".to_owned(),
        model_hash: [7; 32],
        prompt: Some("passage: ".to_owned()),
        dimensions: 3,
        precision,
    }
}

pub(crate) fn row(id: &str, vector: [f32; 3]) -> Row {
    Row {
        id: id.to_owned(),
        vector: vector.to_vec(),
        text: Some(format!("text of {id}")),
        metadata: serde_json::from_str(r#"{"year":2026}"#).unwrap(),
        computed: true,
    }
}

pub(crate) fn put(id: &str, vector: [f32; 3]) -> Change {
    Change::Put(row(id, vector))
}

/// The objects that a host stores, and random bytes that never repeat.
#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<ObjectName, Vec<u8>>,
    pub(crate) states: BTreeMap<u64, Vec<u8>>,
    used: u64,
}

impl Store {
    pub(crate) fn random(&mut self) -> [u8; 32] {
        self.used += 1;
        let mut random = [0; 32];
        random[..8].copy_from_slice(&self.used.to_le_bytes());
        random
    }

    pub(crate) fn store(&mut self, writes: Writes) {
        self.objects.extend(writes.objects);
        let (version, state) = writes.state;
        assert!(self.states.insert(version, state).is_none());
        for name in writes.obsolete {
            assert!(self.objects.remove(&name).is_some());
        }
    }

    pub(crate) fn create(&mut self, settings: Settings) -> Index {
        let random = self.random();
        let (index, writes) = Index::create(key(1), settings, &random).unwrap();
        self.store(writes);
        index
    }

    /// Stages and stores.
    pub(crate) fn change(&mut self, index: &Index, changes: &[Change]) -> Index {
        let Staged { index, writes, .. } = index.stage(changes, &self.random()).unwrap();
        if let Some(writes) = writes {
            self.store(writes);
        }
        index
    }

    pub(crate) fn open(&self) -> Result<Index, IndexError> {
        let (version, state) = self.states.last_key_value().unwrap();
        let opening = Opening::new(key(1), *version, state.clone())?;
        let segments: Result<Vec<_>, _> = opening
            .segments()
            .map(|segment| {
                let object = self.objects.get(&segment.name).cloned().unwrap_or_default();
                opening.open_segment(segment.number, object)
            })
            .collect();
        let mut segments = segments?;
        segments.reverse();
        opening.finish(segments)
    }
}
