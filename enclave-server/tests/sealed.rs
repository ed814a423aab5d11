//! A model from a sealed container of a parent equals the one from its folder, or is refused with a code.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use enclave_server::model::{Folder, LoadTimes, Model, ModelError, Sealed};
use enclave_server::parent::{Parent, ParentAddress, Timeouts};
use fixtures::http;
use sealed_model::{DataKey, FileEntry, Header, Manifest, Sealer};

const KEY: [u8; 32] = [7; 32];
const PATIENCE: Timeouts = Timeouts {
    stall: Duration::from_millis(200),
    least_rate: 64 * 1024,
};

type Files = Vec<(&'static str, Vec<u8>)>;

const CONFIG: &str = r#"{"model_type":"bert","hidden_size":32,"num_attention_heads":1,"num_hidden_layers":1,"intermediate_size":32,"vocab_size":9,"max_position_embeddings":99,"type_vocab_size":2,"layer_norm_eps":1e-12,"hidden_act":"gelu"}"#;
const MODULES: &str = r#"[{"type":"sentence_transformers.models.Transformer","path":""},{"type":"sentence_transformers.models.Pooling","path":"1_Pooling"},{"type":"sentence_transformers.models.Normalize","path":"2_Normalize"}]"#;

/// Files of a model, with weights of three chunks.
fn files() -> Files {
    let count = 600_000;
    let header = format!(
        r#"{{"w":{{"dtype":"F32","shape":[{count}],"data_offsets":[0,{}]}}}}"#,
        count * 4
    );
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header.as_bytes());
    weights.extend((0..count).flat_map(|at| (at as f32).to_le_bytes()));
    let pooling = r#"{"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":false,"pooling_mode_mean_sqrt_len_tokens":false}"#;
    vec![
        ("config.json", CONFIG.as_bytes().to_vec()),
        ("tokenizer.json", b"{\"model\": {}}".to_vec()),
        (
            "sentence_bert_config.json",
            br#"{"max_seq_length":99}"#.to_vec(),
        ),
        ("1_Pooling/config.json", pooling.as_bytes().to_vec()),
        ("modules.json", MODULES.as_bytes().to_vec()),
        ("model.safetensors", weights),
    ]
}

fn manifest(files: &Files) -> Manifest {
    let entries = files
        .iter()
        .map(|(name, contents)| FileEntry::of(name, contents));
    Manifest::new(entries.collect()).unwrap()
}

/// Seals `files` under a header that names `manifest`.
fn seal(files: &Files, manifest: Manifest) -> Vec<u8> {
    let of = |name: &str| files.iter().find(|file| file.0 == name).unwrap().1.clone();
    let mut plain: Vec<u8> = manifest
        .files()
        .iter()
        .flat_map(|file| of(&file.name))
        .collect();
    let mut sealer = Sealer::new(manifest, &[9; 32], &DataKey::new(&KEY)).unwrap();
    let mut container = sealer.header().to_vec();
    while let Some(length) = sealer.wants() {
        let rest = plain.split_off(length);
        sealer.seal(&mut plain).unwrap();
        container.extend(&plain);
        plain = rest;
    }
    container
}

fn good() -> Vec<u8> {
    seal(&files(), manifest(&files()))
}

/// Serves requests one after the other. `answer` gets the number of the request, its first byte, and the stream.
fn parent(answer: impl Fn(usize, usize, TcpStream) + Send + 'static) -> (Parent, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let address = http::serve(move |request, stream| {
        let range = request.header("range").unwrap();
        let (from, _) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        let number = counted.fetch_add(1, Ordering::Relaxed);
        answer(number, from.parse().unwrap(), stream);
    });
    (Parent::new(ParentAddress::Tcp(address), PATIENCE), count)
}

fn head(from: usize, length: usize, etag: &str) -> String {
    format!(
        "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{}/{length}\r\netag: \"{etag}\"\r\n\r\n",
        length - from,
        length - 1
    )
}

/// An honest parent that serves `container`.
fn honest_parent(container: Vec<u8>) -> Parent {
    let answer = move |_, from: usize, mut stream: TcpStream| {
        stream
            .write_all(head(from, container.len(), "v").as_bytes())
            .ok();
        stream.write_all(&container[from..]).ok();
    };
    parent(answer).0
}

fn load(
    parent: &Parent,
    pins: &Manifest,
    key: &[u8; 32],
) -> Result<(Model, usize, LoadTimes), ModelError> {
    let until = Instant::now() + Duration::from_secs(60);
    let sealed = Sealed::open(parent, "tiny", &DataKey::new(key), pins, until)?;
    let loaded = Model::load_from(sealed, pins, |recipe, json| {
        assert_eq!(json, files()[1].1);
        recipe.max_tokens()
    })?;
    Ok((loaded.model, loaded.side_result, loaded.times))
}

fn code(parent: &Parent) -> String {
    match load(parent, &manifest(&files()), &KEY) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

fn values(model: Model) -> Vec<f32> {
    let mut weights = model.weights;
    let weights = weights.remove("model.safetensors").unwrap();
    weights.into_tensors().remove("w").unwrap().values
}

#[test]
fn folder_and_container_give_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    for (name, contents) in files() {
        std::fs::write(folder.path().join(Path::new(name)), contents).unwrap();
    }
    let pins = manifest(&files());
    let plain = Model::load_from(Folder::new(folder.path(), &pins), &pins, |_, _| ())
        .unwrap()
        .model;
    let (sealed, max_tokens, times) = load(&honest_parent(good()), &pins, &KEY).unwrap();
    assert_eq!((max_tokens, plain.recipe.max_tokens()), (99, 99));
    assert_eq!(sealed.artifact_sha256, plain.artifact_sha256);
    assert_eq!(sealed.artifact_sha256, pins.digest());
    assert!(values(sealed) == values(plain));
    assert!(times.decrypt > Duration::ZERO && times.total >= times.tokenizer);
}

/// Each connection delivers a chunk and a half, or little more than the header.
#[test]
fn a_broken_connection_is_resumed_at_the_next_chunk() {
    for each in [(3 << 20) / 2, 1_100_000] {
        let container = good();
        let (first, _) = Header::read(&container).unwrap();
        let offsets: Vec<_> = (0..first.chunks())
            .map(|index| first.chunk_offset(index))
            .collect();
        let (parent, count) = parent(move |number, from, mut stream| {
            assert!(number == 0 || offsets.contains(&(from as u64)), "{from}");
            stream
                .write_all(head(from, container.len(), "v").as_bytes())
                .ok();
            let end = (from + each).min(container.len());
            stream.write_all(&container[from..end]).ok();
        });
        load(&parent, &manifest(&files()), &KEY).unwrap();
        assert!(count.load(Ordering::Relaxed) > 1);
    }
}

#[test]
fn a_fetch_without_progress_fails_after_five_attempts() {
    let (parent, count) = parent(|_, _, stream| drop(stream));
    assert_eq!(code(&parent), "PARENT_BROKEN");
    assert_eq!(count.load(Ordering::Relaxed), 5);
}

#[test]
fn a_swapped_container_is_refused_in_the_middle() {
    let container = good();
    let (parent, _) = parent(move |number, from, mut stream| {
        stream
            .write_all(head(from, container.len(), &format!("v{number}")).as_bytes())
            .ok();
        stream
            .write_all(&container[from..(from + 1_500_000).min(container.len())])
            .ok();
    });
    assert_eq!(code(&parent), "MODEL_CHANGED");
    let container = good();
    // The answer that RFC 9110 requires from an honest server whose container was replaced.
    let (parent, _) = self::parent(move |number, from, mut stream| {
        let whole = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\netag: \"w\"\r\n\r\n",
            container.len()
        );
        let head = if number == 0 {
            head(from, container.len(), "v")
        } else {
            whole
        };
        stream.write_all(head.as_bytes()).ok();
        stream.write_all(&container[from..1_500_000]).ok();
    });
    assert_eq!(code(&parent), "MODEL_CHANGED");
}

#[test]
fn each_false_statement_has_its_code() {
    let length = good().len();
    let (_, start) = Header::read(&good()).unwrap();
    let saying = |head: String| {
        let container = good();
        parent(move |_, from, mut stream| {
            stream.write_all(head.as_bytes()).ok();
            stream.write_all(&container[from..]).ok();
        })
        .0
    };
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = good();
        change(&mut bad);
        honest_parent(bad)
    };
    let other_files = || {
        let mut other = files();
        other[0].1 = b"{ }".to_vec();
        other
    };
    let lying = || {
        let mut other = files();
        other[5].1[1000] ^= 1;
        seal(&other, manifest(&files()))
    };
    for (what, parent, expected) in [
        ("genuine", honest_parent(good()), "accepted"),
        ("another length", with(&|bad| bad.push(0)), "MODEL_LENGTH"),
        (
            "a shorter one",
            with(&|bad| bad.truncate(length - 1)),
            "MODEL_LENGTH",
        ),
        (
            "another range",
            saying(head(0, length, "v").replace("bytes 0-", "bytes 1-")),
            "MODEL_LENGTH",
        ),
        (
            "no range",
            saying(head(0, length, "v").replace("content-range", "x")),
            "MODEL_LENGTH",
        ),
        (
            "no tag",
            saying(head(0, length, "v").replace("etag", "x")),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "a tag with a space",
            saying(head(0, length, "v v")),
            "PARENT_ANSWER_INVALID",
        ),
        (
            "a redirect",
            saying("HTTP/1.1 302 Found\r\ncontent-length: 9999999\r\n\r\n".to_owned()),
            "MODEL_REFUSED",
        ),
        ("no container", with(&|bad| bad[0] = 0), "CONTAINER_NOT_ONE"),
        (
            "an altered header",
            with(&|bad| bad[88] ^= 1),
            "CONTAINER_HEADER_ALTERED",
        ),
        (
            "an altered chunk",
            with(&|bad| bad[start + (1 << 20) + 100] ^= 1),
            "CONTAINER_CHUNK_ALTERED",
        ),
        (
            "chunks exchanged",
            with(&|bad| {
                let chunk = (1 << 20) + 16;
                let (a, b) = bad[start..].split_at_mut(chunk);
                a.swap_with_slice(&mut b[..chunk]);
            }),
            "CONTAINER_CHUNK_ORDER",
        ),
        (
            "other files under the right key",
            honest_parent(seal(&other_files(), manifest(&other_files()))),
            "MODEL_SET_NOT_PINNED",
        ),
        (
            "other contents under pinned names",
            honest_parent(lying()),
            "MODEL_FILE_DIGEST",
        ),
    ] {
        assert_eq!(code(&parent), expected, "{what}");
    }
    let (unknown, _) = parent(|_, _, mut stream| {
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            .ok();
    });
    assert_eq!(code(&unknown), "MODEL_UNKNOWN");
    let error = load(&honest_parent(good()), &manifest(&files()), &[8; 32])
        .err()
        .unwrap();
    assert_eq!(error.code(), "CONTAINER_WRONG_KEY");
}

#[test]
fn a_host_that_stalls_or_sends_slowly_is_reported() {
    let container = good();
    let (stalling, _) = parent(move |_, from, mut stream| {
        stream
            .write_all(head(from, container.len(), "v").as_bytes())
            .ok();
        let container = container.clone();
        std::thread::spawn(move || {
            stream
                .write_all(&container[from..(from + 1000).min(container.len())])
                .ok();
            std::thread::sleep(Duration::from_secs(5));
        });
    });
    assert_eq!(code(&stalling), "PARENT_STALLED");
    let container = good();
    let (trickling, _) = parent(move |_, from, mut stream| {
        stream
            .write_all(head(from, container.len(), "v").as_bytes())
            .ok();
        stream.write_all(&container[from..from + 2000]).ok();
        let rest = container[from + 2000..].to_vec();
        for byte in rest {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(code(&trickling), "PARENT_TOO_SLOW");
}
