//! Stores the log in one file.
//!
//! One transaction writes records, entries, nodes and the signed checkpoint, and is on disk before any of them leaves this process: after
//! a crash the log cannot sign another tree of a size that it has signed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use merkle::Hash;
use merkle::prove::{self, Nodes};
use merkle::tree::{Frontier, Position, empty_root, leaf_hash};
use merkle::verify::{Tree, inclusion};
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _, TableDefinition,
};
use witness::checkpoint::Checkpoint;
use witness::key::{Signer, Verifier};
use witness::note::Note;
use witness::proof::TlogProof;
use witness::record::{MAX_RECORD, entry};
use witness::tiles::{HEIGHT, Tile, bundle};

use super::DeploymentError;
use crate::log::{begin_write, builder, catch_panics, sync_folder};

/// `id` → identifier of the file.
const META: TableDefinition<'_, &str, &Hash> = TableDefinition::new("meta");
/// Number → entry.
const ENTRIES: TableDefinition<'_, u64, &Hash> = TableDefinition::new("entries");
/// Entry → its number.
const NUMBERS: TableDefinition<'_, &Hash, u64> = TableDefinition::new("numbers");
/// Level (1 or above) and index → hash of a complete subtree.
const NODES: TableDefinition<'_, (u8, u64), &Hash> = TableDefinition::new("nodes");
/// Entry → record.
const RECORDS: TableDefinition<'_, &Hash, &[u8]> = TableDefinition::new("records");
/// [`SIGNED`] or [`PUBLISHED`] → checkpoint with its signatures.
const NOTES: TableDefinition<'_, &str, &str> = TableDefinition::new("notes");

/// The newest checkpoint.
const SIGNED: &str = "signed";
/// The newest checkpoint that readers are shown.
const PUBLISHED: &str = "published";

/// Checkpoint with its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) note: Note,
    pub(crate) tree: Tree,
}

/// An open log file. One process at a time can open it.
pub struct DeploymentStore {
    path: PathBuf,
    id: Hash,
    key: Verifier,
    /// `None` after a failed read or write, after which the library refuses further writes; reopened when it is next used.
    open: Mutex<Option<Open>>,
}

struct Open {
    database: Arc<Database>,
    frontier: Frontier,
    signed: Option<Head>,
    published: Option<Head>,
}

/// The open file and its checkpoints at one moment.
struct Snapshot {
    database: Arc<Database>,
    signed: Option<Head>,
    published: Option<Head>,
}

/// Numbers of a file that was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Entries.
    pub entries: u64,
    /// Bytes of all records.
    pub bytes: u64,
}

impl DeploymentStore {
    /// Creates an empty log.
    pub(super) fn create(path: &Path, id: &Hash) -> Result<(), DeploymentError> {
        let unavailable = |error: std::io::Error| DeploymentError::Unavailable(error.to_string());
        // Under another name, so that a crash leaves no partial file at `path`.
        let fresh = path.with_added_extension("new");
        let database = builder().create(&fresh)?;
        let transaction = begin_write(&database)?;
        transaction.open_table(META)?.insert("id", id)?;
        transaction.open_table(ENTRIES)?;
        transaction.open_table(NUMBERS)?;
        transaction.open_table(NODES)?;
        transaction.open_table(RECORDS)?;
        transaction.open_table(NOTES)?;
        transaction.commit()?;
        drop(database);
        std::fs::rename(&fresh, path).map_err(unavailable)?;
        sync_folder(path).map_err(unavailable)
    }

    /// Opens the log with this identifier, and compares its tree with its newest checkpoint, which this key must have signed.
    ///
    /// # Errors
    /// [`DeploymentError::Lost`] where the file is missing, empty or another one; [`DeploymentError::Corrupt`],
    /// [`DeploymentError::InUse`], [`DeploymentError::Unavailable`].
    pub fn open(path: &Path, key: &super::LogKey) -> Result<Self, DeploymentError> {
        let store = Self {
            path: path.to_owned(),
            id: key.log,
            key: key.verifier().clone(),
            open: Mutex::new(None),
        };
        drop(store.opened()?);
        Ok(store)
    }

    /// Rebuilds the tree from the records, and compares it with entries, nodes and checkpoints.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn verify(&self) -> Result<Verified, DeploymentError> {
        let Snapshot {
            database,
            signed,
            published,
        } = self.read()?;
        let transaction = database.begin_read()?;
        let verified = || rebuild(&transaction, [published.as_ref(), signed.as_ref()]);
        catch(verified)
    }

    /// Appends the records that are not in the log, in this order, and signs the new tree. Publishes it where `publish` is set. When
    /// this returns, all of it is on disk. Returns whether the tree has grown.
    ///
    /// # Errors
    /// [`DeploymentError`]; then nothing was signed.
    pub fn append(
        &self,
        records: &[Vec<u8>],
        signer: &Signer,
        publish: bool,
    ) -> Result<bool, DeploymentError> {
        if let Some(record) = records.iter().find(|record| record.len() > MAX_RECORD) {
            return Err(DeploymentError::TooLong(record.len()));
        }
        let mut guard = self.opened()?;
        let Some(open) = guard.as_mut() else {
            return Err(closed());
        };
        let appended = append(open, records, signer, publish);
        close_on_failure(&mut guard, appended)
    }

    /// Replaces the signatures of the newest checkpoint by those of `note`, where that is still the newest, and publishes it where
    /// `publish` is set.
    ///
    /// # Errors
    /// Those of reading and writing the file.
    pub(crate) fn keep(&self, note: &Note, publish: bool) -> Result<(), DeploymentError> {
        let mut guard = self.opened()?;
        let Some(open) = guard.as_mut() else {
            return Err(closed());
        };
        let kept = keep(open, note, publish);
        close_on_failure(&mut guard, kept)
    }

    /// The newest checkpoint.
    pub(crate) fn signed(&self) -> Result<Option<Head>, DeploymentError> {
        Ok(self.read()?.signed)
    }

    /// The checkpoint that readers are shown.
    pub(crate) fn published(&self) -> Result<Option<Head>, DeploymentError> {
        Ok(self.read()?.published)
    }

    /// Returns the tree of a checkpoint that the log's key signed; `None` for other contents.
    ///
    /// # Errors
    /// [`DeploymentError::RolledBack`], which names `holder`, where this log does not extend that tree.
    pub(crate) fn recognize(
        &self,
        checkpoint: &[u8],
        holder: &str,
    ) -> Result<Option<Tree>, DeploymentError> {
        let text = std::str::from_utf8(checkpoint).ok();
        let Some(found) = text.and_then(|text| parse_head(text, &self.key).ok()) else {
            return Ok(None);
        };
        let Snapshot {
            database, signed, ..
        } = self.read()?;
        let size = signed.map_or(0, |head| head.tree.size);
        let reader = Reader::new(&database.begin_read()?)?;
        match root_of(&reader, found.tree.size, size)? == Some(found.tree.root) {
            true => Ok(Some(found.tree)),
            false => Err(DeploymentError::RolledBack {
                holder: holder.to_owned(),
            }),
        }
    }

    /// The record of an entry.
    pub(crate) fn record(&self, entry: &Hash) -> Result<Option<Vec<u8>>, DeploymentError> {
        let Snapshot { database, .. } = self.read()?;
        let records = database.begin_read()?.open_table(RECORDS)?;
        let found = records.get(entry)?;
        Ok(found.map(|record| record.value().to_vec()))
    }

    /// Proves that an entry is in the published tree; `None` where it is not.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn proof(&self, entry: &Hash) -> Result<Option<TlogProof>, DeploymentError> {
        let Snapshot {
            database,
            published,
            ..
        } = self.read()?;
        let Some(Head { note, tree }) = published else {
            return Ok(None);
        };
        let transaction = database.begin_read()?;
        let number = transaction
            .open_table(NUMBERS)?
            .get(entry)?
            .map(|number| number.value());
        let Some(index) = number.filter(|index| *index < tree.size) else {
            return Ok(None);
        };
        let path = prove::inclusion(&Reader::new(&transaction)?, index, tree.size)?;
        // A file that was damaged since it was opened gives an error, never a wrong proof.
        inclusion(entry, index, tree.size, &path, &tree.root)
            .map_err(|_| corrupt("a proof does not lead to the signed root"))?;
        Ok(Some(TlogProof { index, path, note }))
    }

    /// Consistency path from the tree of the first `from` entries to that of the first `to`.
    pub(crate) fn consistency(&self, from: u64, to: u64) -> Result<Vec<Hash>, DeploymentError> {
        let Snapshot { database, .. } = self.read()?;
        let transaction = database.begin_read()?;
        prove::consistency(&Reader::new(&transaction)?, from, to)
    }

    /// Contents of a tile of the published tree, or of its bundle of entries; `None` where that tree has no such tile.
    pub(crate) fn tile(
        &self,
        tile: Tile,
        is_entries: bool,
    ) -> Result<Option<Vec<u8>>, DeploymentError> {
        let Snapshot {
            database,
            published,
            ..
        } = self.read()?;
        let size = published.map_or(0, |head| head.tree.size);
        let complete = size >> (HEIGHT * tile.level);
        let last = tile.positions().last().map(|position| position.index);
        if last.is_none_or(|last| last >= complete) {
            return Ok(None);
        }
        let transaction = database.begin_read()?;
        let reader = Reader::new(&transaction)?;
        if is_entries {
            let entries = tile
                .positions()
                .map(|position| reader.entry(position.index));
            return Ok(Some(bundle(&entries.collect::<Result<Vec<_>, _>>()?)));
        }
        let hashes = tile.positions().map(|position| reader.node(position));
        Ok(Some(hashes.collect::<Result<Vec<_>, _>>()?.concat()))
    }

    /// Entries of the published tree from `from` on, at most `count`.
    pub(crate) fn entries(&self, from: u64, count: usize) -> Result<Vec<Hash>, DeploymentError> {
        let Snapshot {
            database,
            published,
            ..
        } = self.read()?;
        let size = published.map_or(0, |head| head.tree.size);
        let entries = database.begin_read()?.open_table(ENTRIES)?;
        let mut found = Vec::new();
        for entry in entries.range(from..size.max(from))?.take(count) {
            found.push(*entry?.1.value());
        }
        Ok(found)
    }

    fn read(&self) -> Result<Snapshot, DeploymentError> {
        let guard = self.opened()?;
        let open = guard.as_ref().ok_or_else(closed)?;
        let Open {
            database,
            signed,
            published,
            ..
        } = open;
        Ok(Snapshot {
            database: Arc::clone(database),
            signed: signed.clone(),
            published: published.clone(),
        })
    }

    /// Locks the open file; reopens it where it had failed.
    fn opened(&self) -> Result<MutexGuard<'_, Option<Open>>, DeploymentError> {
        let mut guard = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            let lost = || DeploymentError::Lost(self.path.display().to_string());
            match std::fs::metadata(&self.path) {
                Ok(found) if found.len() > 0 => {}
                Ok(_) => return Err(lost()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(lost()),
                Err(error) => return Err(DeploymentError::Unavailable(error.to_string())),
            }
            let loaded = catch(|| load(&self.path, &self.id, &self.key))?;
            *guard = Some(loaded.ok_or_else(lost)?);
        }
        Ok(guard)
    }
}

/// Turns a panic of the library, over pages that it did not write, into an error.
fn catch<T>(read: impl FnOnce() -> Result<T, DeploymentError>) -> Result<T, DeploymentError> {
    catch_panics(|| Ok(read()))?
}

fn close_on_failure<T>(
    guard: &mut Option<Open>,
    outcome: Result<T, DeploymentError>,
) -> Result<T, DeploymentError> {
    if let Err(DeploymentError::Unavailable(_)) = &outcome {
        *guard = None;
    }
    outcome
}

/// `None` where the file has another identifier.
fn load(path: &Path, id: &Hash, key: &Verifier) -> Result<Option<Open>, DeploymentError> {
    let database = builder().open(path)?;
    let transaction = database.begin_read()?;
    let is_own = transaction
        .open_table(META)?
        .get("id")?
        .is_some_and(|found| found.value() == id);
    if !is_own {
        return Ok(None);
    }
    let notes = transaction.open_table(NOTES)?;
    let read = |name: &str| -> Result<Option<Head>, DeploymentError> {
        let note = notes.get(name)?;
        note.map(|note| parse_head(note.value(), key)).transpose()
    };
    let (signed, published) = (read(SIGNED)?, read(PUBLISHED)?);
    let size = signed.as_ref().map_or(0, |head| head.tree.size);
    let reader = Reader::new(&transaction)?;
    let frontier = Frontier::restore(size, |position| reader.node(position))?;
    let is_signed = signed
        .as_ref()
        .is_none_or(|head| head.tree.root == frontier.root());
    if !is_signed || reader.entries.len()? != size {
        return Err(corrupt("the tree is not the signed one"));
    }
    if let Some(published) = &published
        && root_of(&reader, published.tree.size, size)? != Some(published.tree.root)
    {
        return Err(corrupt("the published tree is not part of the signed one"));
    }
    drop(transaction);
    Ok(Some(Open {
        database: Arc::new(database),
        frontier,
        signed,
        published,
    }))
}

fn parse_head(note: &str, key: &Verifier) -> Result<Head, DeploymentError> {
    let unsigned = || corrupt("a checkpoint has no valid signature of the log's key");
    let note = Note::parse(note.as_bytes()).map_err(|_| unsigned())?;
    let checkpoint = Checkpoint::parse(note.text()).map_err(|_| unsigned())?;
    key.verify(&note).map_err(|_| unsigned())?;
    if checkpoint.origin != key.name() {
        return Err(unsigned());
    }
    let tree = checkpoint.tree;
    Ok(Head { note, tree })
}

/// Root of the first `size` of `all` entries.
fn root_of(reader: &Reader, size: u64, all: u64) -> Result<Option<Hash>, DeploymentError> {
    if size > all {
        return Ok(None);
    }
    let frontier = Frontier::restore(size, |position| reader.node(position))?;
    Ok(Some(frontier.root()))
}

fn append(
    open: &mut Open,
    records: &[Vec<u8>],
    signer: &Signer,
    publish: bool,
) -> Result<bool, DeploymentError> {
    let transaction = begin_write(&open.database)?;
    let mut frontier = open.frontier.clone();
    let head = {
        let mut entries = transaction.open_table(ENTRIES)?;
        let mut numbers = transaction.open_table(NUMBERS)?;
        let mut nodes = transaction.open_table(NODES)?;
        let mut stored = transaction.open_table(RECORDS)?;
        let mut completed = Vec::new();
        for record in records {
            let entry = entry(record);
            if numbers.get(&entry)?.is_some() {
                continue;
            }
            let number = frontier.size();
            frontier.append(&entry, |position, hash| completed.push((position, hash)));
            entries.insert(number, &entry)?;
            numbers.insert(&entry, number)?;
            stored.insert(&entry, record.as_slice())?;
        }
        for (Position { level, index }, hash) in &completed {
            // Level 0 is computed from the entries.
            if *level > 0 {
                nodes.insert((*level, *index), hash)?;
            }
        }
        let tree = Tree {
            size: frontier.size(),
            root: frontier.root(),
        };
        let note = sign(signer, tree)?;
        Head { note, tree }
    };
    if frontier.size() == open.frontier.size() {
        transaction.abort()?;
        return Ok(false);
    }
    {
        let mut notes = transaction.open_table(NOTES)?;
        let text = head.note.to_string();
        notes.insert(SIGNED, text.as_str())?;
        if publish {
            notes.insert(PUBLISHED, text.as_str())?;
        }
    }
    // Returns after the data has reached the disk.
    transaction.commit()?;
    open.frontier = frontier;
    if publish {
        open.published = Some(head.clone());
    }
    open.signed = Some(head);
    Ok(true)
}

/// The checkpoint of a log without entries. Signing it again begins no second history: an empty tree has one root.
pub(super) fn empty_head(signer: &Signer) -> Result<Head, DeploymentError> {
    let tree = Tree {
        size: 0,
        root: empty_root(),
    };
    let note = sign(signer, tree)?;
    Ok(Head { note, tree })
}

fn sign(signer: &Signer, tree: Tree) -> Result<Note, DeploymentError> {
    // A key's name is an origin too.
    let unusable = || DeploymentError::Origin;
    let origin = signer.verifier().name();
    let checkpoint = Checkpoint::new(origin, tree).map_err(|_| unusable())?;
    let mut note = Note::new(&checkpoint.to_string()).map_err(|_| unusable())?;
    note.sign(signer.sign(note.text(), 0));
    Ok(note)
}

fn keep(open: &mut Open, note: &Note, publish: bool) -> Result<(), DeploymentError> {
    let is_newest = |head: &&Head| head.note.text() == note.text();
    let Some(tree) = open.signed.as_ref().filter(is_newest).map(|head| head.tree) else {
        return Ok(());
    };
    let transaction = begin_write(&open.database)?;
    {
        let mut notes = transaction.open_table(NOTES)?;
        let text = note.to_string();
        notes.insert(SIGNED, text.as_str())?;
        if publish {
            notes.insert(PUBLISHED, text.as_str())?;
        }
    }
    transaction.commit()?;
    let note = note.clone();
    let head = Head { note, tree };
    if publish {
        open.published = Some(head.clone());
    }
    open.signed = Some(head);
    Ok(())
}

fn rebuild(
    transaction: &ReadTransaction,
    heads: [Option<&Head>; 2],
) -> Result<Verified, DeploymentError> {
    let reader = Reader::new(transaction)?;
    let records = transaction.open_table(RECORDS)?;
    let numbers = transaction.open_table(NUMBERS)?;
    let mut frontier = Frontier::new();
    let (mut bytes, mut nodes) = (0, 0);
    for found in reader.entries.iter()? {
        let (number, hash) = found?;
        let (number, hash) = (number.value(), *hash.value());
        let record = records.get(&hash)?;
        let record = record.ok_or_else(|| corrupt("the record of an entry is missing"))?;
        if entry(record.value()) != hash {
            return Err(corrupt("a record is not that of its entry"));
        }
        let found = numbers.get(&hash)?.map(|number| number.value());
        if number != frontier.size() || found != Some(number) {
            return Err(corrupt("an entry has another number"));
        }
        bytes += record.value().len() as u64;
        let mut completed = Vec::new();
        frontier.append(&hash, |position, hash| completed.push((position, hash)));
        for (position, hash) in completed.into_iter().skip(1) {
            if reader.node(position)? != hash {
                return Err(corrupt("a node is not the hash of its entries"));
            }
            nodes += 1;
        }
        for head in heads.into_iter().flatten() {
            let is_wrong = head.tree.root != frontier.root();
            if head.tree.size == frontier.size() && is_wrong {
                return Err(corrupt("the tree is not the signed one"));
            }
        }
    }
    let entries = frontier.size();
    let has_more = [numbers.len()?, records.len()?]
        .iter()
        .any(|len| *len != entries);
    if has_more || reader.nodes.len()? != nodes {
        return Err(corrupt("no checkpoint covers some records or nodes"));
    }
    Ok(Verified { entries, bytes })
}

struct Reader {
    entries: ReadOnlyTable<u64, &'static Hash>,
    nodes: ReadOnlyTable<(u8, u64), &'static Hash>,
}

impl Reader {
    fn new(transaction: &ReadTransaction) -> Result<Self, DeploymentError> {
        Ok(Self {
            entries: transaction.open_table(ENTRIES)?,
            nodes: transaction.open_table(NODES)?,
        })
    }

    fn entry(&self, number: u64) -> Result<Hash, DeploymentError> {
        let entry = self.entries.get(number)?.map(|entry| *entry.value());
        entry.ok_or_else(|| corrupt("an entry is missing"))
    }
}

impl Nodes for Reader {
    type Error = DeploymentError;

    fn node(&self, Position { level, index }: Position) -> Result<Hash, DeploymentError> {
        if level == 0 {
            return Ok(leaf_hash(&self.entry(index)?));
        }
        let node = self.nodes.get((level, index))?.map(|node| *node.value());
        node.ok_or_else(|| corrupt("a node is missing"))
    }
}

fn corrupt(what: &str) -> DeploymentError {
    DeploymentError::Corrupt(what.to_owned())
}

fn closed() -> DeploymentError {
    DeploymentError::Unavailable("it is closed".to_owned())
}
