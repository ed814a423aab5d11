//! An opened index, and the changes of it.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use scan::{Live, ScanError, Vectors};
use zeroize::Zeroizing;

use crate::block::{Block, Records};
use crate::error::{ChangeError, HistoryError, IndexError};
use crate::filter::Filter;
use crate::history::{History, OldPart};
use crate::key::{IndexId, IndexKey, RowSecrets};
use crate::map::{End, Leaf, Map, Place, Update, hash_id};
use crate::object::{Kind, Label, Names, ObjectName, open, seal};
use crate::proof::{AbsenceProof, Head, Proof, RowProof, Statement};
use crate::row::{Change, Commitments, MAX_ID, MAX_TEXT, RowRef};
use crate::settings::Settings;
use crate::state::{Segment, State};

/// An index in memory: one version of it, which never changes. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    pub(crate) fixed: Arc<Fixed>,
    pub(crate) blocks: Vec<Held>,
    /// Number of the next block.
    pub(crate) next_block: u32,
    pub(crate) map: Map,
    pub(crate) history: History,
}

/// Facts that all versions of an index share.
pub(crate) struct Fixed {
    pub(crate) key: IndexKey,
    pub(crate) id: IndexId,
    pub(crate) settings: Settings,
    pub(crate) secrets: RowSecrets,
}

impl Fixed {
    pub(crate) fn new(key: IndexKey, settings: Settings) -> Self {
        Self {
            id: key.id(),
            secrets: key.row_secrets(),
            settings,
            key,
        }
    }

    pub(crate) fn label(&self, kind: Kind, name: ObjectName, version: u64) -> Label {
        Label {
            kind,
            id: self.id,
            name,
            version,
        }
    }

    /// Compares a head with the part of a history that holds its version.
    pub(crate) fn check_older(
        &self,
        seen: &Head,
        name: ObjectName,
        object: Vec<u8>,
    ) -> Result<Result<(), HistoryError>, IndexError> {
        let label = self.label(Kind::History, name, 0);
        let heads = open(&self.key, &label, object)?;
        Ok(OldPart::check(&heads, seen))
    }

    /// The row's leaf.
    pub(crate) fn leaf(&self, row: &RowRef<'_>, vector: &[f32], place: Place) -> Leaf {
        let salt = self.secrets.row_salt(row.version, row.id);
        Leaf {
            key: hash_id(&self.secrets.id_salt, row.id),
            value: Commitments::of(&salt, row, vector).value(row.version, row.computed),
            place,
        }
    }
}

/// A block, and which of its rows are in the index.
#[derive(Clone)]
pub(crate) struct Held {
    /// Rises from block to block.
    pub(crate) number: u32,
    pub(crate) block: Arc<Block>,
    pub(crate) live: Arc<Live>,
}

/// Objects to store, in this order, and those that are obsolete afterwards.
pub struct Writes {
    /// New objects, which no state names yet. Store all of them durably first.
    pub objects: Vec<(ObjectName, Vec<u8>)>,
    /// Version and object of the new state. It must not exist yet: if it does, another writer was first.
    pub state: (u64, Vec<u8>),
    /// Objects that the new state does not name. Delete them once it is stored.
    pub obsolete: Vec<ObjectName>,
}

/// The next version, which exists once its writes are stored.
pub struct Staged {
    /// The index after the change.
    pub index: Index,
    /// `None` if nothing changed.
    pub writes: Option<Writes>,
    /// Rows written.
    pub put: u64,
    /// Rows removed. An id without a row is not counted.
    pub deleted: u64,
}

/// A row that a search found.
pub struct Found<'a> {
    /// The row.
    pub row: RowRef<'a>,
    /// Dot product of the stored vector and the query.
    pub score: f32,
    place: Place,
}

impl Index {
    /// An empty index, and its state to store as version 0. `random` is used for nothing else.
    ///
    /// # Errors
    /// [`IndexError::Settings`].
    pub fn create(
        key: IndexKey,
        settings: Settings,
        random: &[u8; 32],
    ) -> Result<(Self, Writes), IndexError> {
        settings.check()?;
        let empty = Self {
            fixed: Arc::new(Fixed::new(key, settings)),
            blocks: Vec::new(),
            next_block: 0,
            map: Map::default(),
            history: History::default(),
        };
        empty.publish(&mut Names::new(random), Vec::new(), Vec::new())
    }

    /// Name of the index.
    #[must_use]
    pub fn id(&self) -> IndexId {
        self.fixed.id
    }

    /// Model, prompt and form of the vectors.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.fixed.settings
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.map.rows()
    }

    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of memory, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        let blocks = self.blocks.iter().map(|held| {
            let live = held.block.len() / 8;
            held.block.memory() + live
        });
        let settings = self.fixed.settings.memory();
        blocks.sum::<usize>() + self.map.memory() + self.history.memory() + settings
    }

    /// This version as an answer states it.
    #[must_use]
    pub fn statement(&self) -> Statement {
        Statement {
            id: self.fixed.id,
            version: self.history.versions().saturating_sub(1),
            previous: self.history.previous(),
            rows: self.rows(),
            map: self.map.root(),
            settings: self.fixed.settings.clone(),
        }
    }

    /// This version as a client remembers it.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            version: self.history.versions().saturating_sub(1),
            head: self.history.newest().copied().unwrap_or_default(),
        }
    }

    /// Compares this version with one that a client has seen. `Ok(Some(name))`: the version is so old that the object with this name
    /// decides, by [`check_older`](Self::check_older).
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn check(&self, seen: &Head) -> Result<Option<ObjectName>, HistoryError> {
        self.history.check(seen)
    }

    /// Compares an old version that a client has seen. `object` is the one that [`check`](Self::check) named.
    ///
    /// # Errors
    /// [`IndexError`] if the object is not genuine. The inner [`HistoryError`] is about a genuine one.
    pub fn check_older(
        &self,
        seen: &Head,
        name: ObjectName,
        object: Vec<u8>,
    ) -> Result<Result<(), HistoryError>, IndexError> {
        self.fixed.check_older(seen, name, object)
    }

    /// The row with this id, and its stored vector.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<(RowRef<'_>, Vec<f32>)> {
        let leaf = self.map.get(&hash_id(&self.fixed.secrets.id_salt, id))?;
        self.row_at(leaf.place)
    }

    /// All rows with their stored vectors, in the order in which they are stored.
    pub fn iter(&self) -> impl Iterator<Item = (RowRef<'_>, Vec<f32>)> {
        self.blocks.iter().flat_map(|held| {
            let live = (0..held.block.len()).filter(|row| held.live.get(*row));
            live.filter_map(|row| Some((held.block.row(row)?, held.block.vectors.row(row)?)))
        })
    }

    /// The `k` rows with the largest dot products for each query, the best first, equal ones by id; and the number of rows that took part.
    /// Scores are exact and independent of the machine, as [`scan`] defines them.
    ///
    /// # Errors
    /// [`ScanError`] for a query of the wrong length, or one that is not finite.
    pub fn search(
        &self,
        queries: &[&[f32]],
        k: usize,
        filter: Option<&Filter>,
        threads: NonZeroUsize,
    ) -> Result<(Vec<Vec<Found<'_>>>, u64), ScanError> {
        let filtered: Vec<Option<Live>> = self
            .blocks
            .iter()
            .map(|held| filter.map(|filter| held.choose(filter)))
            .collect();
        let blocks: Vec<_> = self
            .blocks
            .iter()
            .zip(&filtered)
            .map(|(held, filtered)| scan::Block {
                vectors: &held.block.vectors,
                live: Some(filtered.as_ref().unwrap_or(&held.live)),
            })
            .collect();
        let searched = blocks
            .iter()
            .filter_map(|block| block.live)
            .map(Live::count);
        let searched = searched.sum::<usize>() as u64;
        let id = |(block, row): (usize, usize)| {
            let row = self.blocks.get(block).and_then(|held| held.block.row(row));
            row.map_or("", |row| row.id)
        };
        let hits = scan::search(&blocks, queries, k, threads, &|a, b| id(a).cmp(id(b)))?;
        let found = hits.iter().map(|hits| {
            let found = hits.iter().filter_map(|hit| {
                let held = self.blocks.get(hit.block)?;
                Some(Found {
                    row: held.block.row(hit.row)?,
                    score: hit.score,
                    place: Place {
                        block: held.number,
                        row: u32::try_from(hit.row).ok()?,
                    },
                })
            });
            found.collect()
        });
        Ok((found.collect(), searched))
    }

    /// The stored vector of a row that was found in this version.
    #[must_use]
    pub fn vector(&self, found: &Found<'_>) -> Option<Vec<f32>> {
        self.row_at(found.place).map(|(_, vector)| vector)
    }

    /// Proof that the row is in this version, or that no row has this id.
    #[must_use]
    pub fn prove(&self, id: &str) -> Proof {
        let id_salt = self.fixed.secrets.id_salt;
        let key = hash_id(&id_salt, id);
        let (path, end) = self.map.path(&key);
        let leaf = match end {
            End::Leaf(leaf) => Some(leaf),
            End::Empty => None,
        };
        let row = leaf.filter(|leaf| leaf.key == key);
        let Some((row, vector)) = row.and_then(|leaf| self.row_at(leaf.place)) else {
            return Proof::Absence(AbsenceProof {
                id_salt,
                other_key: leaf.map(|leaf| leaf.key),
                other_value: leaf.map(|leaf| leaf.value),
                path,
            });
        };
        let salt = self.fixed.secrets.row_salt(row.version, row.id);
        let commitments = Commitments::of(&salt, &row, &vector);
        Proof::Row(RowProof {
            id_salt,
            salt: *salt,
            version: row.version,
            computed: row.computed,
            text: commitments.text,
            vector: commitments.vector,
            metadata: commitments.metadata,
            path,
        })
    }

    /// The index after `changes`, each of another row, and what to store before it exists. `random` is used for nothing else.
    ///
    /// # Errors
    /// [`ChangeError`]. This index is as before in any case.
    pub fn stage(&self, changes: &[Change], random: &[u8; 32]) -> Result<Staged, ChangeError> {
        check_ids(changes)?;
        let mut names = Names::new(random);
        let mut next = self.clone();
        let mut updates = Vec::with_capacity(changes.len());
        let deleted = next.remove_rows(changes, &mut updates);
        let rows: Vec<_> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Put(row) => Some(row),
                Change::Delete(_) => None,
            })
            .collect();
        let put = rows.len() as u64;
        if put + deleted == 0 {
            return Ok(Staged {
                index: next,
                writes: None,
                put,
                deleted,
            });
        }
        let mut objects = Vec::new();
        if !rows.is_empty() {
            let version = self.history.versions();
            let vectors = self.store_vectors(&rows)?;
            let rows = rows.iter().map(|row| row.as_stored(version));
            let mut records = Records::new(rows.clone().map(|row| row.size()).sum());
            for (number, row) in rows.enumerate() {
                records.push(&row)?;
                let place = Place {
                    block: next.next_block,
                    // A block has at most `u32::MAX` rows.
                    row: number as u32,
                };
                let stored = Zeroizing::new(vectors.row(number).unwrap_or_default());
                updates.push(Update::Put(self.fixed.leaf(&row, &stored, place)));
            }
            let block = Block::new(names.make(), records, vectors);
            objects.push(next.add_block(block)?);
        }
        next.map = next.map.update(updates);
        let (index, writes) = next.publish(&mut names, objects, Vec::new())?;
        Ok(Staged {
            index,
            writes: Some(writes),
            put,
            deleted,
        })
    }

    /// Marks the rows that `changes` replace or delete as dead, and adds removals to `updates`. Returns the number of deletions.
    fn remove_rows(&mut self, changes: &[Change], updates: &mut Vec<Update>) -> u64 {
        let mut deleted = 0;
        for change in changes {
            let key = hash_id(&self.fixed.secrets.id_salt, change.id());
            let Some(place) = self.map.get(&key).map(|leaf| leaf.place) else {
                continue;
            };
            if let Change::Delete(_) = change {
                deleted += 1;
                updates.push(Update::Remove(key));
            }
            if let Some(at) = self.find_block(place)
                && let Some(held) = self.blocks.get_mut(at)
                && let Ok(row) = usize::try_from(place.row)
            {
                Arc::make_mut(&mut held.live).clear(row);
            }
        }
        deleted
    }

    fn store_vectors(&self, rows: &[&crate::Row]) -> Result<Vectors, ScanError> {
        let settings = &self.fixed.settings;
        let size = settings.size();
        let mut numbers = Zeroizing::new(Vec::with_capacity(rows.len() * size));
        for row in rows {
            if row.vector.len() != size {
                return Err(ScanError::Length {
                    length: row.vector.len(),
                });
            }
            numbers.extend(&row.vector);
        }
        Vectors::from_f32(size, settings.precision, &numbers)
    }

    /// Adds a block whose rows are all live, and returns its sealed object.
    pub(crate) fn add_block(
        &mut self,
        mut block: Block,
    ) -> Result<(ObjectName, Vec<u8>), IndexError> {
        let name = block.name;
        let label = self.fixed.label(Kind::Segment, name, 0);
        let object = seal(&self.fixed.key, &label, &block.encode()?)?;
        block.size = object.len() as u64;
        self.blocks.push(Held {
            number: self.next_block,
            live: Arc::new(Live::all(block.len())),
            block: Arc::new(block),
        });
        self.next_block += 1;
        Ok((name, object))
    }

    /// The next version, with these blocks and this map, and its writes.
    pub(crate) fn publish(
        mut self,
        names: &mut Names<'_>,
        mut objects: Vec<(ObjectName, Vec<u8>)>,
        obsolete: Vec<ObjectName>,
    ) -> Result<(Self, Writes), IndexError> {
        let version = self.history.versions();
        let statement = Statement {
            version,
            previous: self.history.newest().copied().unwrap_or_default(),
            ..self.statement()
        };
        let old = self.history.push(statement.head().head, || names.make());
        if let Some(part) = old {
            let label = self.fixed.label(Kind::History, part.name, 0);
            objects.push((part.name, seal(&self.fixed.key, &label, part.encode())?));
        }
        let state = State {
            settings: self.fixed.settings.clone(),
            rows: self.rows(),
            map: self.map.root(),
            segments: self.blocks.iter().map(Held::describe).collect(),
            history: self.history.clone(),
        };
        let label = self.fixed.label(Kind::State, names.make(), version);
        let state = seal(&self.fixed.key, &label, &state.encode())?;
        let writes = Writes {
            objects,
            state: (version, state),
            obsolete,
        };
        Ok((self, writes))
    }

    fn find_block(&self, place: Place) -> Option<usize> {
        let found = self
            .blocks
            .binary_search_by_key(&place.block, |held| held.number);
        found.ok()
    }

    fn row_at(&self, place: Place) -> Option<(RowRef<'_>, Vec<f32>)> {
        let block = &self.blocks.get(self.find_block(place)?)?.block;
        let row = usize::try_from(place.row).ok()?;
        Some((block.row(row)?, block.vectors.row(row)?))
    }
}

impl Held {
    /// Rows in the index whose metadata `filter` accepts.
    fn choose(&self, filter: &Filter) -> Live {
        let mut chosen = Live::none(self.block.len());
        for number in (0..self.block.len()).filter(|row| self.live.get(*row)) {
            let row = self.block.row(number);
            if row.is_some_and(|row| filter.accepts(row.metadata)) {
                chosen.set(number);
            }
        }
        chosen
    }

    fn describe(&self) -> Segment {
        let rows = self.block.len();
        let dead = (0..rows).filter(|row| !self.live.get(*row));
        Segment {
            name: self.block.name,
            size: self.block.size,
            // A block has at most `u32::MAX` rows.
            rows: rows as u32,
            dead: dead.map(|row| row as u32).collect(),
        }
    }
}

fn check_ids(changes: &[Change]) -> Result<(), ChangeError> {
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(changes.len());
    for (number, change) in changes.iter().enumerate() {
        if change.id().is_empty() || change.id().len() > MAX_ID {
            return Err(ChangeError::Id(number));
        }
        if let Some(first) = seen.insert(change.id(), number) {
            return Err(ChangeError::Repeated(first, number));
        }
        if let Change::Put(row) = change
            && row.text.as_ref().is_some_and(|text| text.len() > MAX_TEXT)
        {
            return Err(ChangeError::Text(number));
        }
    }
    Ok(())
}
