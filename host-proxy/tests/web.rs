//! The page's files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use bytes::Bytes;
use host_proxy::CONTENT_SECURITY_POLICY;
use http::{Method, StatusCode};
use tempfile::TempDir;

use crate::support::{FakeEnclave, Running};

fn site() -> TempDir {
    let folder = TempDir::new().unwrap();
    let site = folder.path().join("dist");
    fs::create_dir_all(site.join("assets")).unwrap();
    for (file, content) in [
        ("dist/index.html", "<!doctype html>page"),
        ("dist/trust-policy.json", "{}"),
        ("dist/assets/app-1a2b.js", "plain"),
        ("dist/assets/app-1a2b.js.gz", "zipped"),
        ("dist/assets/verifier-3c4d.wasm", "\0asm"),
        ("secret.txt", "outside"),
    ] {
        fs::write(folder.path().join(file), content).unwrap();
    }
    folder
}

async fn serve(folder: &TempDir) -> Running {
    let web = format!("--web={}", folder.path().join("dist").display());
    Running::start(&FakeEnclave::absent().path(), &[&web]).await
}

#[tokio::test]
async fn files_come_with_their_type_and_their_lifetime() {
    let folder = site();
    let proxy = serve(&folder).await;
    let always = "no-cache";
    let forever = "public, max-age=31536000, immutable";
    for (path, kind, caching) in [
        ("/", "text/html", always),
        ("/index.html", "text/html", always),
        ("/trust-policy.json", "application/json", always),
        ("/assets/app-1a2b.js", "text/javascript", forever),
        ("/assets/verifier-3c4d.wasm", "application/wasm", forever),
    ] {
        let answer = proxy.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        assert_eq!(answer.header("cache-control"), Some(caching), "{path}");
        assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path}");
    }
}

#[tokio::test]
async fn a_compressed_copy_is_sent_where_it_is_accepted() {
    let folder = site();
    let proxy = serve(&folder).await;
    let path = "/assets/app-1a2b.js";
    let zipped = proxy
        .send(
            Method::GET,
            path,
            &[("accept-encoding", "gzip, br")],
            Bytes::new(),
        )
        .await;
    assert_eq!(
        (zipped.text(), zipped.header("content-encoding")),
        ("zipped", Some("gzip"))
    );
    assert_eq!(zipped.header("content-type"), Some("text/javascript"));
    let plain = proxy.get(path).await;
    assert_eq!(
        (plain.text(), plain.header("content-encoding")),
        ("plain", None)
    );
}

#[tokio::test]
async fn routes_of_the_page_lead_to_the_page_and_missing_files_do_not() {
    let folder = site();
    let proxy = serve(&folder).await;
    for route in ["/audit", "/benchmarks/compare?left=1"] {
        assert_eq!(
            proxy.get(route).await.text(),
            "<!doctype html>page",
            "{route}"
        );
    }
    for missing in [
        "/missing.js",
        "/assets/gone",
        "/assets/gone.js",
        "/v1/unknown",
    ] {
        let answer = proxy.get(missing).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{missing}");
        assert_eq!(answer.problem(), "NOT_FOUND", "{missing}");
    }
    let post = proxy.post("/audit", "x").await;
    assert_eq!(
        (post.status, post.header("allow")),
        (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD"))
    );
}

#[tokio::test]
async fn no_path_leaves_the_folder() {
    let folder = site();
    let proxy = serve(&folder).await;
    for path in [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/..%5c..%5csecret.txt",
        "//secret.txt",
        "/%00/../secret.txt",
        "/./.././secret.txt",
    ] {
        // As raw bytes: a client library would normalize the path.
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = proxy.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
        assert!(!answer.contains("outside"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn every_answer_has_the_security_headers() {
    let folder = site();
    let proxy = serve(&folder).await;
    for path in [
        "/",
        "/assets/app-1a2b.js",
        "/missing.js",
        "/healthz",
        "/v1/gateway",
        "/metrics",
    ] {
        let answer = proxy.get(path).await;
        for (name, value) in [
            ("content-security-policy", CONTENT_SECURITY_POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-embedder-policy", "require-corp"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name} of {path}");
        }
        assert!(answer.header("permissions-policy").is_some(), "{path}");
    }
    assert!(!CONTENT_SECURITY_POLICY.contains("unsafe-inline"));
    assert!(!CONTENT_SECURITY_POLICY.contains("'unsafe-eval'"));
}

#[tokio::test]
async fn the_policies_of_a_page_are_sent_with_its_files_alone() {
    let folder = site();
    let (content, integrity) = (
        "default-src 'none'; script-src 'self' 'sha256-AAAA'",
        "blocked-destinations=(script)",
    );
    for (name, policy) in [
        ("content-security-policy.txt", content),
        ("integrity-policy.txt", integrity),
    ] {
        fs::write(folder.path().join("dist").join(name), format!("{policy}\n")).unwrap();
    }
    let proxy = serve(&folder).await;
    for path in ["/", "/audit", "/assets/app-1a2b.js"] {
        let answer = proxy.get(path).await;
        assert_eq!(answer.header("content-security-policy"), Some(content));
        assert_eq!(answer.header("integrity-policy"), Some(integrity));
    }
    for path in ["/healthz", "/v1/gateway", "/missing.js"] {
        let answer = proxy.get(path).await;
        assert_eq!(
            answer.header("content-security-policy"),
            Some(CONTENT_SECURITY_POLICY),
            "{path}"
        );
        assert_eq!(answer.header("integrity-policy"), None, "{path}");
    }
}

#[tokio::test]
async fn a_page_that_replaces_another_brings_its_own_policies() {
    let folder = site();
    let file = folder.path().join("dist/content-security-policy.txt");
    let policy_of = |hash: &str| format!("script-src 'self' 'sha256-{hash}'");
    fs::write(&file, policy_of("AAAA")).unwrap();
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let proxy = serve(&folder).await;
    fs::write(&file, policy_of("BBBB")).unwrap();
    let copied = fs::File::options().write(true).open(&file).unwrap();
    copied.set_modified(modified).unwrap();
    for path in ["/", "/audit", "/assets/app-1a2b.js"] {
        let answer = proxy.get(path).await;
        let policy = answer.header("content-security-policy");
        assert_eq!(policy, Some(&*policy_of("BBBB")), "{path}");
    }
    // No header, so the policy from the start.
    fs::write(&file, "script-src\r\nset-cookie: a=b").unwrap();
    let answer = proxy.get("/").await;
    assert_eq!(
        answer.header("content-security-policy"),
        Some(&*policy_of("AAAA"))
    );
    assert_eq!(answer.header("set-cookie"), None);
}

#[tokio::test]
async fn a_folder_without_a_page_is_refused_at_start() {
    let folder = TempDir::new().unwrap();
    let error = refuse(folder.path()).await;
    assert!(error.contains("holds no index.html"), "{error}");
}

#[tokio::test]
async fn a_policy_that_is_not_a_header_is_refused_at_start() {
    let folder = site();
    let page = folder.path().join("dist");
    for policy in ["", "script-src\r\nset-cookie: a=b", &"x".repeat(4097)] {
        fs::write(page.join("content-security-policy.txt"), policy).unwrap();
        let error = refuse(&page).await;
        assert!(
            error.contains("content-security-policy.txt is not"),
            "{error}"
        );
    }
}

async fn refuse(page: &Path) -> String {
    let flag = format!("--web={}", page.display());
    let config = <host_proxy::Config as clap::Parser>::try_parse_from([
        "host-proxy",
        "--listen=127.0.0.1:0",
        "--enclave=unix:/nowhere",
        &flag,
    ]);
    let bound = host_proxy::Proxy::bind(config.unwrap()).await;
    bound.err().unwrap().to_string()
}
