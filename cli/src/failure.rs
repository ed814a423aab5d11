//! Failures of the client, as a user reads them.

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clearseal_client::Error;

use crate::notice::notice;
use crate::render;

/// Prints the report if the enclave was refused, and returns exit status 1; returns any other failure as an error.
pub(crate) fn report_failure(error: Error) -> Result<ExitCode> {
    match error {
        Error::Refused(report) => {
            render::refusal(&report)?;
            Ok(ExitCode::from(1))
        }
        Error::Withdrawn(ref report) => {
            render::refusal(report)?;
            notice(&format!("{error} ({}). {}", error.code(), error.remedy()));
            Ok(ExitCode::from(1))
        }
        Error::NoPolicy => bail!(
            "there is no trust policy to judge the enclave by: give --policy FILE, or --accept-simulated to develop against a simulated one"
        ),
        error => Err(describe(&error)),
    }
}

/// Formats message, code and remedy of a client's error.
pub(crate) fn describe(error: &Error) -> anyhow::Error {
    let (code, remedy) = (error.code().to_owned(), error.remedy().to_owned());
    anyhow!("{error} ({code}). {remedy}")
}
