//! A client of the simulated KMS: KMS's wire format without signatures, on a loopback address.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use axum::body::Body;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{Attempt, Decrypt, KeyService, KmsAnswer, MAX_ANSWER, Unavailable};

/// The address of `kms-simulator serve`.
pub(crate) struct Endpoint {
    uri: Uri,
    client: Client<HttpConnector, Body>,
}

impl Endpoint {
    /// Opens `http://127.0.0.1:PORT`, and logs a warning that it is not KMS.
    ///
    /// # Errors
    /// Where the URL has another scheme, or its host is not a loopback address.
    pub(crate) fn simulated(uri: &str) -> anyhow::Result<Self> {
        let uri: Uri = uri.parse().context("--simulate-kms is not a URL")?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        ensure!(
            uri.scheme_str() == Some("http") && loopback,
            "--simulate-kms must be http:// and a loopback address, such as http://127.0.0.1:8790"
        );
        tracing::warn!(
            code = "KMS_SIMULATED",
            "KMS is simulated: anyone who runs the simulation has the key, and it proves nothing"
        );
        Ok(Self {
            uri,
            client: Client::builder(TokioExecutor::new()).build_http(),
        })
    }
}

impl KeyService for Endpoint {
    fn decrypt<'a>(&'a self, request: &'a Decrypt) -> Attempt<'a> {
        Box::pin(async move {
            let failed = |error: &dyn std::fmt::Display| Unavailable(error.to_string());
            let body = serde_json::to_string(request).map_err(|error| failed(&error))?;
            let request = Request::post(&self.uri)
                .header("x-amz-target", "TrentService.Decrypt")
                .header(header::CONTENT_TYPE, "application/x-amz-json-1.1")
                .body(Body::from(body))
                .map_err(|error| failed(&error))?;
            let answer = self
                .client
                .request(request)
                .await
                .map_err(|error| failed(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER)
                .collect()
                .await
                .map_err(|error| failed(&error))?
                .to_bytes();
            // The error is dropped: serde quotes the answer in it.
            let body = serde_json::from_slice(&body)
                .map_err(|_| Unavailable("the answer is not JSON".to_owned()))?;
            Ok(KmsAnswer { status, body })
        })
    }
}
