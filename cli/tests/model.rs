//! A model folder becomes a container, and a container says whether it is one.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder with what a model consists of, in small; removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("clearseal-model-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("dir/1_Pooling")).unwrap();
        for (file, contents) in [
            ("config.json", b"{}".to_vec()),
            ("tokenizer.json", b"{ }".to_vec()),
            ("1_Pooling/config.json", b"{  }".to_vec()),
            // More than a chunk.
            ("model.safetensors", vec![7; (1 << 20) + 10]),
        ] {
            std::fs::write(folder.join("dir").join(file), contents).unwrap();
        }
        Self(folder)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearseal"));
        command
            .current_dir(&self.0)
            .arg("model")
            .args(arguments)
            .output()
            .unwrap()
    }

    fn seal(&self, more: &[&str]) -> Output {
        self.run(
            &[
                &["seal", "dir", "--out", "m.sealed", "--key-file", "key"],
                more,
            ]
            .concat(),
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_sealed_folder_is_genuine_under_its_key_alone() {
    let place = Place::new("genuine");
    let sealed = place.seal(&["--new-key"]);
    assert!(sealed.status.success(), "{}", text(&sealed.stderr));
    let mode = std::fs::metadata(place.0.join("key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!place.0.join("m.sealed.partial").exists());

    let shown = place.run(&["inspect", "m.sealed", "--key-file", "key", "--json"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["chunks"], shown["files"].as_array().unwrap().len()),
        (&2.into(), 4)
    );
    assert!(shown["contents"].as_str().unwrap().starts_with("genuine"));
    let hash = shown["model_hash"].as_str().unwrap();
    assert!(text(&sealed.stdout).contains(hash));

    let unchecked = place.run(&["inspect", "m.sealed"]);
    assert!(unchecked.status.success() && text(&unchecked.stdout).contains("unchecked"));
    std::fs::write(place.0.join("other"), [1; 32]).unwrap();
    std::fs::set_permissions(place.0.join("other"), PermissionsExt::from_mode(0o600)).unwrap();
    let wrong = place.run(&["inspect", "m.sealed", "--key-file", "other"]);
    assert!(wrong.status.code() == Some(1) && text(&wrong.stderr).contains("CONTAINER_WRONG_KEY"));
}

#[test]
fn damage_has_its_code_and_status() {
    let place = Place::new("damage");
    assert!(place.seal(&["--new-key"]).status.success());
    let good = std::fs::read(place.0.join("m.sealed")).unwrap();
    let mut flipped = good.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    for (bytes, code) in [
        (flipped, "CONTAINER_CHUNK_ALTERED"),
        (good[..last].to_vec(), "CONTAINER_TRUNCATED"),
        ([&good[..], b"x"].concat(), "CONTAINER_TRAILING_BYTES"),
        (b"PK".to_vec(), "CONTAINER_NOT_ONE"),
    ] {
        std::fs::write(place.0.join("bad"), bytes).unwrap();
        let output = place.run(&["inspect", "bad", "--key-file", "key"]);
        assert!(
            output.status.code() == Some(1) && text(&output.stderr).contains(code),
            "{code}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn keys_are_private_and_never_replaced() {
    let place = Place::new("keys");
    assert_eq!(place.seal(&[]).status.code(), Some(2));
    assert!(place.seal(&["--new-key"]).status.success());
    let again = place.seal(&["--new-key"]);
    assert!(again.status.code() == Some(2) && text(&again.stderr).contains("never replaced"));
    assert!(place.seal(&[]).status.success());
    std::fs::set_permissions(place.0.join("key"), PermissionsExt::from_mode(0o644)).unwrap();
    let open = place.seal(&[]);
    assert!(open.status.code() == Some(2) && text(&open.stderr).contains("chmod 600"));
}

#[test]
fn what_is_no_model_folder_is_refused() {
    let place = Place::new("none");
    std::fs::remove_file(place.0.join("dir/model.safetensors")).unwrap();
    let output = place.seal(&["--new-key"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains(".safetensors"));
    // Nothing was made for nothing.
    assert!(!place.0.join("key").exists() && !place.0.join("m.sealed").exists());
}

#[test]
fn a_lock_names_what_a_server_needs_and_lists_the_rest() {
    let place = Place::new("lock");
    for file in ["README.md", "pytorch_model.bin", "vocab.txt", ".hidden"] {
        std::fs::write(place.0.join("dir").join(file), b"x").unwrap();
    }
    // Settings that a server refuses: without them it would compute other vectors.
    for file in ["adapter_config.json", "added_tokens.json"] {
        std::fs::write(place.0.join("dir").join(file), b"{}").unwrap();
    }
    for file in ["a/b/config.json", "2_Dense/model.safetensors"] {
        let path = place.0.join("dir").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"x").unwrap();
    }
    let lock = ["lock", "dir", "--name", "org/small", "--alias", "other"];
    let locked = place.run(&lock);
    assert!(locked.status.success(), "{}", text(&locked.stderr));
    let left_out: Vec<_> = text(&locked.stderr).lines().map(str::to_owned).collect();
    assert_eq!(
        left_out,
        [
            "left out: README.md",
            "left out: a/b/config.json",
            "left out: pytorch_model.bin",
            "left out: vocab.txt"
        ]
    );
    let json: serde_json::Value = serde_json::from_slice(&locked.stdout).unwrap();
    assert_eq!(json["model"], "org/small");
    assert_eq!(json["aliases"], serde_json::json!(["other"]));
    let files = json["files"].as_array().unwrap().iter();
    let files: Vec<_> = files.map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(
        files,
        [
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "adapter_config.json",
            "added_tokens.json",
            "config.json",
            "model.safetensors",
            "tokenizer.json"
        ]
    );

    // The vectors of a self-test are taken over, and must be in its form.
    let tests = r#"[{"text":"a","vector":"AACAPw=="}]"#;
    std::fs::write(place.0.join("tests.json"), tests).unwrap();
    let tested = place.run(&[&lock[..], &["--self-test", "tests.json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&tested.stdout).unwrap();
    assert_eq!(json["self_test"][0]["vector"], "AACAPw==");
    std::fs::write(place.0.join("tests.json"), "{}").unwrap();
    let refused = place.run(&[&lock[..], &["--self-test", "tests.json"]].concat());
    assert!(text(&refused.stderr).contains("MODEL_LOCK_INVALID"));

    // Sealing takes the files of the lock alone, and refuses a changed one.
    std::fs::write(place.0.join("m.lock.json"), &locked.stdout).unwrap();
    let sealed = place.seal(&["--new-key", "--model-lock", "m.lock.json"]);
    assert!(sealed.status.success(), "{}", text(&sealed.stderr));
    assert!(text(&sealed.stdout).contains("7 files"));
    std::fs::write(place.0.join("dir/config.json"), b"[]").unwrap();
    let changed = place.seal(&["--model-lock", "m.lock.json"]);
    assert_eq!(changed.status.code(), Some(2));
    assert!(text(&changed.stderr).contains("config.json"));
}

#[test]
fn weights_that_can_run_code_are_not_locked() {
    let place = Place::new("pickle");
    std::fs::remove_file(place.0.join("dir/model.safetensors")).unwrap();
    let lock = || place.run(&["lock", "dir", "--name", "small"]);
    let output = lock();
    assert!(text(&output.stderr).contains("MODEL_FOLDER_INCOMPLETE"));
    for pickle in ["pytorch_model.bin", "model.pt", "weights.pkl"] {
        let path = place.0.join("dir").join(pickle);
        std::fs::write(&path, b"x").unwrap();
        let output = lock();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty());
        let message = text(&output.stderr);
        assert!(
            message.contains("MODEL_FOLDER_PICKLE") && message.contains(pickle),
            "{message}"
        );
        std::fs::remove_file(path).unwrap();
    }
    let named = place.run(&["lock", "dir", "--name", "a b"]);
    assert!(text(&named.stderr).contains("not a model's name"));
}
