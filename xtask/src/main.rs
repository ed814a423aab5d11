//! The task runner: `cargo xtask <verb>`. `npm start` and `npm test` call it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to a terminal"
)]

mod model;
mod paths;
mod process;
mod wasm;

use clap::{Parser, Subcommand};

/// Builds, starts and tests Clearseal.
#[derive(Parser)]
#[command(name = "cargo xtask", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Model(model::Options),
    Wasm(wasm::Options),
}

fn main() -> std::process::ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Model(options) => model::run(&options),
        Verb::Wasm(options) => wasm::run(&options),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
