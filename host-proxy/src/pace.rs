//! Ends connections whose client reads too slowly, and delays those that send too fast.
//!
//! Each connection has an allowance of time. Time in which the client reads nothing is subtracted from it; bytes that the client
//! reads add to it, up to its first value. So a pause as long as the allowance is accepted, and a rate below [`MIN_RATE`] is not.
//!
//! Where a rate is set, bytes that a source sends beyond it are read later.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::rate::Rates;
use crate::source::Source;

/// Bytes a second that a client has to send or read on average, once its allowance is used up.
pub(crate) const MIN_RATE: u32 = 4 << 10;

/// Returns the longest time that a client may take for `bytes`.
pub(crate) fn time_for(bytes: usize) -> Duration {
    Duration::from_secs(bytes as u64) / MIN_RATE
}

/// A stream whose writes fail with [`io::ErrorKind::TimedOut`] when its other end reads too slowly.
pub(crate) struct Paced<S> {
    inner: S,
    allowance: Duration,
    /// Rest of the allowance.
    left: Duration,
    /// Since when the other end has read nothing.
    blocked: Option<Instant>,
    /// Whether bytes wait for the other end to read.
    waiting: Arc<AtomicBool>,
    timer: Pin<Box<Sleep>>,
    /// Counts the bytes that the other end sends.
    rate: Option<(Rates, Source)>,
    /// Ends when the source may send again.
    delay: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// `allowance` is the time for which the other end may read nothing.
    pub(crate) fn new(inner: S, allowance: Duration) -> Self {
        Self {
            inner,
            allowance,
            left: allowance,
            blocked: None,
            waiting: Arc::default(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            rate: None,
            delay: None,
        }
    }

    /// Tells `waiting` whether bytes wait for the other end to read.
    pub(crate) fn tell(mut self, waiting: Arc<AtomicBool>) -> Self {
        self.waiting = waiting;
        self
    }

    /// Limits reading to the source's rate.
    pub(crate) fn with_rate(mut self, rates: Rates, source: Source) -> Self {
        self.rate = Some((rates, source));
        self
    }

    fn account<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        written: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        self.waiting.store(polled.is_pending(), Ordering::Relaxed);
        match polled {
            Poll::Ready(outcome) => {
                if let Some(since) = self.blocked.take() {
                    self.left = self.left.saturating_sub(since.elapsed());
                }
                if let Ok(outcome) = &outcome {
                    self.left = (self.left + time_for(written(outcome))).min(self.allowance);
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                if self.blocked.is_none() {
                    let now = Instant::now();
                    self.blocked = Some(now);
                    self.timer.as_mut().reset(now + self.left);
                }
                self.timer
                    .as_mut()
                    .poll(context)
                    .map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let paced = self.get_mut();
        if let Some(delay) = &mut paced.delay {
            ready!(delay.as_mut().poll(context));
            paced.delay = None;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut paced.inner).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        if let Some((rates, source)) = &paced.rate {
            let resume = rates.count(*source, read);
            paced.delay = resume.map(|resume| Box::pin(tokio::time::sleep_until(resume)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let paced = self.get_mut();
        let polled = Pin::new(&mut paced.inner).poll_write(context, bytes);
        paced.account(context, polled, |written| *written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let paced = self.get_mut();
        let polled = Pin::new(&mut paced.inner).poll_write_vectored(context, slices);
        paced.account(context, polled, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let paced = self.get_mut();
        let polled = Pin::new(&mut paced.inner).poll_flush(context);
        paced.account(context, polled, |()| 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let paced = self.get_mut();
        let polled = Pin::new(&mut paced.inner).poll_shutdown(context);
        paced.account(context, polled, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const ALLOWANCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_cut_off_after_its_allowance() {
        let (near, _far) = tokio::io::duplex(1024);
        let begun = Instant::now();
        let outcome = Paced::new(near, ALLOWANCE).write_all(&[0; 4096]).await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_cut_off_and_a_slow_reader_is_served() {
        for (bytes_a_second, served) in [(1, false), (1024, false), (8 << 10, true)] {
            let (near, mut far) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                let mut taken = vec![0; bytes_a_second];
                while far.read_exact(&mut taken).await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                // Kept open: a closed end is another error.
                std::future::pending::<()>().await;
            });
            let answer = vec![0; 256 << 10];
            let outcome = Paced::new(near, ALLOWANCE).write_all(&answer).await;
            assert_eq!(outcome.is_ok(), served, "{bytes_a_second} B/s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_wait_until_they_are_read() {
        let (near, mut far) = tokio::io::duplex(1024);
        let waiting = Arc::<AtomicBool>::default();
        let mut paced = Paced::new(near, ALLOWANCE).tell(waiting.clone());
        paced.write_all(&[0; 1024]).await.unwrap();
        assert!(!waiting.load(Ordering::Relaxed));
        let rest = tokio::spawn(async move { paced.write_all(&[0; 1024]).await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(waiting.load(Ordering::Relaxed));
        far.read_exact(&mut [0; 2048]).await.unwrap();
        rest.await.unwrap().unwrap();
        assert!(!waiting.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_keeps_its_allowance() {
        let (near, mut far) = tokio::io::duplex(1024);
        let mut paced = Paced::new(near, ALLOWANCE);
        for _ in 0..3 {
            paced.write_all(&[0; 512]).await.unwrap();
            far.read_exact(&mut [0; 512]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_connections_of_a_source_share_its_rate_and_lose_no_byte() {
        let rates = Rates::new(1 << 20);
        let begun = Instant::now();
        let connections = (0..4_u8).map(|number| {
            let (near, mut far) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move { far.write_all(&vec![number; 2 << 20]).await });
            let source = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
            let mut near = Paced::new(near, ALLOWANCE).with_rate(rates.clone(), source);
            tokio::spawn(async move {
                let mut read = Vec::new();
                near.read_to_end(&mut read).await.unwrap();
                assert!(read.len() == 2 << 20 && read.iter().all(|byte| *byte == number));
            })
        });
        for connection in connections.collect::<Vec<_>>() {
            connection.await.unwrap();
        }
        // 8 MiB, without the burst and the last read.
        let took = begun.elapsed().as_secs_f64();
        assert!((7.5..8.0).contains(&took), "{took}");
    }
}
