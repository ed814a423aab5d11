//! A transport with the session that it keeps: one turn at a time.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::transport::{About, End, Transport};
use crate::wire::Dock;

/// A transport of any kind, as the contest sees it. Every time is in milliseconds.
pub trait Contender {
    /// Who it is.
    fn about(&self) -> About;

    /// Opens a session over a fresh connection, until both ends have it.
    ///
    /// # Errors
    /// Those of the transport; so with all of these.
    fn establish(&mut self, runtime: &Runtime, dock: &Dock) -> Result<f64>;

    /// Opens a session over a fresh connection, until the client has the first echo.
    ///
    /// # Errors
    /// Those of the transport.
    fn first_message(&mut self, runtime: &Runtime, dock: &Dock, payload: &Bytes) -> Result<f64>;

    /// Opens a session, ends it, and opens another one over another connection.
    ///
    /// # Errors
    /// Those of the transport.
    fn reconnect(&mut self, runtime: &Runtime, dock: &Dock) -> Result<f64>;

    /// Keeps a session, whose far end sends back what comes (`echo`), or takes it in.
    ///
    /// # Errors
    /// Those of the transport.
    fn open(&mut self, runtime: &Runtime, dock: &Dock, echo: bool) -> Result<()>;

    /// One round trip over the kept session, after others that do not count.
    ///
    /// # Errors
    /// Those of the transport.
    fn round_trip(&mut self, runtime: &Runtime, payload: &Bytes, untimed: usize) -> Result<f64>;

    /// So many messages one way over the kept session, until the far end has the last one.
    ///
    /// # Errors
    /// Those of the transport.
    fn burst(&mut self, runtime: &Runtime, payload: &Bytes, count: usize) -> Result<f64>;
}

/// A transport in the contest.
pub struct Lane<T: Transport> {
    transport: T,
    kept: Option<Kept<T::End>>,
}

enum Kept<E> {
    Echoing(E, JoinHandle<()>),
    Ends(E, E),
}

impl<T: Transport> Lane<T> {
    /// Takes part with `transport`.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            kept: None,
        }
    }

    async fn pair(&mut self, dock: &Dock) -> Result<(T::End, T::End)> {
        let (near, far) = dock.pair().await?;
        self.transport.establish(near, far).await
    }
}

impl<T: Transport> Contender for Lane<T> {
    fn about(&self) -> About {
        self.transport.about()
    }

    fn establish(&mut self, runtime: &Runtime, dock: &Dock) -> Result<f64> {
        runtime.block_on(async {
            let begun = Instant::now();
            let ends = self.pair(dock).await?;
            let time = milliseconds(begun);
            drop(ends);
            Ok(time)
        })
    }

    fn first_message(&mut self, runtime: &Runtime, dock: &Dock, payload: &Bytes) -> Result<f64> {
        runtime.block_on(async {
            let begun = Instant::now();
            let (mut near, mut far) = self.pair(dock).await?;
            let (length, ()) = tokio::try_join!(
                async {
                    near.send(payload).await?;
                    near.receive().await
                },
                far.echo()
            )?;
            let time = milliseconds(begun);
            ensure!(length == payload.len(), "another message came back");
            Ok(time)
        })
    }

    fn reconnect(&mut self, runtime: &Runtime, dock: &Dock) -> Result<f64> {
        runtime.block_on(async {
            let begun = Instant::now();
            let (mut near, mut far) = self.pair(dock).await?;
            tokio::try_join!(near.close(), far.closed())?;
            drop((near, far));
            let ends = self.pair(dock).await?;
            let time = milliseconds(begun);
            drop(ends);
            Ok(time)
        })
    }

    fn open(&mut self, runtime: &Runtime, dock: &Dock, echo: bool) -> Result<()> {
        if let Some(Kept::Echoing(_, task)) = self.kept.take() {
            task.abort();
        }
        let (near, mut far) = runtime.block_on(self.pair(dock))?;
        self.kept = Some(match echo {
            false => Kept::Ends(near, far),
            true => {
                let task = runtime.spawn(async move { while far.echo().await.is_ok() {} });
                Kept::Echoing(near, task)
            }
        });
        Ok(())
    }

    fn round_trip(&mut self, runtime: &Runtime, payload: &Bytes, untimed: usize) -> Result<f64> {
        let Some(Kept::Echoing(near, _)) = &mut self.kept else {
            anyhow::bail!("no echo was opened");
        };
        runtime.block_on(async {
            for _ in 0..untimed {
                near.send(payload).await?;
                near.receive().await?;
            }
            let begun = Instant::now();
            near.send(payload).await?;
            let length = near.receive().await?;
            let time = milliseconds(begun);
            ensure!(length == payload.len(), "another message came back");
            Ok(time)
        })
    }

    fn burst(&mut self, runtime: &Runtime, payload: &Bytes, count: usize) -> Result<f64> {
        let Some(Kept::Ends(near, far)) = &mut self.kept else {
            anyhow::bail!("no session was opened");
        };
        runtime.block_on(async {
            let begun = Instant::now();
            let send = async {
                for _ in 0..count {
                    near.send(payload).await?;
                }
                Ok::<_, anyhow::Error>(())
            };
            let receive = async {
                for _ in 0..count {
                    let length = far.receive().await?;
                    ensure!(length == payload.len(), "another message came");
                }
                Ok(())
            };
            tokio::try_join!(send, receive).context("a burst")?;
            Ok(milliseconds(begun))
        })
    }
}

impl<T: Transport> Drop for Lane<T> {
    fn drop(&mut self) {
        if let Some(Kept::Echoing(_, task)) = &self.kept {
            task.abort();
        }
    }
}

pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
