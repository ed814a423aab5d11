//! Round trips over the sockets that stand in for vsock where there is none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};

use super::{Run, number, text};

/// Payloads of the reports.
const SIZES: [usize; 4] = [64, 1 << 10, 1 << 16, 1 << 20];

pub(super) fn round_trips(run: &mut Run) -> Result<()> {
    let (near, far) = UnixStream::pair()?;
    through(run, "unix", near, far)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    through(run, "tcp", near, far)?;
    run.absent(
        "transport.rtt",
        "vsock is not measured: there is none outside of a Nitro instance",
    );
    Ok(())
}

fn through<S: Read + Write + Send + 'static>(
    run: &mut Run,
    name: &str,
    mut near: S,
    mut far: S,
) -> Result<()> {
    // The other side sends back what it gets; it ends when the near side is dropped.
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut header = [0; 8];
        let mut payload = Vec::new();
        while far.read_exact(&mut header).is_ok() {
            let length = u64::from_le_bytes(header);
            payload.resize(usize::try_from(length).unwrap_or(0), 0);
            far.read_exact(&mut payload)?;
            far.write_all(&payload)?;
        }
        Ok(())
    });
    for size in SIZES {
        let parameters = [("payload_bytes", number(size)), ("transport", text(name))];
        let payload = vec![7u8; size];
        let mut back = vec![0u8; size];
        let sample = run.time("transport.rtt", &parameters, || {
            near.write_all(&(size as u64).to_le_bytes())?;
            near.write_all(&payload)?;
            near.read_exact(&mut back).context("the echo ended")
        })?;
        if size == 1 << 20 {
            // As the reports count an upload: its bytes over the whole round trip.
            let upload = ("direction", text("upload"));
            let both = ("pattern", text("round trip, both ways"));
            for (parameter, bytes) in [(upload, size), (both, 2 * size)] {
                let parameters = [("transport", text(name)), parameter];
                run.throughput("transport.throughput", &parameters, bytes, &sample);
            }
        }
    }
    drop(near);
    echo.join()
        .map_err(|_| anyhow::anyhow!("the echo panicked"))??;
    Ok(())
}
