//! Converts errors into the package's exceptions: `clearseal.ClearsealError` and its subclasses, each with `code` and `remedy`.

use attestation::{AttestationReport, PolicyError};
use clearseal_client::Error;
use protocol::items::ItemsError;
use pyo3::prelude::*;
use pyo3::types::PyAnyMethods;

/// Exception for a client error.
pub(crate) fn client(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Refused(report) => refused(py, report),
        Error::Withdrawn(report) => match serde_json::to_string(&**report) {
            Ok(json) => raise(py, "Withdrawn", (json, error.to_string(), error.remedy())),
            Err(_) => internal(py),
        },
        Error::Unreachable(problem) => {
            let arguments = (
                problem.code.as_str(),
                problem.detail.as_str(),
                problem.remedy,
                problem.status,
            );
            raise(py, "Unreachable", arguments)
        }
        error => other(py, error.code(), &error.to_string(), error.remedy()),
    }
}

/// Exception for a report that was not accepted.
pub(crate) fn refused(py: Python<'_>, report: &AttestationReport) -> PyErr {
    match serde_json::to_string(report) {
        Ok(json) => raise(py, "Refused", (json,)),
        Err(_) => internal(py),
    }
}

/// Exception for a report in JSON that was not accepted.
pub(crate) fn refused_json(py: Python<'_>, json: String) -> PyErr {
    raise(py, "Refused", (json,))
}

/// Exception for an invalid policy.
pub(crate) fn policy(py: Python<'_>, error: &PolicyError) -> PyErr {
    other(py, error.code(), &error.to_string(), error.remedy())
}

/// Exception for a proof that cannot be made or read.
pub(crate) fn items(py: Python<'_>, error: &ItemsError) -> PyErr {
    other(py, error.code(), &error.to_string(), error.remedy())
}

/// Exception for the caller's timeout.
pub(crate) fn timeout(py: Python<'_>) -> PyErr {
    let arguments = (
        "TIMEOUT",
        "there was no answer within the caller's timeout",
        "Try again, or set a longer timeout.",
        None::<u16>,
    );
    raise(py, "Unreachable", arguments)
}

/// Exception for a worker that ended early, or for another internal error.
pub(crate) fn internal(py: Python<'_>) -> PyErr {
    client(py, &Error::Internal)
}

/// Exception of the base class.
pub(crate) fn other(py: Python<'_>, code: &str, message: &str, remedy: &str) -> PyErr {
    raise(py, "ClearsealError", (code, message, remedy))
}

fn raise<'py>(py: Python<'py>, class: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("clearseal._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}
