//! Reranking in the form of other vendors: their requests become the one sealed request, and its answer theirs.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use super::{JSON, Proxy, json_fields, seal_ready};
use crate::proxy::dialect::rerank::{AskedRanking, Form, Ranked, find_reranker};
use crate::proxy::refusal::{Refusal, Reply, reply};

impl Proxy {
    /// Translates a request for scores, and its answer.
    pub(super) async fn rerank(
        self: &Arc<Self>,
        request: Request<Incoming>,
        form: Form,
    ) -> Result<Reply, Refusal> {
        let (body, memory) = self.receive(request.into_body()).await?;
        let mut asked = AskedRanking::read(form, &body)?;
        if self.refuse_long && asked.truncate.replace(false) == Some(true) {
            return Err(Refusal::TRUNCATION);
        }
        let model = match asked.model.take() {
            Some(model) => model,
            None => match find_reranker(self.fetch_models().await?.body()) {
                Some(model) => model,
                None => self.connect().await?.manifest().model.id.clone(),
            },
        };
        let body = asked.sealed_body(&model)?;
        let sealed = seal_ready(Method::POST, "/v1/rerank", &json_fields(), body)?;
        let (parts, content) = self.send_to_read(sealed, memory).await?.into_parts();
        let ranked = Ranked::read(&content, asked.documents.len())?;
        let mut reply = reply(StatusCode::OK, JSON, ranked.write(form, &asked)?);
        if let Some(receipt) = parts.headers.get(protocol::terms::RECEIPT) {
            let fields = reply.headers_mut();
            fields.insert(protocol::terms::RECEIPT, receipt.clone());
        }
        Ok(reply)
    }
}
