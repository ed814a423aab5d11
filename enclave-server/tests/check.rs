//! `check-model` lists what is wrong with a folder, and the server does not start with a model that computes other vectors.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use enclave_server::Clock;
use enclave_server::check::{CheckModel, Report, check};
use enclave_server::config::Config;
use enclave_server::model::pinned;
use enclave_server::server::Server;
use enclave_server::stages::Stages;
use engine::{EngineChoice, Precision};
use sealed_model::{FileEntry, Manifest, ModelLock, ModelName, SelfTest};
use tempfile::TempDir;

/// The server's folder of the model, where it is on this machine.
fn model() -> Option<PathBuf> {
    let folder = Config::parse_from(["enclave-server"]).model.remove(0);
    if folder.join("model.safetensors").exists() {
        return Some(folder);
    }
    forge::tell_skipped(&format!("no model in {}", folder.display()));
    None
}

fn options(folder: &Path, lock: &Path) -> CheckModel {
    CheckModel {
        folder: folder.to_owned(),
        model_lock: Some(lock.to_owned()),
        engine: EngineChoice::Auto,
        precision: Precision::F32,
        print_self_test: false,
    }
}

fn write(folder: &Path, lock: &ModelLock) -> PathBuf {
    let path = folder.join("model.lock.json");
    std::fs::write(&path, lock.to_json()).unwrap();
    path
}

/// The released lock with a wrong vector for its second text.
fn wrong_lock() -> ModelLock {
    let mut lock = pinned::all_minilm_l6_v2().unwrap();
    lock.name = ModelName::new("org/other").unwrap();
    lock.self_test[1].vector.reverse();
    lock
}

fn has(report: &Report, parts: [&str; 2]) -> bool {
    let mut problems = report.problems.iter();
    problems.any(|problem| parts.iter().all(|part| problem.contains(part)))
}

#[tokio::test]
async fn every_problem_of_a_folder_is_listed() {
    let scratch = TempDir::new().unwrap();
    let folder = scratch.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    let files = [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "model.safetensors",
    ];
    for file in files {
        std::fs::write(folder.join(file), b"{}").unwrap();
    }
    let entries = files.map(|file| FileEntry::of(file, b"{}"));
    let lock = ModelLock {
        name: ModelName::new("small").unwrap(),
        aliases: Vec::new(),
        files: Manifest::new(entries.to_vec()).unwrap(),
        self_test: Vec::new(),
    };
    let lock = write(scratch.path(), &lock);

    // The loader's verdict alone.
    let report = check(&options(&folder, &lock)).await.unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");

    std::fs::write(folder.join("config.json"), b"[]").unwrap();
    std::fs::write(folder.join("modules.json"), b"[ ]").unwrap();
    std::fs::remove_file(folder.join("model.safetensors")).unwrap();
    std::fs::write(folder.join("pytorch_model.bin"), b"").unwrap();
    let report = check(&options(&folder, &lock)).await.unwrap();
    for parts in [
        ["MODEL_FILE_DIGEST", "config.json"],
        ["MODEL_FILE_SIZE", "modules.json"],
        ["MODEL_FILE_UNREADABLE", "model.safetensors"],
        ["MODEL_FOLDER_PICKLE", "pytorch_model.bin"],
    ] {
        assert!(has(&report, parts), "{parts:?}: {report:?}");
    }
    assert_eq!(report.problems.len(), 4, "{report:?}");
    // Each file problem names the lock as a remedy.
    let of_files = report.problems.iter().filter(|p| p.contains("MODEL_FILE_"));
    assert!(of_files.clone().count() == 3 && of_files.clone().all(|p| p.contains("--model-lock")));

    let missing = check(&options(&folder, Path::new("/nonexistent.lock.json"))).await;
    assert_eq!(missing.unwrap_err().code(), "MODEL_LOCK_UNREADABLE");
}

#[tokio::test]
async fn the_real_model_passes_and_a_wrong_vector_is_numbered() {
    let Some(folder) = model() else { return };
    let scratch = TempDir::new().unwrap();
    let lock = pinned::all_minilm_l6_v2().unwrap();
    let printing = CheckModel {
        print_self_test: true,
        ..options(&folder, &write(scratch.path(), &lock))
    };
    let report = check(&printing).await.unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(report.notes.iter().any(|note| note.contains("2 of 2")));
    let texts = |tests: &[SelfTest]| -> Vec<String> {
        tests.iter().map(|test| test.text.clone()).collect()
    };
    assert_eq!(texts(&report.self_test), texts(&lock.self_test));
    assert_eq!(report.self_test[0].vector.len(), 384);

    let wrong = write(scratch.path(), &wrong_lock());
    let report = check(&options(&folder, &wrong)).await.unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(has(&report, ["MODEL_SELF_TEST", "self-test 2 of 2"]));
    // The text is the user's.
    assert!(!report.problems[0].contains("Café"));
}

#[tokio::test]
async fn the_server_does_not_start_with_other_vectors() {
    let Some(folder) = model() else { return };
    let scratch = TempDir::new().unwrap();
    let lock = write(scratch.path(), &wrong_lock());
    let start = async |lock: &Path| {
        let config = Config::parse_from([
            "enclave-server".as_ref(),
            "--simulate-nsm".as_ref(),
            "--listen=tcp:127.0.0.1:0".as_ref(),
            "--threads=1".as_ref(),
            "--model".as_ref(),
            folder.as_os_str(),
            "--model-lock".as_ref(),
            lock.as_os_str(),
        ]);
        Server::start(&config, Clock::system(), Stages::begin()).await
    };
    let error = start(&lock).await.err().unwrap();
    assert_eq!(error.code(), "MODEL_SELF_TEST");
    assert!(error.to_string().contains("self-test 2 of 2"), "{error}");
    let right = ModelLock {
        self_test: pinned::all_minilm_l6_v2().unwrap().self_test,
        ..wrong_lock()
    };
    assert!(start(&write(scratch.path(), &right)).await.is_ok());
}

#[tokio::test]
async fn the_server_starts_with_several_models_that_differ_in_name() {
    let Some(folder) = model() else { return };
    let scratch = TempDir::new().unwrap();
    let right = pinned::all_minilm_l6_v2().unwrap();
    let renamed = ModelLock {
        name: ModelName::new("org/second").unwrap(),
        aliases: Vec::new(),
        ..right.clone()
    };
    let first = write(scratch.path(), &right);
    let second = scratch.path().join("second.json");
    std::fs::write(&second, renamed.to_json()).unwrap();
    let start = async |folders: &[&Path], locks: [&Path; 2]| {
        let mut arguments: Vec<&OsStr> = vec![
            "enclave-server".as_ref(),
            "--simulate-nsm".as_ref(),
            "--listen=tcp:127.0.0.1:0".as_ref(),
            "--threads=1".as_ref(),
        ];
        for folder in folders {
            arguments.extend(["--model".as_ref(), folder.as_os_str()]);
        }
        for lock in locks {
            arguments.extend(["--model-lock".as_ref(), lock.as_os_str()]);
        }
        let config = Config::parse_from(arguments);
        let started = Server::start(&config, Clock::system(), Stages::begin()).await;
        started.err().map(|error| error.code().to_owned())
    };
    assert_eq!(start(&[&folder, &folder], [&first, &second]).await, None);
    // Before any file of a model is read: there is none.
    let missing = scratch.path().join("missing");
    let twice = start(&[&missing, &missing], [&first, &first]).await;
    assert_eq!(twice.as_deref(), Some("MODEL_NAME_TWICE"));
    let fewer = start(&[&folder], [&first, &second]).await;
    assert_eq!(fewer.as_deref(), Some("MODEL_COUNT"));
}

#[test]
fn the_command_ends_with_a_status_and_prints_the_vectors_alone() {
    let Some(folder) = model() else { return };
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_enclave-server"))
            .arg("check-model")
            .arg(&folder)
            .args(arguments)
            .env("CLEARSEAL_MODEL", &folder)
            .env_remove("CLEARSEAL_MODEL_LOCK")
            .output()
            .unwrap()
    };
    let printed = run(&["--print-self-test"]);
    let report = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert_eq!(printed.status.code(), Some(0), "{report}");
    assert_eq!(SelfTest::parse(&printed.stdout).unwrap().len(), 2);
    let scratch = TempDir::new().unwrap();
    let wrong = write(scratch.path(), &wrong_lock());
    let refused = run(&["--model-lock", wrong.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("MODEL_SELF_TEST"));
}
