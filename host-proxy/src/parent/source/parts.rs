//! A body that reads a range of a container in parts, several at once, and sends them in order.

use std::future::Future as _;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

use super::{Container, SourceError};

/// Bytes of one read.
const PART: u64 = 1 << 20;

type Part = Result<Bytes, SourceError>;

/// The body. Memory holds the parts that are read at once, and one that is sent.
pub(crate) struct Parts {
    /// Reads that are in progress or done, in order.
    queue: Receiver<JoinHandle<Part>>,
    first: Option<JoinHandle<Part>>,
    left: u64,
}

impl Parts {
    /// Starts reading `range`, which is inside the container.
    pub(crate) fn begin(container: Arc<dyn Container>, range: Range<u64>) -> Self {
        // One part waits in `first` while the queue is full.
        let (sender, queue) = channel(container.parallel().saturating_sub(1).max(1));
        let left = range.end - range.start;
        tokio::spawn(async move {
            let mut at = range.start;
            while at < range.end {
                // An error means that the body was dropped.
                let Ok(slot) = sender.reserve().await else {
                    return;
                };
                let part = at..(at + PART).min(range.end);
                at = part.end;
                let container = Arc::clone(&container);
                slot.send(tokio::spawn(async move { container.read(part).await }));
            }
        });
        Self {
            queue,
            first: None,
            left,
        }
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = SourceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SourceError>>> {
        let this = &mut *self;
        if this.first.is_none() {
            this.first = ready!(this.queue.poll_recv(context));
        }
        let Some(first) = &mut this.first else {
            return Poll::Ready(None);
        };
        let part = ready!(Pin::new(first).poll(context));
        this.first = None;
        let part =
            part.unwrap_or_else(|_| Err(SourceError::Unavailable("a read ended early".to_owned())));
        match &part {
            Ok(bytes) => this.left = this.left.saturating_sub(bytes.len() as u64),
            Err(error) => {
                tracing::warn!(code = "MODEL_UNAVAILABLE", %error, "a model's container broke off");
            }
        }
        Poll::Ready(Some(part.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
