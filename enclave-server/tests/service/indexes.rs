//! Private indexes: exact results with proofs, changes that are stored or not, and a host that changes what it stores.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use clearseal_client::{Heads, IndexQuery, IndexRow, IndexSettings, PrivateIndex};
use enclave_server::indexes::store::{BlobStore, Created, MemoryStore, ParentStore, StoreError};
use enclave_server::indexes::{Indexes, IndexesError};
use protocol::inner::InnerRequest;
use sealed_index::{
    Change, Disclosed, Index, IndexKey, Metadata, Opening, Precision, Row, RowProof, Settings,
    Statement,
};
use serde_json::{Value, json};

use crate::bulk::{client, stack};
use crate::common::{Attested, MODEL, Options, Rig, SECRET, embeddings};

/// A service with a store, its client's session, and the key of an index.
struct Setup {
    rig: Rig,
    attested: Attested,
    key: IndexKey,
}

impl Setup {
    async fn over(store: Arc<dyn BlobStore>) -> Self {
        let rig = Rig::with(Options {
            store: Some(store),
            ..Options::default()
        });
        let attested = rig.attest().await;
        Self {
            rig,
            attested,
            key: IndexKey::new(&[7; 32]),
        }
    }

    /// Like [`over`](Self::over), with an empty index.
    async fn created(store: Arc<dyn BlobStore>) -> Self {
        let setup = Self::over(store).await;
        let (status, answer) = setup.ask("POST", "", &json!({ "model": MODEL })).await;
        assert_eq!(status, 200, "{answer}");
        setup
    }

    async fn ask(&self, method: &str, below: &str, body: &Value) -> (u16, Value) {
        let path = match below {
            "" => "/v1/indexes".to_owned(),
            below => format!(
                "/v1/indexes/{}{}",
                self.key.id(),
                below.trim_start_matches('.')
            ),
        };
        let key = self.key.to_base64url();
        self.ask_with(method, &path, Some(&key), body).await
    }

    async fn ask_with(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: &Value,
    ) -> (u16, Value) {
        let mut request = InnerRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            ..embeddings(body)
        };
        if body.is_null() {
            request.content.clear();
        }
        let key = key.map(|key| ("clearseal-index-key".to_owned(), key.to_owned()));
        request.headers.extend(key);
        let answer = self.rig.exchange(&self.attested, request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        let content = serde_json::from_slice(&answer.response.content).unwrap();
        (answer.response.status, content)
    }

    async fn put(&self, rows: Value) -> Value {
        let (status, answer) = self.ask("POST", "/rows", &json!({ "rows": rows })).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn query(&self, body: Value) -> Value {
        let (status, answer) = self.ask("POST", "/query", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Status and code of a refusal.
    async fn refusal(&self, method: &str, below: &str, body: &Value) -> (u16, String) {
        let (status, answer) = self.ask(method, below, body).await;
        let code = answer["error"]["code"].as_str().unwrap_or_default();
        (status, code.to_owned())
    }
}

fn statement(answer: &Value) -> Statement {
    serde_json::from_value(answer["clearseal"]["index"].clone()).unwrap()
}

fn at(answer: &Value) -> Value {
    serde_json::to_value(statement(answer).head()).unwrap()
}

fn ids(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().unwrap().iter();
    results
        .map(|result| result["id"].as_str().unwrap())
        .collect()
}

/// Sixteen dimensions, as the toy model has.
fn vector(seed: usize) -> Vec<f32> {
    (0..dimension())
        .map(|at| ((seed * 31 + at * 17) % 23) as f32 / 8.0 - 1.0)
        .collect()
}

fn dimension() -> usize {
    use engine::Encoder as _;
    crate::common::Toy.dimension()
}

fn rows(numbers: std::ops::Range<usize>) -> Value {
    let row = |number| json!({"id": format!("row {number:04}"), "vector": vector(number), "metadata": {"year": number, "even": number % 2 == 0}});
    numbers.map(row).collect()
}

/// The ids of the rows that are most similar, computed as docs/INDEX.md defines it.
fn best(numbers: impl Iterator<Item = usize>, query: &[f32], k: usize) -> Vec<String> {
    let score = |number: usize| {
        let products = vector(number).into_iter().zip(query);
        let products = products.map(|(a, b)| f64::from(a) * f64::from(*b));
        products.fold(0.0, |sum, product| sum + product) as f32
    };
    let mut scored: Vec<_> = numbers
        .map(|number| (score(number), format!("row {number:04}")))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().take(k).map(|(_, id)| id).collect()
}

#[tokio::test]
async fn a_query_returns_exactly_the_best_rows() {
    let setup = Setup::created(Arc::<MemoryStore>::default()).await;
    for from in (0..1000).step_by(250) {
        setup.put(rows(from..from + 250)).await;
    }
    for seed in [3, 4242] {
        let query = vector(seed);
        let answer = setup.query(json!({"query": query, "k": 25})).await;
        assert_eq!(ids(&answer), best(0..1000, &query, 25));
        assert_eq!(
            (&answer["searched"], &answer["k"]),
            (&json!(1000), &json!(25))
        );
        let filter = json!({"and": [{"field": "even", "eq": true}, {"field": "year", "gte": 500}]});
        let body = json!({"query": query, "filter": filter, "include": ["metadata"]});
        let answer = setup.query(body).await;
        let chosen = (500..1000).filter(|number| number % 2 == 0);
        assert_eq!(ids(&answer), best(chosen, &query, 10));
        assert_eq!(answer["searched"], 250);
        assert_eq!(answer["results"][0]["metadata"]["even"], true);
    }
    let both = json!({"query": [vector(1), vector(2)], "k": 3});
    let answer = setup.query(both).await;
    for (number, seed) in [(0, 1), (1, 2)] {
        let results = json!({"results": answer["results"][number]});
        assert_eq!(ids(&results), best(0..1000, &vector(seed), 3));
    }
}

#[tokio::test]
async fn texts_have_the_vectors_of_the_embeddings_endpoint() {
    let setup = Setup::created(Arc::<MemoryStore>::default()).await;
    let texts = ["hello", "hello world", "world", SECRET];
    let rows = texts.map(|text| json!({"id": text, "text": text}));
    let put = setup.put(rows.into()).await;
    assert_eq!((&put["put"], &put["deleted"]), (&json!(4), &json!(0)));
    let body = json!({"query": "hello", "k": 4, "include": ["text", "vector"]});
    let answer = setup.query(body).await;
    let (_, embedded) = setup
        .ask_with(
            "POST",
            "/v1/embeddings",
            None,
            &json!({"model": MODEL, "input": texts}),
        )
        .await;
    for result in answer["results"].as_array().unwrap() {
        let place = texts
            .iter()
            .position(|text| result["text"] == *text)
            .unwrap();
        assert_eq!(result["vector"], embedded["data"][place]["embedding"]);
    }
    // The request that holds the key can stay secret: the answer repeats the rest of it.
    let body = json!({"query": "hello", "k": 1, "include": ["asked"]});
    let answer = setup.query(body.clone()).await;
    assert_eq!(answer["asked"], body);
    // Without a byte order mark, and with U+FFFD in place of a lone surrogate.
    let asked = r#"{"query":"\ufffd hello","k":1,"include":["asked"]}"#;
    let sent = format!("\u{feff}{}", asked.replace("fffd", "d83d"));
    let mut request = InnerRequest {
        path: format!("/v1/indexes/{}/query", setup.key.id()),
        ..embeddings(&Value::Null)
    };
    request.content = sent.into_bytes();
    let key = setup.key.to_base64url().to_string();
    request
        .headers
        .push(("clearseal-index-key".to_owned(), key));
    let answer = setup.rig.exchange(&setup.attested, request).await;
    let response = answer.unwrap_or_else(|error| panic!("{error}")).response;
    let content = String::from_utf8(response.content.to_vec()).unwrap();
    assert_eq!(response.status, 200, "{content}");
    assert!(
        content.contains(&format!(r#""asked":{asked}"#)),
        "{content}"
    );
}

#[tokio::test]
async fn results_prove_their_rows() {
    let setup = Setup::created(Arc::<MemoryStore>::default()).await;
    setup.put(rows(0..50)).await;
    setup
        .put(json!([{"id": "a", "text": "hello", "metadata": {"lang": "en"}}]))
        .await;
    let include = ["text", "metadata", "vector", "proof"];
    let answer = setup
        .query(json!({"query": "hello", "k": 51, "include": include}))
        .await;
    let statement = statement(&answer);
    assert_eq!(statement.rows, 51);
    for result in answer["results"].as_array().unwrap() {
        let proof: RowProof = serde_json::from_value(result["proof"].clone()).unwrap();
        let vector: Vec<f32> = serde_json::from_value(result["vector"].clone()).unwrap();
        let metadata: Metadata = serde_json::from_value(result["metadata"].clone()).unwrap();
        let id = result["id"].as_str().unwrap();
        let disclosed = Disclosed {
            text: result["text"].as_str(),
            vector: Some(&vector),
            metadata: Some(&metadata),
        };
        proof.verify(&statement, id, disclosed).unwrap();
        assert_eq!(proof.computed, id == "a");
        let other = Disclosed {
            text: Some("other"),
            ..disclosed
        };
        assert!(proof.verify(&statement, id, other).is_err());
    }
}

#[tokio::test]
async fn rows_are_replaced_deleted_and_forgotten() {
    let store = Arc::<MemoryStore>::default();
    let setup = Setup::created(Arc::clone(&store) as _).await;
    setup.put(rows(0..20)).await;
    setup
        .put(json!([{"id": "row 0003", "vector": vector(99)}]))
        .await;
    let body = json!({"delete": ["row 0004", "absent"]});
    let (_, changed) = setup.ask("POST", "/rows", &body).await;
    assert_eq!(
        (&changed["put"], &changed["deleted"]),
        (&json!(0), &json!(1))
    );
    let answer = setup.query(json!({"query": vector(99), "k": 20})).await;
    assert_eq!(answer["searched"], 19);
    assert!(!ids(&answer).contains(&"row 0004"));
    let before = store.edit(|objects| objects.keys().cloned().collect::<Vec<_>>());
    let (status, compacted) = setup.ask("POST", "/compact", &Value::Null).await;
    assert_eq!(status, 200, "{compacted}");
    let after = store.edit(|objects| objects.keys().cloned().collect::<Vec<_>>());
    let segments = |names: &[String]| -> Vec<String> {
        let names = names.iter().filter(|name| name.contains("/segments/"));
        names.cloned().collect()
    };
    assert!(!segments(&after).contains(&segments(&before)[0]) || segments(&before).len() > 1);
    assert_eq!(statement(&compacted).map, statement(&answer).map);
    // Another process reads the same index.
    let again = Setup::over(store).await;
    let reopened = again
        .query(json!({"query": vector(99), "k": 20, "at": at(&compacted)}))
        .await;
    assert_eq!(reopened["results"], answer["results"]);
    // Only two states are kept.
    assert_eq!(
        after
            .iter()
            .filter(|name| name.contains("/states/"))
            .count(),
        2
    );

    let (status, deleted) = again.ask("DELETE", ".", &Value::Null).await;
    assert_eq!(
        (status, &deleted["object"]),
        (200, &json!("index.deleted")),
        "{deleted}"
    );
    assert_eq!(
        again.refusal("GET", ".", &Value::Null).await,
        (404, "INDEX_UNKNOWN".to_owned())
    );
}

#[tokio::test]
async fn many_small_changes_are_merged() {
    let store = Arc::<MemoryStore>::default();
    let setup = Setup::created(Arc::clone(&store) as _).await;
    for number in 0..40 {
        setup.put(rows(number..number + 1)).await;
    }
    let segments = store.edit(|objects| {
        objects
            .keys()
            .filter(|name| name.contains("/segments/"))
            .count()
    });
    assert!(segments < 20, "{segments}");
    let query = vector(5);
    let answer = setup.query(json!({"query": query})).await;
    assert_eq!(ids(&answer), best(0..40, &query, 10));
}

#[tokio::test]
async fn other_requests_are_refused() {
    let setup = Setup::created(Arc::<MemoryStore>::default()).await;
    let short = vec![0.5; dimension() - 1];
    for (below, body, status, code) in [
        ("", json!({"model": MODEL}), 409, "INDEX_EXISTS"),
        ("", json!({"model": "other"}), 404, "model_not_found"),
        (
            "",
            json!({"model": MODEL, "dimensions": 100_000}),
            400,
            "DIMENSIONS_INVALID",
        ),
        (
            "",
            json!({"model": MODEL, "precision": "f64"}),
            400,
            "REQUEST_INVALID",
        ),
        (
            "/rows",
            json!({"rows": [{"id": "a"}]}),
            400,
            "INDEX_ROW_EMPTY",
        ),
        (
            "/rows",
            json!({"rows": [{"id": "", "text": "a"}]}),
            400,
            "INDEX_ROW_ID",
        ),
        (
            "/rows",
            json!({"rows": [{"id": "a", "vector": short}]}),
            400,
            "VECTOR_LENGTH",
        ),
        (
            "/rows",
            json!({"rows": [{"id": "a", "text": "a"}, {"id": "a", "text": "b"}]}),
            400,
            "INDEX_ROW_REPEATED",
        ),
        (
            "/rows",
            json!({"rows": [{"id": "a", "text": "a", "metadata": {"a": [SECRET]}}]}),
            400,
            "REQUEST_INVALID",
        ),
        (
            "/query",
            json!({"query": "a", "filters": {}}),
            400,
            "REQUEST_INVALID",
        ),
        (
            "/query",
            json!({"query": "a", "filter": {"field": SECRET}}),
            400,
            "REQUEST_INVALID",
        ),
        ("/query", json!({"query": "a", "k": 0}), 400, "K_INVALID"),
        ("/query", json!({"query": "a", "k": 1001}), 400, "K_INVALID"),
        ("/query", json!({"query": []}), 400, "INPUT_EMPTY"),
        (
            "/query",
            json!({"query": "a", "rerank": {}}),
            400,
            "RERANK_MODEL_UNNAMED",
        ),
    ] {
        let (found, answer) = setup.ask("POST", below, &body).await;
        assert_eq!(
            (found, answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{body}: {answer}"
        );
        assert!(!answer.to_string().contains(SECRET));
    }
    let many = vec!["a"; 65];
    let refused = setup
        .refusal("POST", "/query", &json!({ "query": many }))
        .await;
    assert_eq!(refused, (400, "TOO_MANY_INPUTS".to_owned()));
    assert_eq!(setup.refusal("PUT", "/rows", &json!({})).await.0, 405);
}

#[tokio::test]
async fn a_key_opens_its_own_index_only() {
    let setup = Setup::created(Arc::<MemoryStore>::default()).await;
    let path = format!("/v1/indexes/{}/query", setup.key.id());
    let other = IndexKey::new(&[8; 32]).to_base64url();
    for (key, status, code) in [
        (None, 400, "INDEX_KEY_MISSING"),
        (Some("short"), 400, "INDEX_KEY_MALFORMED"),
        (Some(&**other), 403, "INDEX_KEY_WRONG"),
    ] {
        let (found, answer) = setup
            .ask_with("POST", &path, key, &json!({"query": "a"}))
            .await;
        assert_eq!(
            (found, answer["error"]["code"].as_str()),
            (status, Some(code))
        );
    }
}

#[tokio::test]
async fn a_service_without_a_store_has_no_indexes() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let key = IndexKey::new(&[7; 32]);
    let setup = Setup { rig, attested, key };
    for (method, below, body) in [
        ("POST", "", json!({"model": MODEL})),
        ("POST", "/rows", json!({})),
        ("POST", "/query", json!({"query": "a"})),
        ("POST", "/compact", Value::Null),
        ("GET", ".", Value::Null),
        ("DELETE", ".", Value::Null),
    ] {
        let refused = setup.refusal(method, below, &body).await;
        assert_eq!(refused, (501, "INDEXES_OFF".to_owned()), "{method} {below}");
    }
}

/// The code with which a fresh process refuses the index after `edit`.
async fn code_after(edit: impl FnOnce(&mut std::collections::BTreeMap<String, Vec<u8>>)) -> String {
    let store = Arc::<MemoryStore>::default();
    let setup = Setup::created(Arc::clone(&store) as _).await;
    for from in [0, 30, 60] {
        setup.put(rows(from..from + 30)).await;
    }
    // Another index of the same store.
    let other = Setup {
        key: IndexKey::new(&[8; 32]),
        ..setup
    };
    other.ask("POST", "", &json!({ "model": MODEL })).await;
    for from in [0, 30] {
        other.put(rows(from..from + 30)).await;
    }
    store.edit(edit);
    let again = Setup::over(store).await;
    again
        .refusal("POST", "/query", &json!({"query": vector(1)}))
        .await
        .1
}

fn names(
    objects: &std::collections::BTreeMap<String, Vec<u8>>,
    kind: &str,
    byte: u8,
) -> Vec<String> {
    let prefix = format!("{}/{kind}/", IndexKey::new(&[byte; 32]).id());
    let names = objects.keys().filter(|name| name.starts_with(&prefix));
    names.cloned().collect()
}

#[tokio::test]
async fn a_host_that_changes_objects_is_found_out() {
    for kind in ["states", "segments"] {
        let flip = code_after(|objects| {
            let name = names(objects, kind, 7).pop().unwrap();
            let object = objects.get_mut(&name).unwrap();
            let last = object.len() - 1;
            object[last] ^= 1;
        });
        assert_eq!(flip.await, "INDEX_OBJECT_ALTERED", "{kind}");
        let cut = code_after(|objects| {
            let name = names(objects, kind, 7).pop().unwrap();
            objects.get_mut(&name).unwrap().pop();
        });
        assert_eq!(cut.await, "INDEX_OBJECT_LENGTH", "{kind}");
        let empty = code_after(|objects| {
            let name = names(objects, kind, 7).pop().unwrap();
            objects.insert(name, Vec::new());
        });
        assert_eq!(empty.await, "INDEX_OBJECT_UNKNOWN", "{kind}");
        let foreign = code_after(|objects| {
            let (name, other) = (names(objects, kind, 7).pop(), names(objects, kind, 8).pop());
            let object = objects[&other.unwrap()].clone();
            objects.insert(name.unwrap(), object);
        });
        assert_eq!(foreign.await, "INDEX_OBJECT_SWAPPED", "{kind}");
    }
    let swapped = code_after(|objects| {
        let names = names(objects, "segments", 7);
        let [a, b] = [objects[&names[0]].clone(), objects[&names[1]].clone()];
        objects.insert(names[0].clone(), b);
        objects.insert(names[1].clone(), a);
    });
    assert_eq!(swapped.await, "INDEX_OBJECT_SWAPPED");
    let old_state = code_after(|objects| {
        let names = names(objects, "states", 7);
        let old = objects[&names[0]].clone();
        objects.insert(names[1].clone(), old);
    });
    assert_eq!(old_state.await, "INDEX_OBJECT_SWAPPED");
    let missing = code_after(|objects| {
        let name = names(objects, "segments", 7).pop().unwrap();
        objects.remove(&name);
    });
    assert_eq!(missing.await, "INDEX_INCOMPLETE");
    let gone = code_after(|objects| {
        for name in names(objects, "states", 7) {
            objects.remove(&name);
        }
    });
    assert_eq!(gone.await, "INDEX_UNKNOWN");
}

#[tokio::test]
async fn an_older_index_and_another_history_are_refused() {
    let store = Arc::<MemoryStore>::default();
    let setup = Setup::created(Arc::clone(&store) as _).await;
    setup.put(rows(0..5)).await;
    let old = store.edit(|objects| objects.clone());
    let newer = setup.put(rows(5..9)).await;

    store.edit(|objects| *objects = old);
    let again = Setup::over(Arc::clone(&store) as _).await;
    let body = json!({"query": vector(1), "at": at(&newer)});
    let refused = again.refusal("POST", "/query", &body).await;
    assert_eq!(refused, (409, "INDEX_ROLLED_BACK".to_owned()));
    for (method, below) in [("GET", "."), ("POST", "/compact"), ("POST", "/rows")] {
        let refused = again
            .refusal(method, below, &json!({"at": at(&newer)}))
            .await;
        assert_eq!(refused, (409, "INDEX_ROLLED_BACK".to_owned()), "{below}");
    }
    // The old index goes on: its next version is not the one that the client has seen.
    again.put(rows(20..22)).await;
    let refused = again.refusal("POST", "/query", &body).await;
    assert_eq!(refused, (409, "INDEX_FORKED".to_owned()));
    // So it is many versions later, when the fork is no longer in memory.
    for number in 30..40 {
        again.put(rows(number..number + 1)).await;
    }
    let refused = again.refusal("POST", "/query", &body).await;
    assert_eq!(refused, (409, "INDEX_FORKED".to_owned()));
}

#[tokio::test]
async fn two_enclaves_change_one_index() {
    let store = Arc::<MemoryStore>::default();
    let first = Setup::created(Arc::clone(&store) as _).await;
    let second = Setup::over(Arc::clone(&store) as _).await;
    for number in 0..12 {
        let writer = [&first, &second][number / 3 % 2];
        writer.put(rows(number..number + 1)).await;
    }
    let newest = second.put(rows(12..13)).await;
    for setup in [&first, &second] {
        let body = json!({"query": vector(4), "k": 20, "at": at(&newest)});
        let answer = setup.query(body).await;
        assert_eq!(ids(&answer), best(0..13, &vector(4), 20));
    }
}

/// Called after a store has taken a call; may replace the outcome of a creation.
type Hook = dyn Fn(&MemoryStore, &Call<'_>) -> Option<Created> + Send + Sync;

enum Call<'a> {
    Get,
    Created(&'a str),
    Deleted,
}

/// A store whose calls a test observes and interrupts.
struct Hooked {
    store: Arc<MemoryStore>,
    hook: Box<Hook>,
}

impl Hooked {
    fn over(
        store: &Arc<MemoryStore>,
        hook: impl Fn(&MemoryStore, &Call<'_>) -> Option<Created> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            hook: Box::new(hook),
        })
    }
}

impl BlobStore for Hooked {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        (self.hook)(&self.store, &Call::Get);
        self.store.get(name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, StoreError> {
        let created = self.store.create(name, bytes)?;
        Ok((self.hook)(&self.store, &Call::Created(name)).unwrap_or(created))
    }

    fn list(&self, index: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.store.list(index)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store.delete(name)?;
        (self.hook)(&self.store, &Call::Deleted);
        Ok(())
    }
}

/// The newest version of the index in the store.
fn newest(store: &MemoryStore) -> Index {
    store.edit(|objects| {
        let name = names(objects, "states", 7).pop().unwrap();
        let version = name.rsplit('/').next().unwrap().parse().unwrap();
        let key = IndexKey::new(&[7; 32]);
        let id = key.id();
        let opening = Opening::new(key, version, objects[&name].clone()).unwrap();
        let segments: Vec<_> = opening.segments().collect();
        let opened = segments.into_iter().map(|segment| {
            let object = objects[&format!("{id}/segments/{}", segment.name)].clone();
            opening.open_segment(segment.number, object).unwrap()
        });
        let opened = opened.collect();
        opening.finish(opened).unwrap()
    })
}

/// Another writer's change of the newest version, after which the states before the last two are deleted.
fn change_elsewhere(store: &MemoryStore, change: Change) {
    let index = newest(store);
    let random = [u8::try_from(index.head().version).unwrap(); 32];
    let writes = index.stage(&[change], &random).unwrap().writes.unwrap();
    store.edit(|objects| {
        let id = index.id();
        for (name, bytes) in writes.objects {
            objects.insert(format!("{id}/segments/{name}"), bytes);
        }
        let (version, state) = writes.state;
        objects.insert(format!("{id}/states/{version:020}"), state);
        let states = names(objects, "states", 7);
        for old in &states[..states.len() - 2] {
            objects.remove(old);
        }
    });
}

fn row(id: &str) -> Row {
    Row {
        id: id.to_owned(),
        vector: vector(1),
        text: None,
        metadata: Metadata::default(),
        computed: false,
    }
}

#[tokio::test]
async fn a_change_that_another_writer_continues_is_made_once() {
    // Also where so many versions follow that the state itself is gone, and where the first answer about it was lost.
    for (continued, is_answer_lost) in [(1, false), (1, true), (3, false), (3, true)] {
        let store = Arc::<MemoryStore>::default();
        Setup::created(Arc::clone(&store) as _)
            .await
            .put(rows(0..4))
            .await;
        let is_first = AtomicBool::new(true);
        let hooked = Hooked::over(&store, move |store, call| {
            match call {
                Call::Created(name) if name.contains("/states/") => {}
                _ => return None,
            }
            if !is_first.swap(false, Ordering::SeqCst) {
                return None;
            }
            change_elsewhere(store, Change::Delete("new".to_owned().into()));
            for number in 1..continued {
                change_elsewhere(store, Change::Put(row(&format!("other {number}"))));
            }
            is_answer_lost.then_some(Created::Exists)
        });
        let setup = Setup::over(hooked).await;
        let body = json!({"rows": [{"id": "new", "vector": vector(1)}], "delete": ["row 0002"]});
        let (status, changed) = setup.ask("POST", "/rows", &body).await;
        assert_eq!(status, 200, "{changed}");
        assert_eq!(
            (&changed["put"], &changed["deleted"]),
            (&json!(1), &json!(1))
        );
        let index = newest(&store);
        assert_eq!(index.head().version, 2 + continued);
        assert!(index.get("new").is_none(), "it was deleted since");
        assert!(index.get("row 0002").is_none());
        assert!(index.get("row 0001").is_some());
        // The client knows a version of this history.
        let body = json!({"query": vector(1), "at": at(&changed)});
        Setup::over(store).await.query(body).await;
    }
}

#[tokio::test]
async fn a_change_after_the_deletion_is_refused() {
    let store = Arc::<MemoryStore>::default();
    let first = Setup::created(Arc::clone(&store) as _).await;
    first.put(rows(0..4)).await;
    first.put(rows(4..8)).await;
    // Has the index in memory.
    let second = Setup::over(Arc::clone(&store) as _).await;
    second.query(json!({"query": vector(1)})).await;
    let (status, _) = first.ask("DELETE", ".", &Value::Null).await;
    assert_eq!(status, 200);
    let body = json!({"rows": rows(8..9)});
    let refused = second.refusal("POST", "/rows", &body).await;
    assert_eq!(refused, (404, "INDEX_UNKNOWN".to_owned()));
    assert!(store.edit(|objects| objects.is_empty()));
}

#[tokio::test]
async fn a_deletion_includes_objects_that_are_added_meanwhile() {
    let store = Arc::<MemoryStore>::default();
    Setup::created(Arc::clone(&store) as _)
        .await
        .put(rows(0..4))
        .await;
    let is_first = AtomicBool::new(true);
    let hooked = Hooked::over(&store, move |store, call| {
        if matches!(call, Call::Deleted) && is_first.swap(false, Ordering::SeqCst) {
            change_elsewhere(store, Change::Put(row("late")));
        }
        None
    });
    let setup = Setup::over(hooked).await;
    let (status, deleted) = setup.ask("DELETE", ".", &Value::Null).await;
    assert_eq!(status, 200, "{deleted}");
    assert!(store.edit(|objects| objects.is_empty()));
}

#[tokio::test]
async fn a_version_that_does_not_exist_reads_no_index() {
    let store = Arc::<MemoryStore>::default();
    let reads = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&reads);
    let hooked = Hooked::over(&store, move |_, call| {
        counter.fetch_add(matches!(call, Call::Get).into(), Ordering::SeqCst);
        None
    });
    let setup = Setup::created(hooked).await;
    let mut known = at(&setup.put(rows(0..4)).await);
    let before = reads.load(Ordering::SeqCst);
    known["version"] = json!(u64::MAX);
    for _ in 0..3 {
        let refused = setup.refusal("GET", ".", &json!({ "at": known })).await;
        assert_eq!(refused, (409, "INDEX_ROLLED_BACK".to_owned()));
    }
    assert_eq!(reads.load(Ordering::SeqCst), before);
}

fn settings() -> Settings {
    Settings {
        model: MODEL.to_owned(),
        model_hash: [7; 32],
        prompt: None,
        dimensions: u32::try_from(dimension()).unwrap(),
        precision: Precision::F32,
    }
}

/// A change that its client gives up keeps the index locked until it is stored.
#[tokio::test]
async fn a_change_that_is_given_up_is_completed_under_its_lock() {
    let store = Arc::<MemoryStore>::default();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let hooked = Hooked::over(&store, move |_, call| {
        if let Call::Created(name) = call
            && name.contains("/segments/")
        {
            begun.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        None
    });
    let indexes = Indexes::new(Some(hooked), 1 << 20, NonZeroUsize::MIN);
    let key = IndexKey::new(&[7; 32]);
    indexes.create(&key, settings()).await.unwrap();
    let change = |id: &'static str| {
        let indexes = indexes.clone();
        tokio::spawn(async move {
            let key = IndexKey::new(&[7; 32]);
            let changes = vec![Change::Put(row(id))];
            indexes.change(&key, None, changes, ()).await.map(|_| ())
        })
    };
    let given_up = change("first");
    begins.recv().await.unwrap();
    given_up.abort();
    assert!(given_up.await.is_err());
    let second = change("second");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(begins.try_recv().is_err(), "the second change waits");
    release.send(()).unwrap();
    release.send(()).unwrap();
    second.await.unwrap().unwrap();
    let index = indexes.open(&key, None).await.unwrap();
    assert!(index.get("first").is_some() && index.get("second").is_some());
}

/// Requests that hold an index count, also after it was dropped from the table.
#[tokio::test]
async fn an_index_waits_for_memory_that_requests_hold() {
    let store = Arc::<MemoryStore>::default();
    let keys = [7, 8].map(|byte| IndexKey::new(&[byte; 32]));
    let room = {
        let indexes = Indexes::new(Some(Arc::clone(&store) as _), 1 << 30, NonZeroUsize::MIN);
        let mut bytes = 0;
        for key in &keys {
            indexes.create(key, settings()).await.unwrap();
            let changes = (0..200).map(|number| Change::Put(row(&number.to_string())));
            let changed = indexes.change(key, None, changes.collect(), ()).await;
            bytes = changed.unwrap().index.memory();
        }
        bytes + bytes / 2
    };
    let indexes = Indexes::new(Some(store), room, NonZeroUsize::MIN).with_wait(Duration::ZERO);
    let held = indexes.open(&keys[0], None).await.unwrap();
    let refused = indexes.open(&keys[1], None).await;
    assert!(matches!(refused, Err(IndexesError::Busy)));
    drop(held);
    indexes.open(&keys[1], None).await.unwrap();
}

#[tokio::test]
async fn an_index_of_another_model_is_not_compacted() {
    let store = Arc::<MemoryStore>::default();
    let key = IndexKey::new(&[7; 32]);
    let indexes = Indexes::new(Some(Arc::clone(&store) as _), 1 << 20, NonZeroUsize::MIN);
    indexes.create(&key, settings()).await.unwrap();
    for _ in 0..2 {
        let changes = vec![Change::Put(row("a"))];
        indexes.change(&key, None, changes, ()).await.unwrap();
    }
    let before = newest(&store).head();
    let setup = Setup::over(Arc::clone(&store) as _).await;
    let refused = setup.refusal("POST", "/compact", &Value::Null).await;
    assert_eq!(refused, (409, "INDEX_MODEL_MISSING".to_owned()));
    assert_eq!(newest(&store).head(), before);
}

/// A store that fails at the n-th call that changes it, before or after the call takes effect.
struct Failing {
    store: Arc<MemoryStore>,
    left: std::sync::atomic::AtomicUsize,
    after: bool,
}

impl Failing {
    fn fails(&self) -> bool {
        use std::sync::atomic::Ordering::SeqCst;
        let left = self.left.load(SeqCst);
        self.left.store(left.saturating_sub(1), SeqCst);
        left == 1
    }

    fn act<T>(&self, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match (self.fails(), self.after) {
            (false, _) => act(),
            (true, false) => Err(StoreError::Refused(503)),
            (true, true) => act().and(Err(StoreError::Refused(503))),
        }
    }
}

impl BlobStore for Failing {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, StoreError> {
        self.act(|| self.store.create(name, bytes))
    }

    fn list(&self, index: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.store.list(index)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.act(|| self.store.delete(name))
    }
}

/// A failure at every write of a change and of a compaction: an acknowledged change stays, another one is there whole or not at all.
#[tokio::test]
async fn a_failure_at_any_write_loses_and_resurrects_nothing() {
    for after in [false, true] {
        for failure in 1..8 {
            let store = Arc::<MemoryStore>::default();
            let setup = Setup::created(Arc::clone(&store) as _).await;
            setup.put(rows(0..6)).await;
            setup.put(rows(6..12)).await;
            let acknowledged = setup.put(rows(12..18)).await;
            let failing = Setup::over(Arc::new(Failing {
                store: Arc::clone(&store),
                left: failure.into(),
                after,
            }));
            let failing = failing.await;
            let body = json!({"rows": [{"id": "new", "vector": vector(1)}], "delete": ["row 0002"], "at": at(&acknowledged)});
            let (status, changed) = failing.ask("POST", "/rows", &body).await;
            let (compacted, _) = failing.ask("POST", "/compact", &Value::Null).await;

            let again = Setup::over(store).await;
            let query = json!({"query": vector(1), "k": 100, "at": at(&acknowledged)});
            let answer = again.query(query.clone()).await;
            let found = ids(&answer);
            let (new, deleted) = (found.contains(&"new"), !found.contains(&"row 0002"));
            assert_eq!(new, deleted, "{after} {failure}");
            assert!(new || status != 200, "{after} {failure}: lost, {compacted}");
            assert_eq!(found.len(), 18, "{after} {failure}");
            if status == 200 {
                let mut query = query;
                query["at"] = at(&changed);
                again.query(query).await;
            }
            // The next change is stored.
            again.put(rows(40..41)).await;
        }
    }
}

/// A host's folder of indexes, served by host-proxy.
async fn folder_store(folder: &std::path::Path) -> Arc<dyn BlobStore> {
    use clap::Parser as _;
    let config = host_proxy::Config::try_parse_from([
        "host-proxy",
        "--listen=127.0.0.1:0",
        "--enclave=unix:/nonexistent",
        "--parent-listen=tcp:127.0.0.1:0",
        &format!("--indexes={}", folder.display()),
    ]);
    let proxy = host_proxy::Proxy::bind(config.unwrap()).await.unwrap();
    let address = proxy.parent_address().unwrap().to_string();
    tokio::spawn(proxy.run(std::future::pending()));
    Arc::new(ParentStore::new(address.parse().unwrap()))
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

fn index_rows(numbers: std::ops::Range<usize>) -> Vec<IndexRow> {
    let row = |number| IndexRow {
        id: format!("row {number:04}"),
        vector: Some(vector(number)),
        ..IndexRow::default()
    };
    numbers.map(row).collect()
}

/// Client, relay, enclave and the host's folder: restarts change nothing, and a client notices a folder that was copied back.
#[tokio::test]
async fn a_client_notices_a_folder_that_was_copied_back() {
    let place = tempfile::tempdir().unwrap();
    let [folder, copy, heads] =
        ["indexes", "copy", "heads.json"].map(|name| place.path().join(name));
    let query = IndexQuery {
        query: serde_json::to_value(vector(3)).unwrap(),
        k: 10,
        ..IndexQuery::default()
    };
    let start = async || {
        let store = Some(folder_store(&folder).await);
        let options = Options {
            store,
            ..Options::default()
        };
        let (enclave, host) = stack(options).await;
        let client = client(&enclave, host);
        (enclave, client)
    };
    let open = |client: &clearseal_client::Client, heads: Option<Heads>| {
        PrivateIndex::new(client.clone(), IndexKey::new(&[7; 32]), heads)
    };
    let remembered = || Some(Heads::open(&heads).unwrap());

    let (enclave, client) = start().await;
    let index = open(&client, remembered());
    index.create(IndexSettings::default()).await.unwrap();
    index.change(&index_rows(0..50), &[]).await.unwrap();
    copy_folder(&folder, &copy);
    let (rows, deleted) = (index_rows(50..60), ["row 0007".to_owned()]);
    let changed = index.change(&rows, &deleted).await.unwrap();
    assert_eq!((changed.put, changed.deleted), (10, 1));
    drop((index, enclave));

    // Enclave and host start again: the index is as it was.
    let (enclave, client) = start().await;
    let index = open(&client, remembered());
    let answer = index.query(&query).await.unwrap();
    let found: Vec<_> = answer.results[0].iter().map(|hit| hit.id.clone()).collect();
    let numbers = (0..60).filter(|number| *number != 7);
    assert_eq!(found, best(numbers, &vector(3), 10));
    // The bundle for an auditor does not hold the request, which has the key.
    let bundle = answer.answer.bundle(true).unwrap();
    assert!(bundle.content.is_none() && bundle.salt.is_some());
    drop((index, enclave));

    std::fs::remove_dir_all(&folder).unwrap();
    copy_folder(&copy, &folder);
    let (_enclave, client) = start().await;
    let code = async |heads: Option<Heads>| {
        let answered = open(&client, heads).query(&query).await;
        answered.err().map(|error| error.code().to_owned())
    };
    assert_eq!(
        code(remembered()).await.as_deref(),
        Some("INDEX_ROLLED_BACK")
    );
    // A client that remembers nothing sees an index, and continues it.
    assert_eq!(code(None).await, None);
    let other = open(&client, None);
    other.change(&index_rows(70..75), &[]).await.unwrap();
    other.change(&index_rows(75..80), &[]).await.unwrap();
    assert_eq!(code(remembered()).await.as_deref(), Some("INDEX_FORKED"));
}
