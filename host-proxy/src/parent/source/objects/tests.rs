//! Runs against a web server with ranges, and an S3-compatible server where one is configured.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::response::IntoResponse as _;
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};

use super::*;

const LENGTH: usize = (3 << 20) + 5;

fn contents() -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7 % 251) as u8).collect()
}

/// A web server with one model. The counter is the model's version.
async fn server(tagged: bool) -> (String, Arc<AtomicUsize>) {
    let version = Arc::new(AtomicUsize::new(1));
    let serve = move |State(version): State<Arc<AtomicUsize>>,
                      UrlPath(path): UrlPath<String>,
                      headers: HeaderMap| async move {
        if path != "tiny/model.sealed" {
            return StatusCode::NOT_FOUND.into_response();
        }
        let etag = format!("\"v{}\"", version.load(Ordering::SeqCst));
        if headers
            .get(header::IF_MATCH)
            .is_some_and(|known| known.as_bytes() != etag.as_bytes())
        {
            return StatusCode::PRECONDITION_FAILED.into_response();
        }
        let range = headers.get(header::RANGE).map(|range| {
            let text = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
            let (first, last) = text.split_once('-').unwrap();
            first.parse().unwrap()..last.parse::<usize>().unwrap() + 1
        });
        let all = contents();
        let mut answer = match range {
            Some(range) => (
                StatusCode::PARTIAL_CONTENT,
                [(
                    header::CONTENT_RANGE,
                    format!("bytes {}-{}/{LENGTH}", range.start, range.end - 1),
                )],
                all[range].to_vec(),
            )
                .into_response(),
            None => all.into_response(),
        };
        let more = answer.headers_mut();
        if tagged {
            more.insert(header::ETAG, etag.parse().unwrap());
        }
        more.insert(
            header::LAST_MODIFIED,
            "Tue, 24 Nov 2026 10:00:00 GMT".parse().unwrap(),
        );
        answer
    };
    let app = Router::new()
        .route("/models/{*path}", get(serve))
        .with_state(Arc::clone(&version));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/models", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, version)
}

async fn open(source: &Objects, name: &str) -> Result<Arc<dyn Container>, SourceError> {
    let name = ModelName::parse(name).unwrap();
    source.open(&name, Artifact::Container).await
}

async fn reads_a_model(source: &Objects) {
    let container = open(source, "tiny").await.unwrap();
    assert_eq!(container.length(), LENGTH as u64);
    for range in [0..1, 1000..70_000, LENGTH - 1..LENGTH, 0..LENGTH] {
        let read = container.read(range.start as u64..range.end as u64).await;
        assert!(read.unwrap() == contents()[range.clone()], "{range:?}");
    }
    assert!(matches!(
        open(source, "other").await,
        Err(SourceError::Unknown(_))
    ));
}

#[tokio::test]
async fn a_web_server_serves_ranges() {
    for tagged in [true, false] {
        let (url, _) = server(tagged).await;
        for url in [url.clone(), format!("{url}/")] {
            reads_a_model(&Objects::open(&url).unwrap()).await;
        }
    }
}

#[tokio::test]
async fn versions_of_a_container_are_not_mixed() {
    let (url, version) = server(true).await;
    let source = Objects::open(&url).unwrap();
    let container = open(&source, "tiny").await.unwrap();
    assert!(container.read(0..10).await.is_ok());
    version.fetch_add(1, Ordering::SeqCst);
    let Err(SourceError::Unavailable(text)) = container.read(10..20).await else {
        panic!("two versions")
    };
    assert!(text.contains("was replaced"), "{text}");
    let container = open(&source, "tiny").await.unwrap();
    assert!(container.read(10..20).await.is_ok());
}

#[tokio::test]
async fn invalid_urls_are_refused_and_a_silent_server_is_unavailable() {
    for place in ["ftp://host/models", "s3://", "https://"] {
        assert!(Objects::open(place).is_err(), "{place}");
    }
    let source = Objects::open("http://127.0.0.1:9/models").unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(60), open(&source, "tiny")).await;
    assert!(matches!(outcome, Ok(Err(SourceError::Unavailable(_)))));
}

/// `CLEARSEAL_TEST_S3` names a folder of an S3-compatible server, `s3://BUCKET/PREFIX`. The AWS variables name the server.
#[tokio::test]
async fn an_s3_compatible_server_serves_ranges() {
    let Ok(place) = std::env::var("CLEARSEAL_TEST_S3") else {
        return;
    };
    let source = Objects::open(&place).unwrap();
    let name = source.prefix.clone().join("tiny").join("model.sealed");
    let put = source.store.put(&name, contents().into()).await;
    put.unwrap();
    reads_a_model(&source).await;
    let container = open(&source, "tiny").await.unwrap();
    let mut other = contents();
    other.reverse();
    source.store.put(&name, other.into()).await.unwrap();
    let read = container.read(0..10).await;
    assert!(matches!(read, Err(SourceError::Unavailable(_))));
}
