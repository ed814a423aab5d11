//! AWS's parent waits for one byte on CID 3, port 9000, before it reports an enclave as started, and sends the same byte back.
//! Elsewhere nothing listens there or waits for it.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use vsock::{VsockAddr, VsockStream};

const PARENT: u32 = 3;
const PORT: u32 = 9000;
const BEAT: u8 = 0xb7;
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(5);

/// Sends it in another thread: a missing parent must not delay the server.
pub(crate) fn send() {
    thread::spawn(|| {
        for _ in 0..ATTEMPTS {
            match beat() {
                Ok(true) => return println!("init: the parent heard the heartbeat"),
                Ok(false) => {
                    return println!("init: the parent answered the heartbeat with something else");
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
        println!("init: no parent listens for a heartbeat, which is so outside AWS");
    });
}

fn beat() -> std::io::Result<bool> {
    let mut parent = VsockStream::connect(&VsockAddr::new(PARENT, PORT))?;
    parent.set_read_timeout(Some(ANSWER))?;
    parent.write_all(&[BEAT])?;
    let mut answer = [0];
    parent.read_exact(&mut answer)?;
    Ok(answer == [BEAT])
}
