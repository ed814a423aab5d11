//! `enclave-emulator`: boots an image, prints its console, and ends with the image, with its own standard input, or on a signal.
#![forbid(unsafe_code)]

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use enclave_emulator::{Machine, Parts, copy_console};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Boot an enclave image in an emulated Nitro machine
///
/// Documents of the emulated NSM are not signed, and nothing is isolated: use it to test that an image boots, not for protection
#[derive(Parser)]
#[command(name = "enclave-emulator", version, max_term_width = 100)]
struct Arguments {
    /// Enclave image
    image: PathBuf,
    /// Unix socket to create, through which the parent reaches the enclave: `host-proxy --enclave hybrid:SOCKET:5005`
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Memory in MiB, including unpacked ramdisks
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(128..=16_384))]
    memory: u32,
    /// End when standard input ends, for programs that start this one
    #[arg(long)]
    end_with_input: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (send, stop) = channel();
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    let signalled = send.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The receiver is gone only while this program ends.
            signalled.send(()).ok();
        }
    });
    if arguments.end_with_input {
        std::thread::spawn(move || {
            let mut byte = [0];
            while let Ok(1..) = std::io::stdin().read(&mut byte) {}
            send.send(()).ok();
        });
    }
    let parts = Parts::find()?;
    let (mut machine, console) = Machine::boot(
        &parts,
        &arguments.image,
        &arguments.socket,
        arguments.memory,
    )?;
    let copy = std::thread::spawn(|| copy_console(console, std::io::stdout()));
    let status = loop {
        if let Some(status) = machine.ended()? {
            break Some(status);
        }
        if stop.recv_timeout(POLL).is_ok() {
            break None;
        }
    };
    drop(machine);
    // The console ends with the machine; wait for its last output.
    drop(copy.join());
    // Otherwise the next machine could not use the name.
    match std::fs::remove_file(&arguments.socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            eprintln!("cannot remove {}: {error}", arguments.socket.display());
        }
        _ => {}
    }
    Ok(match status {
        Some(status) if !status.success() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

const POLL: Duration = Duration::from_millis(20);
