//! Process 1 of an enclave. Mounts what the server needs, brings up the loopback, stirs the kernel's random numbers with the
//! NSM's, tells AWS's parent that the enclave is up, runs one program, and ends the enclave with it. There is no shell, and
//! nothing is read but two files of the measured image: `/cmd` and `/env`, one item a line.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "the console is the only place to say anything"
)]

mod entropy;
mod heartbeat;
mod mounts;
mod network;
mod program;

use std::time::Duration;

/// The console's driver writes what was said before the machine goes.
const LAST_WORDS: Duration = Duration::from_millis(200);

fn main() {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        println!("init: only for process 1 of an enclave; nothing was done");
        std::process::exit(2);
    }
    match run() {
        Ok(status) => println!("init: the server ended: {status}"),
        Err(error) => println!("init: {error}"),
    }
    std::thread::sleep(LAST_WORDS);
    // A hypervisor that restarts an enclave ends it.
    if let Err(error) = rustix::system::reboot(rustix::system::RebootCommand::Restart) {
        println!("init: the enclave does not end: {error}");
    }
    // The kernel panics when process 1 ends, which ends the enclave too.
}

fn run() -> Result<String, InitError> {
    mounts::early()?;
    let program = program::Program::read()?;
    mounts::enter()?;
    // Without a loopback or an NSM the server says itself what it lacks.
    match network::loopback() {
        Ok(()) => println!("init: loopback up"),
        Err(error) => println!("init: no loopback: {error}"),
    }
    match entropy::stir() {
        Ok(bytes) => println!("init: {bytes} random bytes of the NSM mixed in"),
        Err(error) => println!("init: no random bytes of the NSM: {error}"),
    }
    heartbeat::send();
    rustix::thread::set_no_new_privs(true).map_err(InitError::step("no_new_privs"))?;
    program.run()
}

/// Why the enclave cannot be prepared.
#[derive(Debug, thiserror::Error)]
enum InitError {
    /// The kernel refused a step.
    #[error(
        "INIT_STEP: {step}: {source}; the kernel lacks something, build it with image/kernel/enclave.config"
    )]
    Step {
        step: &'static str,
        source: std::io::Error,
    },
    /// A file of the image is missing or malformed.
    #[error("INIT_IMAGE: {0}; build the image again with cargo xtask image build")]
    Image(&'static str),
}

impl InitError {
    fn step<E: Into<std::io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step {
            step,
            source: source.into(),
        }
    }
}
