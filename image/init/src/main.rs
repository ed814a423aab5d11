//! Process 1 of an enclave. Mounts the server's file systems, sets up the loopback interface, mixes random numbers of the NSM
//! into the kernel's pool, tells AWS's parent that the enclave is up, runs one program, and ends the enclave with it. There is no
//! shell, and the only input is two files of the measured image: `/cmd` and `/env`, with one item per line.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the console is the only output")]

mod entropy;
mod heartbeat;
mod mounts;
mod network;
mod program;

use std::time::Duration;

/// Time for the console's driver to write its output before the machine stops.
const CONSOLE_FLUSH: Duration = Duration::from_millis(200);

fn main() {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        println!("init: only for process 1 of an enclave; nothing was done");
        std::process::exit(2);
    }
    match run() {
        Ok(status) => println!("init: the server ended: {status}"),
        Err(error) => println!("init: {error}"),
    }
    std::thread::sleep(CONSOLE_FLUSH);
    // A hypervisor that is asked to restart an enclave ends it.
    if let Err(error) = rustix::system::reboot(rustix::system::RebootCommand::Restart) {
        println!("init: the enclave does not end: {error}");
    }
    // The kernel panics when process 1 ends, which ends the enclave too.
}

fn run() -> Result<String, InitError> {
    mounts::early()?;
    let program = program::Program::read()?;
    mounts::enter()?;
    // Without a loopback interface or NSM, the server itself reports what is missing.
    match network::loopback() {
        Ok(()) => println!("init: loopback up"),
        Err(error) => println!("init: no loopback: {error}"),
    }
    match entropy::mix_in() {
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
