//! host-proxy with its feature `cloud`: AWS KMS's client, and models in S3 and behind web servers.

use crate::process::run;
use crate::{needs, python};
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the S3-compatible server.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn test() -> Result<Option<String>> {
    let mut tests = super::rust::tests();
    tests.args(["--lib", "--", "objects", "aws"]);
    // Without one, the reason was printed at the start, and the tests over S3 are left out.
    let s3 = match python::environment() {
        Ok(programs) => {
            needs::debian("curl", "curl")?;
            Some(S3::start(&programs.join("moto_server"))?)
        }
        Err(_) => None,
    };
    if let Some(s3) = &s3 {
        tests
            .env("CLEARSEAL_TEST_S3", "s3://models/below")
            .env("AWS_ENDPOINT_URL", &s3.url)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1");
    }
    run(&mut tests)?;
    Ok(None)
}

/// An S3-compatible server with one bucket, stopped when dropped.
struct S3 {
    server: Child,
    url: String,
}

impl S3 {
    fn start(program: &std::path::Path) -> Result<Self> {
        let port = free_port()?;
        let server = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let s3 = Self {
            server,
            url: format!("http://127.0.0.1:{port}"),
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(begun.elapsed() < PATIENCE, "moto_server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        // A bucket is made by a PUT of its name.
        run(Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--fail",
                "--output",
                "/dev/null",
            ])
            .args(["--request", "PUT", &format!("{}/models", s3.url)]))?;
        Ok(s3)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // It may have ended already.
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}
