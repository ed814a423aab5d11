//! A client with its own runtime, for blocking callers and event loops.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use attestation::{ModelIdentity, ModelPin};
use bytes::Bytes;
use clearseal_client::{Client, Error, MAX_CANDIDATES, PolicySource, State};
use http::{HeaderName, HeaderValue, Method, Request};
use protocol::items::{ItemsError, VectorProof, prove, prove_pairs};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error;
use crate::judge::read_policy;

/// Interval at which a blocking call checks for signals, such as Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Threads that drive connections. Large requests are sealed in other threads.
const WORKERS: usize = 2;

/// Verified upstreams, and the threads for their connections.
#[pyclass(frozen, module = "clearseal._clearseal")]
pub(crate) struct NativeSession {
    client: Client,
    runtime: Mutex<Option<Runtime>>,
    /// Process that made the session: a forked process copies its memory, but not its threads.
    process: u32,
}

/// A decrypted answer with a verified receipt.
#[pyclass(frozen, module = "clearseal._clearseal")]
pub(crate) struct Answer(clearseal_client::Answer);

/// A request in flight.
#[pyclass(frozen, module = "clearseal._clearseal")]
pub(crate) struct Task(JoinHandle<()>);

/// Name, version, SHA-256, dimension, longest text in tokens, and whether vectors have unit length.
type ModelFields = (String, String, [u8; 32], u32, u32, bool);

#[pymethods]
impl NativeSession {
    #[new]
    #[pyo3(signature = (urls, policy, allow_simulated, timeout, candidates, model = None))]
    fn new(
        py: Python<'_>,
        urls: Vec<String>,
        policy: Option<&[u8]>,
        allow_simulated: bool,
        timeout: f64,
        candidates: usize,
        model: Option<(String, [u8; 32])>,
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
        if let Some((id, sha256)) = model {
            client = client.model(ModelPin { id, sha256 });
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

    /// Verifies the upstreams. Returns the report about the enclave that will be used first.
    fn connect(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.client.clone();
        let session = self.wait(py, async move { client.connect().await })?;
        let session = session.map_err(|error| error::client(py, &error))?;
        serde_json::to_string(session.report()).map_err(|_| error::internal(py))
    }

    /// The models in the manifest of the enclave that is used first, the demanded one first.
    fn models(&self, py: Python<'_>) -> PyResult<Vec<ModelFields>> {
        let client = self.client.clone();
        let session = self.wait(py, async move { client.connect().await })?;
        let session = session.map_err(|error| error::client(py, &error))?;
        let manifest = session.manifest();
        let models = std::iter::once(&manifest.model).chain(&manifest.others);
        Ok(models.map(read_fields).collect())
    }

    /// Address, state, and expiry of the proof (Unix milliseconds) of each upstream.
    fn states(&self) -> Vec<(String, &'static str, Option<u64>)> {
        let states = self.client.states().into_iter();
        states
            .map(|(url, state): (String, State)| {
                let until = state.session().map(|session| session.valid_until().0);
                (url, state.word(), until)
            })
            .collect()
    }

    /// Replaces the trust policy. Returns how many sessions were kept, and how many ended.
    fn set_policy(&self, py: Python<'_>, policy: &[u8]) -> PyResult<(usize, usize)> {
        // Fails if the session is closed or belongs to another process.
        self.handle(py)?;
        let policy = read_policy(py, policy)?;
        let change = py.detach(|| self.client.set_policy(policy));
        Ok((change.kept, change.ended))
    }

    /// Follows a policy file until the session is closed.
    fn follow_policy(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let client = self.client.clone();
        self.handle(py)?
            .spawn(async move { client.follow(PolicySource::file(path), |_| ()).await });
        Ok(())
    }

    /// Code, message and remedy, if the latest trust policy could not be used.
    fn policy_problem(&self) -> Option<(String, String, String)> {
        let problem = self.client.policy_status().problem?;
        Some((problem.code, problem.message, problem.remedy))
    }

    /// Sends a sealed request and waits for its answer.
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

    /// [`fetch`](Self::fetch) for an event loop: calls `done` from another thread with an answer or an exception.
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
            // Blocking: the interpreter's lock may be held for long, and must not delay other connections.
            let told = tokio::task::spawn_blocking(move || {
                // None if the interpreter is shutting down.
                Python::try_attach(|py| match outcome {
                    Ok(answer) => done.call1(py, (Answer(answer),)),
                    Err(failure) => done.call1(py, (failure.into_error(py).into_value(py),)),
                })
            });
            // An exception of the callback has no caller.
            let _ = told.await;
        });
        Ok(Task(task))
    }

    /// Stops the threads. Requests in flight are abandoned.
    fn close(&self) {
        let runtime = self.locked().take();
        if let Some(runtime) = runtime {
            match std::process::id() == self.process {
                true => runtime.shutdown_background(),
                // After a fork the threads do not exist, so waiting for them would never end.
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

    /// Waits without the interpreter's lock, and checks for signals at intervals.
    fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> PyResult<T> {
        let handle = self.handle(py)?;
        let mut task = handle.spawn(work);
        loop {
            let slice = || {
                handle.block_on(async {
                    tokio::time::timeout(SIGNAL_CHECK_INTERVAL, &mut task).await
                })
            };
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
    /// HTTP status of the decrypted response.
    #[getter]
    fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// Headers of the decrypted response.
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        self.0.headers().to_vec()
    }

    /// Content of the decrypted response.
    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.content())
    }

    /// Whether there is a receipt, which means that an inference took place.
    #[getter]
    fn has_receipt(&self) -> bool {
        self.0.receipt().is_some()
    }

    /// The audit bundle as JSON; `content` adds request and answer. `None` if there is no receipt.
    #[pyo3(signature = (*, content = false))]
    fn bundle(&self, py: Python<'_>, content: bool) -> PyResult<Option<String>> {
        let Some(bundle) = self.0.bundle(content) else {
            return Ok(None);
        };
        bundle.to_json().map(Some).map_err(|_| error::internal(py))
    }

    /// The line of evidence, and one line of proof per item.
    fn proofs(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let bundle = self.0.bundle(true).ok_or(ItemsError::Absent);
        let proved = py.detach(|| {
            let bundle = bundle?;
            let (evidence, proofs) = match prove_pairs(&bundle) {
                Err(ItemsError::Absent) => prove(&bundle)?,
                proved => proved?,
            };
            let lines = proofs.iter().map(VectorProof::to_json).collect();
            Ok((evidence.to_json(), lines))
        });
        proved.map_err(|error| error::items(py, &error))
    }
}

#[pymethods]
impl Task {
    /// Aborts the request. The enclave may still compute it.
    fn cancel(&self) {
        self.0.abort();
    }
}

fn read_fields(model: &ModelIdentity) -> ModelFields {
    let ModelIdentity { id, version, .. } = model.clone();
    let ModelIdentity {
        sha256,
        dimension,
        max_tokens,
        normalised,
        ..
    } = *model;
    (id, version, sha256, dimension, max_tokens, normalised)
}

/// Reason for a missing answer.
enum Failure {
    Client(Error),
    Timeout,
}

impl Failure {
    fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Client(error) => error::client(py, &error),
            Self::Timeout => error::timeout(py),
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
            .unwrap_or(Err(Failure::Timeout)),
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
