//! A transport with an open session, measured one operation at a time.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::connection::Connector;
use crate::transport::{End, Transport, TransportInfo};

/// A transport in a comparison. All times are in milliseconds.
pub trait Contender {
    /// Describes the transport.
    fn info(&self) -> TransportInfo;

    /// Opens a session over a new connection; ends when both ends have it.
    ///
    /// # Errors
    /// Errors of the transport.
    fn establish(&mut self, runtime: &Runtime, connector: &Connector) -> Result<f64>;

    /// Opens a session over a new connection; ends when the client has received the first echo.
    ///
    /// # Errors
    /// Those of the transport.
    fn first_message(
        &mut self,
        runtime: &Runtime,
        connector: &Connector,
        payload: &Bytes,
    ) -> Result<f64>;

    /// Opens a session, closes it, and opens another over a new connection.
    ///
    /// # Errors
    /// Those of the transport.
    fn reconnect(&mut self, runtime: &Runtime, connector: &Connector) -> Result<f64>;

    /// Opens a session and keeps it. The peer echoes messages (`echo`), or only receives them.
    ///
    /// # Errors
    /// Those of the transport.
    fn open(&mut self, runtime: &Runtime, connector: &Connector, echo: bool) -> Result<()>;

    /// Measures one round trip over the kept session, after `untimed` others.
    ///
    /// # Errors
    /// Those of the transport.
    fn round_trip(&mut self, runtime: &Runtime, payload: &Bytes, untimed: usize) -> Result<f64>;

    /// Sends `count` messages over the kept session; ends when the peer has received the last one.
    ///
    /// # Errors
    /// Those of the transport.
    fn burst(&mut self, runtime: &Runtime, payload: &Bytes, count: usize) -> Result<f64>;
}

/// Implements [`Contender`] for a transport.
pub struct SessionContender<T: Transport> {
    transport: T,
    session: Option<OpenSession<T::End>>,
}

enum OpenSession<E> {
    Echoing(E, JoinHandle<()>),
    Ends(E, E),
}

impl<T: Transport> SessionContender<T> {
    /// A contender for `transport`.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            session: None,
        }
    }

    async fn pair(&mut self, connector: &Connector) -> Result<(T::End, T::End)> {
        let (near, far) = connector.pair().await?;
        self.transport.establish(near, far).await
    }
}

impl<T: Transport> Contender for SessionContender<T> {
    fn info(&self) -> TransportInfo {
        self.transport.info()
    }

    fn establish(&mut self, runtime: &Runtime, connector: &Connector) -> Result<f64> {
        runtime.block_on(async {
            let begun = Instant::now();
            let ends = self.pair(connector).await?;
            let time = milliseconds(begun);
            drop(ends);
            Ok(time)
        })
    }

    fn first_message(
        &mut self,
        runtime: &Runtime,
        connector: &Connector,
        payload: &Bytes,
    ) -> Result<f64> {
        runtime.block_on(async {
            let begun = Instant::now();
            let (mut near, mut far) = self.pair(connector).await?;
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

    fn reconnect(&mut self, runtime: &Runtime, connector: &Connector) -> Result<f64> {
        runtime.block_on(async {
            let begun = Instant::now();
            let (mut near, mut far) = self.pair(connector).await?;
            tokio::try_join!(near.close(), far.wait_closed())?;
            drop((near, far));
            let ends = self.pair(connector).await?;
            let time = milliseconds(begun);
            drop(ends);
            Ok(time)
        })
    }

    fn open(&mut self, runtime: &Runtime, connector: &Connector, echo: bool) -> Result<()> {
        if let Some(OpenSession::Echoing(_, task)) = self.session.take() {
            task.abort();
        }
        let (near, mut far) = runtime.block_on(self.pair(connector))?;
        self.session = Some(match echo {
            false => OpenSession::Ends(near, far),
            true => {
                let task = runtime.spawn(async move { while far.echo().await.is_ok() {} });
                OpenSession::Echoing(near, task)
            }
        });
        Ok(())
    }

    fn round_trip(&mut self, runtime: &Runtime, payload: &Bytes, untimed: usize) -> Result<f64> {
        let Some(OpenSession::Echoing(near, _)) = &mut self.session else {
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
        let Some(OpenSession::Ends(near, far)) = &mut self.session else {
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

impl<T: Transport> Drop for SessionContender<T> {
    fn drop(&mut self) {
        if let Some(OpenSession::Echoing(_, task)) = &self.session {
            task.abort();
        }
    }
}

pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
