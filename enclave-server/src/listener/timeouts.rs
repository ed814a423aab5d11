//! Timeouts of a connection. A peer that neither reads nor writes occupies a descriptor, and memory for an answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A connection without traffic in either direction is closed after this time. The relay closes idle ones earlier.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Least rate at which an answer has to be read. [`GRACE`] starts again as long as the rate is met. Without it a reader of a byte
/// now and then would hold four megabytes for hours.
const LEAST_BYTES_A_SECOND: u64 = 64 * 1024;
const GRACE: Duration = Duration::from_secs(10);

/// The timers of one connection.
pub(super) struct Timeouts {
    idle: Duration,
    reading: Timer,
    writing: Timer,
}

impl Timeouts {
    pub(super) fn new(idle: Duration) -> Self {
        Self {
            idle,
            reading: Timer::default(),
            writing: Timer::default(),
        }
    }

    /// Updates the timers after an attempt to read, which returned `count` bytes.
    pub(super) fn after_read(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<()>>,
        count: usize,
    ) -> Poll<io::Result<()>> {
        if outcome.is_ready() {
            self.reading.stop();
            if count > 0 {
                // Another request has begun, so the last answer was read.
                self.writing.stop();
            }
            return outcome;
        }
        let end = Instant::now() + self.idle;
        self.reading.wait_until(cx, end).map(Err)
    }

    /// Updates the timers after an attempt to write.
    pub(super) fn after_write(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        // A write shows that the connection is not idle.
        self.reading.stop();
        match outcome {
            Poll::Ready(Ok(count)) => {
                let extension =
                    Duration::from_micros(count as u64 * 1_000_000 / LEAST_BYTES_A_SECOND);
                self.writing.extend(extension, Instant::now() + GRACE);
                outcome
            }
            Poll::Ready(Err(_)) => outcome,
            Poll::Pending => self.writing.wait_until(cx, Instant::now() + GRACE).map(Err),
        }
    }
}

/// A timer that is created when waiting begins.
#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    fn stop(&mut self) {
        self.0 = None;
    }

    /// Waits until `end`, or until the end that is already set.
    fn wait_until(&mut self, cx: &mut Context<'_>, end: Instant) -> Poll<io::Error> {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        sleep.as_mut().poll(cx).map(|()| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                "nothing moved on the connection for too long",
            )
        })
    }

    /// Moves the end, if one is set, to `latest` at most.
    fn extend(&mut self, by: Duration, latest: Instant) {
        if let Some(sleep) = &mut self.0 {
            let end = (sleep.deadline() + by).min(latest);
            sleep.as_mut().reset(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const IDLE: Duration = Duration::from_secs(120);

    /// Whether a reader of `count` bytes at every `pause` is still connected after `rounds`.
    async fn stays_connected(count: usize, pause: Duration, rounds: usize) -> bool {
        let mut timeouts = Timeouts::new(IDLE);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..rounds {
            let pending = timeouts.after_write(&mut cx, Poll::Pending);
            if pending.is_ready() {
                return false;
            }
            tokio::time::sleep(pause).await;
            if timeouts.after_write(&mut cx, Poll::Pending).is_ready() {
                return false;
            }
            let _ = timeouts.after_write(&mut cx, Poll::Ready(Ok(count)));
        }
        true
    }

    #[tokio::test]
    async fn writing_creates_no_timer_until_it_waits() {
        let mut timeouts = Timeouts::new(IDLE);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timeouts.after_write(&mut cx, Poll::Ready(Ok(1))).is_ready());
        assert!(timeouts.writing.0.is_none());
    }

    #[tokio::test]
    async fn a_reader_of_a_byte_now_and_then_is_timed_out() {
        // Compares the stored deadlines, so that the test need not wait.
        let mut timeouts = Timeouts::new(IDLE);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timeouts.after_write(&mut cx, Poll::Pending).is_pending());
        let first = timeouts.writing.0.as_ref().unwrap().deadline();
        for _ in 0..100 {
            let _ = timeouts.after_write(&mut cx, Poll::Ready(Ok(1)));
            assert!(timeouts.after_write(&mut cx, Poll::Pending).is_pending());
        }
        let later = timeouts.writing.0.as_ref().unwrap().deadline();
        assert!(later - first < Duration::from_millis(10));
        let _ = timeouts.after_write(&mut cx, Poll::Ready(Ok(1 << 20)));
        let fast = timeouts.writing.0.as_ref().unwrap().deadline();
        assert!(fast <= Instant::now() + GRACE);
        assert!(stays_connected(1 << 20, Duration::from_millis(1), 3).await);
    }

    #[tokio::test]
    async fn writing_shows_that_a_connection_is_not_idle() {
        let mut timeouts = Timeouts::new(IDLE);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timeouts.after_read(&mut cx, Poll::Pending, 0).is_pending());
        assert!(timeouts.reading.0.is_some());
        let _ = timeouts.after_write(&mut cx, Poll::Ready(Ok(1)));
        assert!(timeouts.reading.0.is_none());
        // It waits until the next read; hyper polls both.
        assert!(timeouts.after_read(&mut cx, Poll::Pending, 0).is_pending());
        assert!(timeouts.reading.0.is_some());
    }
}
