//! A client with a runtime of its own, for callers that wait and for event loops.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use clearseal_client::{Client, Error, MAX_CANDIDATES, PolicySource, State};
use http::{HeaderName, HeaderValue, Method, Request};
use protocol::items::{ItemsError, VectorProof, prove};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error;
use crate::judge::read_policy;

/// How long a caller that waits is deaf to signals, such as that of Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);
/// Threads that drive connections. Sealing of large requests has threads of its own.
const WORKERS: usize = 2;

/// Verified upstreams, and the threads that talk to them.
#[pyclass(frozen, module = "clearseal._clearseal")]
pub(crate) struct NativeSession {
    client: Client,
    runtime: Mutex<Option<Runtime>>,
    /// A forked process has the memory of this one, and none of its threads.
    process: u32,
}

/// An answer that was opened and whose receipt was verified.
#[pyclass(frozen, module = "clearseal._clearseal")]
pub(crate) struct Answer(clearseal_client::Answer);

/// A request on its way.
#[pyclass(frozen, module = "clearseal._clearseal")]
pub(crate) struct Task(JoinHandle<()>);

#[pymethods]
impl NativeSession {
    #[new]
    fn new(
        py: Python<'_>,
        urls: Vec<String>,
        policy: Option<&[u8]>,
        allow_simulated: bool,
        timeout: f64,
        candidates: usize,
    ) -> PyResult<Self> {
        if !(1..=MAX_CANDIDATES).contains(&candidates) {
            return Err(PyValueError::new_err(format!(
                "candidates is a number from 1 to {MAX_CANDIDATES}"
            )));
        }
        let Some((first, others)) = urls.split_first() else {
            return Err(error::client(py, &Error::NoUpstream));
        };
        let mut client = Client::builder(first)
            .accept_simulated(allow_simulated)
            .timeout(seconds(timeout)?)
            .candidates(candidates);
        for url in others {
            client = client.upstream(url);
        }
        if let Some(policy) = policy {
            client = client.policy(read_policy(py, policy)?);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("clearseal")
            .enable_all()
            .build();
        Ok(Self {
            client: client.build().map_err(|error| error::client(py, &error))?,
            runtime: Mutex::new(Some(runtime.map_err(|_| error::internal(py))?)),
            process: std::process::id(),
        })
    }

    /// Verifies. Returns the report of the enclave that will be asked first.
    fn connect(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.client.clone();
        let session = self.wait(py, async move { client.connect().await })?;
        let session = session.map_err(|error| error::client(py, &error))?;
        serde_json::to_string(session.report()).map_err(|_| error::internal(py))
    }

    /// Address, state and end of the proof in Unix milliseconds of each upstream.
    fn states(&self) -> Vec<(String, &'static str, Option<u64>)> {
        let states = self.client.states().into_iter();
        states
            .map(|(url, state): (String, State)| {
                let until = state.session().map(|session| session.valid_until().0);
                (url, state.word(), until)
            })
            .collect()
    }

    /// Replaces the trust policy. Returns how many sessions go on, and how many ended.
    fn set_policy(&self, py: Python<'_>, policy: &[u8]) -> PyResult<(usize, usize)> {
        // Says so where the session is closed, or is another process's.
        self.handle(py)?;
        let policy = read_policy(py, policy)?;
        let change = py.detach(|| self.client.set_policy(policy));
        Ok((change.kept, change.ended))
    }

    /// Looks at a file of the trust policy from now on, until the session is closed.
    fn follow_policy(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let client = self.client.clone();
        self.handle(py)?
            .spawn(async move { client.follow(PolicySource::file(path), |_| ()).await });
        Ok(())
    }

    /// Code, message and remedy of what keeps the next trust policy from being taken.
    fn policy_problem(&self) -> Option<(String, String, String)> {
        let problem = self.client.policy_status().problem?;
        Some((problem.code, problem.message, problem.remedy))
    }

    /// Seals a request, waits, and opens its answer.
    fn fetch(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        content: &[u8],
        timeout: Option<f64>,
    ) -> PyResult<Answer> {
        let request = request(method, path, &headers, content)?;
        let (client, timeout) = (self.client.clone(), timeout.map(seconds).transpose()?);
        let outcome = self.wait(py, exchange(client, request, timeout))?;
        outcome
            .map(Answer)
            .map_err(|failure| failure.into_error(py))
    }

    /// The same for an event loop: `done` is called from another thread with an answer or an exception.
    #[pyo3(signature = (method, path, headers, content, timeout, done))]
    #[allow(clippy::too_many_arguments, reason = "called in one place")]
    fn begin(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        content: &[u8],
        timeout: Option<f64>,
        done: Py<PyAny>,
    ) -> PyResult<Task> {
        let request = request(method, path, &headers, content)?;
        let (client, timeout) = (self.client.clone(), timeout.map(seconds).transpose()?);
        let task = self.handle(py)?.spawn(async move {
            let outcome = exchange(client, request, timeout).await;
            // The interpreter's lock may be held for long; that must not keep other connections waiting.
            let told = tokio::task::spawn_blocking(move || {
                // None where the interpreter is ending: nobody waits any more.
                Python::try_attach(|py| match outcome {
                    Ok(answer) => done.call1(py, (Answer(answer),)),
                    Err(failure) => done.call1(py, (failure.into_error(py).into_value(py),)),
                })
            });
            // What a callback raises has no caller to reach.
            let _ = told.await;
        });
        Ok(Task(task))
    }

    /// Ends the threads. What is on its way is given up.
    fn close(&self) {
        let runtime = self.locked().take();
        if let Some(runtime) = runtime {
            match std::process::id() == self.process {
                true => runtime.shutdown_background(),
                // Its threads are in another process, and waiting for them would take for ever.
                false => std::mem::forget(runtime),
            }
        }
    }
}

impl Drop for NativeSession {
    fn drop(&mut self) {
        self.close();
    }
}

impl NativeSession {
    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, py: Python<'_>) -> PyResult<Handle> {
        if std::process::id() != self.process {
            return Err(error::other(
                py,
                "SESSION_FORKED",
                "the session was made in the process that this one was forked from",
                "Connect in each process, after the fork.",
            ));
        }
        let handle = self
            .locked()
            .as_ref()
            .map(|runtime| runtime.handle().clone());
        handle.ok_or_else(|| {
            error::other(
                py,
                "SESSION_CLOSED",
                "the session is closed",
                "Connect again.",
            )
        })
    }

    /// Waits without the interpreter's lock, and looks for signals now and then.
    fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> PyResult<T> {
        let handle = self.handle(py)?;
        let mut task = handle.spawn(work);
        loop {
            let slice =
                || handle.block_on(async { tokio::time::timeout(SIGNALS, &mut task).await });
            if let Ok(outcome) = py.detach(slice) {
                return outcome.map_err(|_| error::internal(py));
            }
            if let Err(signal) = py.check_signals() {
                task.abort();
                return Err(signal);
            }
        }
    }
}

#[pymethods]
impl Answer {
    /// HTTP status inside the seal.
    #[getter]
    fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// Fields inside the seal.
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        self.0.headers().to_vec()
    }

    /// Content inside the seal.
    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.content())
    }

    /// Whether there is a receipt: an inference took place.
    #[getter]
    fn has_receipt(&self) -> bool {
        self.0.receipt().is_some()
    }

    /// The audit bundle in JSON; `content` adds request and answer. `None` where there is no receipt.
    #[pyo3(signature = (*, content = false))]
    fn bundle(&self, py: Python<'_>, content: bool) -> PyResult<Option<String>> {
        let Some(bundle) = self.0.bundle(content) else {
            return Ok(None);
        };
        bundle.to_json().map(Some).map_err(|_| error::internal(py))
    }

    /// The line of evidence, and the line of each item's proof.
    fn proofs(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let bundle = self.0.bundle(true).ok_or(ItemsError::Absent);
        let proved = py.detach(|| {
            let (evidence, proofs) = prove(&bundle?)?;
            let lines = proofs.iter().map(VectorProof::to_json).collect();
            Ok((evidence.to_json(), lines))
        });
        proved.map_err(|error| error::items(py, &error))
    }
}

#[pymethods]
impl Task {
    /// Gives the request up. The enclave may still compute it.
    fn cancel(&self) {
        self.0.abort();
    }
}

/// Why there is no answer.
enum Failure {
    Client(Error),
    Late,
}

impl Failure {
    fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Client(error) => error::client(py, &error),
            Self::Late => error::late(py),
        }
    }
}

async fn exchange(
    client: Client,
    request: Request<Bytes>,
    timeout: Option<Duration>,
) -> Result<clearseal_client::Answer, Failure> {
    let answer = async { client.fetch(request).await.map_err(Failure::Client) };
    match timeout {
        None => answer.await,
        Some(timeout) => tokio::time::timeout(timeout, answer)
            .await
            .unwrap_or(Err(Failure::Late)),
    }
}

fn request(
    method: &str,
    path: &str,
    headers: &[(String, String)],
    content: &[u8],
) -> PyResult<Request<Bytes>> {
    let invalid = |what: &str| PyValueError::new_err(format!("{what} is not valid"));
    let mut request = Request::new(Bytes::copy_from_slice(content));
    *request.method_mut() =
        Method::from_bytes(method.as_bytes()).map_err(|_| invalid("the method"))?;
    *request.uri_mut() = path.parse().map_err(|_| invalid("the path"))?;
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str());
        let value = HeaderValue::try_from(value.as_str());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(invalid("a field"));
        };
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err("a timeout is a number of seconds, and not negative"))
}
