//! One connection to the parent, with timeouts on every call.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tokio_vsock::VsockAddr;
use vsock::VsockStream;

use super::{ParentAddress, ParentError, Timeouts};

/// A socket whose every call ends within its timeouts.
pub(super) struct Connection {
    socket: Socket,
    timeouts: Timeouts,
    until: Instant,
    /// Time spent in reads, and bytes received, since the rate was last checked.
    waited: Duration,
    received: u64,
}

enum Socket {
    Vsock(VsockStream),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A write of more than 32 KiB from a guest to its host can stall forever, because of a mismatch in virtio-vsock.
const WRITE_MAX: usize = 16 * 1024;

impl Connection {
    pub(super) fn open(
        address: &ParentAddress,
        timeouts: Timeouts,
        until: Instant,
    ) -> Result<Self, ParentError> {
        let time = remaining(until)?.min(timeouts.stall);
        let socket = match address {
            // The kernel's own timeout is two seconds.
            ParentAddress::Vsock { cid, port } => {
                VsockStream::connect(&VsockAddr::new(*cid, *port)).map(Socket::Vsock)
            }
            ParentAddress::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
            ParentAddress::Tcp(address) => TcpStream::connect_timeout(address, time)
                .and_then(|stream| stream.set_nodelay(true).map(|()| Socket::Tcp(stream))),
        };
        let unreachable = |source| ParentError::Unreachable {
            address: address.clone(),
            source,
        };
        let socket = socket.map_err(unreachable)?;
        let connection = Self {
            socket,
            timeouts,
            until,
            waited: Duration::ZERO,
            received: 0,
        };
        connection.set_write_timeout(time).map_err(unreachable)?;
        Ok(connection)
    }

    /// The moment by which the head of an answer has to have arrived.
    pub(super) fn head_due(&self) -> Instant {
        self.until.min(Instant::now() + self.timeouts.stall)
    }

    /// Reads available bytes; waits until `due` at most.
    pub(super) fn read_by(
        &mut self,
        buffer: &mut [u8],
        due: Instant,
    ) -> Result<usize, ParentError> {
        let timeout_error = |connection: &Self| match due < connection.until {
            true => ParentError::Stalled(connection.timeouts.stall),
            false => ParentError::Deadline,
        };
        loop {
            let time = due.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Err(timeout_error(self));
            }
            self.set_read_timeout(time).map_err(ParentError::Broken)?;
            match self.receive(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(timeout_error(self)),
                Err(error) => return Err(ParentError::Broken(error)),
            }
        }
    }

    /// Reads a part of a body, and checks the rate.
    pub(super) fn read_paced(&mut self, buffer: &mut [u8]) -> Result<usize, ParentError> {
        let begun = Instant::now();
        let due = self.until.min(begun + self.timeouts.stall);
        let count = self.read_by(buffer, due)?;
        self.waited += begun.elapsed();
        self.received += count as u64;
        if self.waited >= self.timeouts.stall {
            let rate = u128::from(self.received) * 1000 / self.waited.as_millis().max(1);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            if rate < u64::from(self.timeouts.least_rate) {
                let least = self.timeouts.least_rate;
                return Err(ParentError::TooSlow { rate, least });
            }
            (self.waited, self.received) = (Duration::ZERO, 0);
        }
        Ok(count)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.socket {
            Socket::Vsock(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tcp(stream) => stream.read(buffer),
        }
    }

    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match &self.socket {
            Socket::Vsock(stream) => stream.set_read_timeout(Some(time)),
            Socket::Unix(stream) => stream.set_read_timeout(Some(time)),
            Socket::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

    fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        match &self.socket {
            Socket::Vsock(stream) => stream.set_write_timeout(Some(time)),
            Socket::Unix(stream) => stream.set_write_timeout(Some(time)),
            Socket::Tcp(stream) => stream.set_write_timeout(Some(time)),
        }
    }
}

/// Each write may take the whole timeout, and all of them together end at the deadline.
impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_MAX)];
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if left < self.timeouts.stall {
            self.set_write_timeout(left)?;
        }
        match &mut self.socket {
            Socket::Vsock(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn remaining(until: Instant) -> Result<Duration, ParentError> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ParentError::Deadline),
        false => Ok(left),
    }
}

/// Linux returns `EAGAIN` when a socket's timeout ends.
fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
