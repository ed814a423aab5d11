//! Bodies that are limited while they stream: nothing is collected, so nothing can pile up.

use axum::body::Body;
use bytes::{Buf as _, Bytes};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cut {
    #[error("the body is longer than the limit")]
    TooLarge,
    #[error("the body took longer than the limit")]
    TooSlow,
    #[error("the sender stopped")]
    Broken,
}

/// What became of a request's body; shared, for the client library swallows the reason of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fate {
    Sending,
    Sent,
    TooLarge,
    Broken,
}

/// The shared memory of a [`Fate`].
#[derive(Clone, Debug)]
pub(crate) struct Watch(Arc<AtomicU8>);

impl Watch {
    pub(crate) fn fate(&self) -> Fate {
        match self.0.load(Ordering::Acquire) {
            0 => Fate::Sending,
            1 => Fate::Sent,
            2 => Fate::TooLarge,
            _ => Fate::Broken,
        }
    }

    fn set(&self, fate: Fate) {
        self.0.store(fate as u8, Ordering::Release);
    }
}

/// A request's body on its way to the enclave, at most `left` bytes.
pub(crate) struct Upload {
    inner: Body,
    left: u64,
    watch: Watch,
}

impl Upload {
    pub(crate) fn new(inner: Body, limit: u64) -> (Self, Watch) {
        let start = if inner.is_end_stream() {
            Fate::Sent
        } else {
            Fate::Sending
        };
        let watch = Watch(Arc::new(AtomicU8::new(start as u8)));
        let upload = Self {
            inner,
            left: limit,
            watch: watch.clone(),
        };
        (upload, watch)
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let Poll::Ready(next) = polled else {
            return Poll::Pending;
        };
        let next = match next {
            None => None,
            Some(Err(_)) => Some(Err(Cut::Broken)),
            // Trailers are no part of the protocol, and would pass the list of headers by.
            Some(Ok(frame)) => frame
                .into_data()
                .ok()
                .map(|data| take(&mut self.left, data)),
        };
        match &next {
            None => self.watch.set(Fate::Sent),
            Some(Ok(_)) if self.inner.is_end_stream() => self.watch.set(Fate::Sent),
            Some(Ok(_)) => {}
            Some(Err(Cut::TooLarge)) => self.watch.set(Fate::TooLarge),
            Some(Err(_)) => self.watch.set(Fate::Broken),
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer's body on its way to the client, limited in bytes and time. It holds the request's place in the
/// concurrency limit until its end.
pub(crate) struct Download {
    inner: Incoming,
    left: u64,
    deadline: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Download {
    pub(crate) fn new(
        inner: Incoming,
        limit: u64,
        deadline: tokio::time::Instant,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let deadline = Box::pin(tokio::time::sleep_until(deadline));
        Self {
            inner,
            left: limit,
            deadline,
            _place: place,
        }
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(Cut::Broken))),
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(
                frame
                    .into_data()
                    .ok()
                    .map(|data| take(&mut self.left, data)),
            ),
            Poll::Pending => self
                .deadline
                .as_mut()
                .poll(context)
                .map(|()| Some(Err(Cut::TooSlow))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn take(left: &mut u64, data: Bytes) -> Result<Frame<Bytes>, Cut> {
    *left = left
        .checked_sub(data.remaining() as u64)
        .ok_or(Cut::TooLarge)?;
    Ok(Frame::data(data))
}
