//! The task runner: `cargo xtask <verb>`. `npm start` and `npm test` call it.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to a terminal"
)]

mod balancer;
mod cluster;
mod conformance;
mod containers;
mod fuzz;
mod hub;
mod image;
mod model;
mod needs;
mod page;
mod paths;
mod process;
mod python;
mod release;
mod sealed;
mod servers;
mod skipped;
mod statics;
mod steps;
mod suites;
mod test;
mod tidy;
mod up;
mod wasm;

use clap::{CommandFactory, Parser, Subcommand};

/// Builds, starts and tests Clearseal.
#[derive(Parser)]
#[command(name = "cargo xtask", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Up(up::Options),
    Test(test::Options),
    Tidy(tidy::Options),
    Cluster(cluster::Options),
    Conformance(conformance::Options),
    Containers(containers::Options),
    Fuzz(fuzz::Options),
    Image(image::Options),
    Model(model::Options),
    Page(page::Options),
    Release(release::Options),
    Wasm(wasm::Options),
}

/// All verbs with their options.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

fn main() -> std::process::ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Up(options) => up::run(options),
        Verb::Test(options) => test::run(&options),
        Verb::Tidy(options) => tidy::run_all(&options),
        Verb::Cluster(options) => cluster::run(&options),
        Verb::Conformance(options) => conformance::run(&options),
        Verb::Containers(options) => containers::run_verb(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Image(options) => image::run(&options),
        Verb::Model(options) => model::run(&options),
        Verb::Page(options) => page::run(&options),
        Verb::Release(options) => release::run(&options),
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
