//! Shared by both adapters: questions from standard input, answers to standard output.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Both verifiers trust this root only, and accept no other.
const AWS_ROOT: &str = "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b";

#[derive(Deserialize)]
struct Request {
    id: String,
    document: String,
    time: u64,
    root: String,
    policy: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Answer {
    id: String,
    verdict: &'static str,
    code: String,
}

/// Answers every question. `judge` gets the document and the time in Unix milliseconds; an error is a refusal.
pub fn answer_all(
    judge: impl Fn(&[u8], u64) -> Result<(), String>,
) -> Result<(), Box<dyn std::error::Error>> {
    // A panic is reported as an answer; its message goes nowhere else.
    std::panic::set_hook(Box::new(|_| {}));
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let root = STANDARD.decode(&request.root)?;
        let root: String = Sha256::digest(&root)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let (verdict, code) = if root != AWS_ROOT || request.policy.is_some() {
            ("unsupported", String::new())
        } else {
            let document = STANDARD.decode(&request.document)?;
            match catch_unwind(AssertUnwindSafe(|| judge(&document, request.time))) {
                Ok(Ok(())) => ("accept", String::new()),
                Ok(Err(error)) => ("refuse", error),
                Err(_) => ("error", "panic".to_owned()),
            }
        };
        let answer = Answer {
            id: request.id,
            verdict,
            code,
        };
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(())
}
